# SPDX-License-Identifier: Apache-2.0
"""Documents of other formats, to grains and back, without a store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib import import_module
from os import PathLike, fspath
from os.path import basename, isdir
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omsgrain.batch import read_file
from omsgrain.errors import SchemaError

if TYPE_CHECKING:
    from omsgrain.formats.base import Format
    from omsgrain.formats.document import Dump, Import, Loss, Vector
    from omsgrain.formats.problems import DocumentError, Problem
    from omsgrain.formats.table import FORMATS, sniff
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

    Grains that the document carries whole come back as they were, if the document still says the
    same.

    Args:
        document: its bytes, or a path; for MIF in JSON-LD also a directory. The file name gives
            the layout and the shape of memories if the content does not.
        format: one of ``FORMATS``, or ``auto``: found from the content.
        **options: of the format.

    Raises:
        DocumentError: it breaks a rule of its format.
        UnsupportedError: its format is not known.
        SchemaError: no such format, or a text that cannot be the path of a file.
        OSError: the file cannot be read.
    """
    from omsgrain.formats.table import OF_DIRECTORIES, sniff

    if not isinstance(document, bytes) and isdir(document):
        known = OF_DIRECTORIES if format == "auto" else _known(format)
        found = known.load_directory(Path(document), **options)
        return _taken_back(found, options.get("user_id"))
    data = document if isinstance(document, bytes) else read_file(document)
    known = _known(sniff(data) if format == "auto" else format)
    if not isinstance(document, bytes):
        told = known.options_of_file(basename(fspath(document)), data)
        options |= {option: of for option, of in told.items() if options.get(option) is None}
    found = known.load(data, **options)
    return _taken_back(found, options.get("user_id")) if _may_carry(data, options) else found


def _taken_back(found: Import, user_id: str | None) -> Import:
    from omsgrain.formats.convert.convert import taken_back

    return taken_back(found, user_id)


def dump(
    grains: Import | Iterable[Grain],
    *,
    format: str,
    vectors: Mapping[str, Vector] | None = None,
    **options: Any,
) -> Dump:
    """Make a document of grains; one that was loaded comes back as it was.

    Records of other formats are converted. Unless ``strict`` is given, the document also carries
    the grains whole, and nothing is lost.

    Args:
        grains: what ``load`` gave, or any grains.
        format: one of ``FORMATS``.
        vectors: embeddings by address, if the grains are not what ``load`` gave.
        **options: of the format; all have ``strict`` and ``embeddings``, and a new document has
            ``user_id`` and ``exported_at``; MIF in JSON-LD also has ``shape``. With ``local``,
            memories of the namespace ``_local`` are exported too.

    Raises:
        SchemaError: no such format, or the format cannot be made of these grains.
    """
    from omsgrain.formats.document import Import

    if isinstance(grains, Import):
        vectors = grains.vectors if vectors is None else vectors
        grains = grains.grains
    from omsgrain.formats.convert import convert
    from omsgrain.formats.mif_ld.document import without_local

    to, listed = _known(format), list(grains)
    stay: list[Loss] = []
    local = options.pop("local", False)
    foreign = convert.is_foreign(listed, to)
    if to.leaves_local and not foreign:
        options["local"] = local
    elif not local:
        listed, stay = without_local(listed)
    if foreign:
        if "tenant_id" in options:  # what AIMEM calls a user
            options["user_id"] = options.pop("tenant_id")
        return _with(convert.dump(listed, vectors or {}, to, **options), stay)
    options = to.own_options(listed, options)
    return _with(to.dump(listed, dict(vectors or {}), **options), stay)


def _with(written: Dump, more: list[Loss]) -> Dump:
    return replace(written, losses=[*more, *written.losses]) if more else written


def _known(name: str) -> Format:
    from omsgrain.formats.table import FORMATS

    if name not in FORMATS:
        raise SchemaError("no such format", field="/format", expected=", ".join(FORMATS))
    return FORMATS[name]


def _may_carry(data: bytes, options: Mapping[str, Any]) -> bool:
    """Whether grains may have gone along in a document; of a sealed one nothing is seen."""
    sealed = options.get("passphrase") is not None or options.get("key") is not None
    if sealed or b"x_omsgrain" in data:
        return True
    return b"omsgrain" in data and (b"grains" in data or b"blob" in data)


_MODULES = {
    "FORMATS": "table",
    "sniff": "table",
    "DocumentError": "problems",
    "Problem": "problems",
    "Dump": "document",
    "Import": "document",
    "Loss": "document",
    "Vector": "document",
}
"""The module of each name; every store imports this package, and needs none of them."""


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"omsgrain.formats.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
