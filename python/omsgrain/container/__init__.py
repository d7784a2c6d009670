# SPDX-License-Identifier: Apache-2.0
"""Containers: many grains in one .mg file, and streams of grains. Spec: OMS §11.

layout              the bytes around the grains
check, block        is this a grain; are these grains
write               order, assemble: a file, or several
read                inside, region: any grain, without loading the file
verify              every byte, and the name of what is wrong
manifest            state of the grains, beside them
stream, packed      grains over a pipe, a socket or a network
"""

from omsgrain.container.layout import ContainerHeader, ContainerProblem, parts
from omsgrain.container.read import Container, read
from omsgrain.container.stream import read_stream, write_stream
from omsgrain.container.verify import ContainerReport, verify
from omsgrain.container.write import WrittenContainer, write

__all__ = [
    "Container",
    "ContainerHeader",
    "ContainerProblem",
    "ContainerReport",
    "WrittenContainer",
    "parts",
    "read",
    "read_stream",
    "verify",
    "write",
    "write_stream",
]
