# SPDX-License-Identifier: Apache-2.0
"""Containers: many grains in one .mg file, and streams of grains. Spec: OMS §11.

layout    the bytes around the grains; the manifest
region    the bytes of the grains, packed or not
read      any grain, without loading the file; is this a grain
write     a file, or several
verify    checks of every byte, with named problems
stream    grains over a pipe, a socket or a network
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


def __dir__() -> list[str]:
    return __all__
