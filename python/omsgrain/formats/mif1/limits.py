# SPDX-License-Identifier: Apache-2.0
"""How large a document and its parts may be."""

from __future__ import annotations

from dataclasses import dataclass

from omsgrain.formats.reading import VALUES

__all__ = ["CONTENT", "LIMITS", "TASK", "Limits"]

CONTENT = 100_000
"""Code points of a memory's content that the published schema allows; the SEP has no limit."""
TASK = 10_000
"""Code points of a todo's content that the published schema allows; the SEP has no limit."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a reader takes. Whatever is larger is refused before it is parsed.

    Attributes:
        document: bytes of a document. Spec: MIF 1.0, Security Considerations 5
        values: values of it, keys not counted.
        line: bytes of a line of JSON lines.
        depth: objects and arrays inside one another; at most 128.
        aliases: values that the aliases of a YAML text stand for, all together.
        memory_kib: that the opening of an envelope may use, KiB.
        iterations: that the opening of an envelope may run.
        parallelism: lanes that the opening of an envelope may have.
    """

    document: int = 100 << 20
    values: int = VALUES
    line: int = 16 << 20
    depth: int = 128
    aliases: int = 10_000
    memory_kib: int = 1 << 20
    iterations: int = 16
    parallelism: int = 16


LIMITS = Limits()
