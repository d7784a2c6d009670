# SPDX-License-Identifier: Apache-2.0
"""How large a bundle and its parts may be."""

from __future__ import annotations

from dataclasses import dataclass

from omsgrain.formats.reading import VALUES

__all__ = ["LIMITS", "LOCAL", "NAME", "PRODUCER", "TAG", "TEXT", "Limits"]

PRODUCER = 63
"""Characters of a producer namespace. Spec: AIMEM §2.3"""
LOCAL = 256
"""Characters of an identifier behind its producer. Spec: AIMEM §2.3"""
TAG = 64
"""Code points of a tag. Spec: AIMEM §2.2"""
NAME = 2_048
"""Code points of the id of a tenant, a model, a type of edge, a kind of entity. Ours."""
TEXT = 65_536
"""Code points of a content, which the draft asks for; of an entity's name, which is ours."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a reader takes. Whatever is larger is refused before it is parsed.

    Attributes:
        document: bytes of a bundle in one JSON document; a larger one comes by lines.
        values: values of such a document, keys not counted.
        line: bytes of a line of NDJSON.
        depth: objects and arrays inside one another.
        content: code points of a chunk's content. Spec: AIMEM §2.2
        dimension: floats of an embedding.
    """

    document: int = 64 << 20
    values: int = VALUES
    line: int = 8 << 20
    depth: int = 64
    content: int = TEXT
    dimension: int = 65_536


LIMITS = Limits()
