# SPDX-License-Identifier: Apache-2.0
"""Documents of other formats, to grains and back, without a store.

problems    what is wrong with a document
reading     JSON whose meaning is certain
times       times as text
source      the side channel of a grain that was a record
packed      embeddings that came as arrays of numbers
raw         what is too large for one grain
records     records of any format as grains, and back
exact       how a text is spelled
document    a whole document: records, and a manifest of what stood around them
sniff       which format a document is of
aimem       AIMEM bundles
mif2        MIF 2.0 documents
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from omsgrain.errors import SchemaError
from omsgrain.formats.document import Dump, Import, Loss, Vector
from omsgrain.formats.problems import DocumentError, Problem
from omsgrain.formats.sniff import FORMATS, sniff
from omsgrain.grain import Grain

__all__ = [
    "FORMATS",
    "DocumentError",
    "Dump",
    "Import",
    "Loss",
    "Problem",
    "Vector",
    "dump",
    "load",
    "sniff",
]


def load(document: bytes | str | PathLike[str], *, format: str = "auto", **options: Any) -> Import:
    """Make grains of a document.

    Args:
        document: its bytes, or a path.
        format: one of ``FORMATS``, or ``auto``: told from the content.
        **options: of the format.

    Raises:
        DocumentError: it breaks a rule of its format.
        UnsupportedError: it is of no format that is known.
        SchemaError: no such format.
        OSError: the file cannot be read.
    """
    data = document if isinstance(document, bytes) else Path(document).read_bytes()
    if format == "auto":
        format = sniff(data)
    if format == "aimem":
        from omsgrain.formats.aimem import convert

        return convert.load(data, **options)
    if format == "mif2":
        from omsgrain.formats.mif2 import convert as mif2

        return mif2.load(data, **options)
    raise SchemaError("no such format", field="/format", expected=", ".join(FORMATS))


def dump(
    grains: Import | Iterable[Grain],
    *,
    format: str,
    vectors: Mapping[str, Vector] | None = None,
    **options: Any,
) -> Dump:
    """Make a document of grains; one that was loaded comes back as it was.

    Args:
        grains: what ``load`` gave, or any grains.
        format: one of ``FORMATS``.
        vectors: embeddings by address, if the grains are not what ``load`` gave.
        **options: of the format.

    Raises:
        SchemaError: no such format, or the format cannot be made of these grains.
    """
    if isinstance(grains, Import):
        vectors = grains.vectors if vectors is None else vectors
        grains = grains.grains
    if format == "aimem":
        from omsgrain.formats.aimem import convert

        return convert.dump(grains, dict(vectors or {}), **options)
    if format == "mif2":
        from omsgrain.formats.mif2 import convert as mif2

        return mif2.dump(grains, vectors, **options)
    raise SchemaError("no such format", field="/format", expected=", ".join(FORMATS))
