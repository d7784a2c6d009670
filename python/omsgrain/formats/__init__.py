# SPDX-License-Identifier: Apache-2.0
"""Documents of other formats, to grains and back, without a store.

problems    what is wrong with a document
reading     JSON whose meaning is certain
yaml_reader the same tree in YAML
times       times as text
source      the side channel of a grain that was a record
packed      embeddings that came as arrays of numbers
raw         what is too large for one grain
orders      the order of a record's keys
kinds       how records of one kind become grains
records     records of any format as grains, and back
listed      documents whose records stand in arrays
shapes      objects by tables of their fields
exact       how a text is spelled
document    a whole document: records, and a manifest of what stood around them
arrays      the arrays of records in a document
checksums   checksums of documents
members     members of objects that may be anything
uuids       UUIDs as texts
sniff       which format a document is of
model       what formats of agent memory have in common
across      from one format to another
aimem       AIMEM bundles
mif1        MIF 1.0 documents, in JSON, YAML and JSON lines
mif2        MIF 2.0 documents
mif_ld      MIF in JSON-LD: memories, corpora of them, and in Markdown
ontology    what memories of MIF in JSON-LD are about
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib import import_module
from os import PathLike, fspath
from os.path import basename, isdir
from pathlib import Path
from types import ModuleType
from typing import Any

from omsgrain.batch import read_file
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

    Grains of another format that went along in it, or that never were a record, come back as they
    were, where the document still says what they do.

    Args:
        document: its bytes, or a path; of MIF in JSON-LD also that of a directory. The name of a
            file says how memories stand in it, and their shape, where its content does not.
        format: one of ``FORMATS``, or ``auto``: told from the content.
        **options: of the format.

    Raises:
        DocumentError: it breaks a rule of its format.
        UnsupportedError: it is of no format that is known.
        SchemaError: no such format, or a text that cannot be the path of a file.
        OSError: the file cannot be read.
    """
    if not isinstance(document, bytes) and isdir(document):
        return _directory(document, format, options)
    data = document if isinstance(document, bytes) else read_file(document)
    if format == "auto":
        format = sniff(data)
    if format == "mif-ld" and not isinstance(document, bytes):
        from omsgrain.formats.mif_ld.corpus import layout_of_file, shape_of_name

        name = basename(fspath(document))
        told = {"layout": layout_of_file(name, data), "shape": shape_of_name(name)}
        options |= {option: of for option, of in told.items() if options.get(option) is None}
    found: Import = _format(format).load(data, **options)
    if _may_carry(data, options):
        from omsgrain.formats.convert.returning import taken_back

        return taken_back(found, options.get("user_id"))
    return found


def _directory(root: str | PathLike[str], format: str, options: dict[str, Any]) -> Import:
    """Make grains of the memories in a directory."""
    from omsgrain.formats.convert.returning import taken_back
    from omsgrain.formats.mif_ld.corpus import load_directory

    if format not in ("auto", "mif-ld"):
        raise SchemaError("a directory has memories of MIF in JSON-LD", field="/format",
                          expected="mif-ld", found=format)  # fmt: skip
    return taken_back(load_directory(Path(root), **options), options.get("user_id"))


def dump(
    grains: Import | Iterable[Grain],
    *,
    format: str,
    vectors: Mapping[str, Vector] | None = None,
    **options: Any,
) -> Dump:
    """Make a document of grains; one that was loaded comes back as it was.

    Records of other formats are said in the words of this one. Unless ``strict`` is given, the
    grains go along whole, and nothing is lost.

    Args:
        grains: what ``load`` gave, or any grains.
        format: one of ``FORMATS``.
        vectors: embeddings by address, if the grains are not what ``load`` gave.
        **options: of the format; all have ``strict`` and ``embeddings``, and what is made anew
            ``user_id`` and ``exported_at``; of MIF in JSON-LD also ``shape``. With ``local``
            memories of the namespace ``_local`` leave too.

    Raises:
        SchemaError: no such format, or the format cannot be made of these grains.
    """
    if isinstance(grains, Import):
        vectors = grains.vectors if vectors is None else vectors
        grains = grains.grains
    own, listed = _format(format), list(grains)
    from omsgrain.formats.convert import convert
    from omsgrain.formats.convert.aimem import tenant_of

    stay: list[Loss] = []
    local = options.pop("local", False)
    foreign = convert.is_foreign(listed, format)
    if not foreign and format == "mif-ld":
        options["local"] = local
    elif not local:
        from omsgrain.formats.mif_ld.document import without_local

        listed, stay = without_local(listed)
    if foreign:
        if "tenant_id" in options:  # what AIMEM calls a user
            options["user_id"] = options.pop("tenant_id")
        return _with(convert.dump(listed, vectors or {}, format, **options), stay)
    if format == "aimem":
        users = {grain.get("user_id") for grain in listed}
        only = users.pop() if len(users) == 1 else None
        options["tenant_id"] = tenant_of(
            options.pop("user_id", None) or options.get("tenant_id") or only
        )
    elif any(options.pop(name, None) is not None for name in ("user_id", "exported_at")):
        says = "a document of its own format keeps whose it is, and when it was made"
        raise SchemaError(says, field="/user_id", expected="neither")
    else:
        options.pop("strict", None)  # a document of its own format has nothing besides
    written: Dump = own.dump(listed, dict(vectors or {}), **options)
    return _with(written, stay)


def _with(written: Dump, more: list[Loss]) -> Dump:
    return replace(written, losses=[*more, *written.losses]) if more else written


def _format(name: str) -> ModuleType:
    """Where a format is read and written."""
    if name not in FORMATS:
        raise SchemaError("no such format", field="/format", expected=", ".join(FORMATS))
    return import_module(f"omsgrain.formats.{name.replace('-', '_')}.convert")


def _may_carry(data: bytes, options: Mapping[str, Any]) -> bool:
    """Whether grains may have gone along in a document; of a sealed one nothing is seen."""
    sealed = options.get("passphrase") is not None or options.get("key") is not None
    if sealed or b"x_omsgrain" in data:
        return True
    return b"omsgrain" in data and (b"grains" in data or b"blob" in data)
