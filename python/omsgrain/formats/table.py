# SPDX-License-Identifier: Apache-2.0
"""All formats of documents: which of them a document is of, its grains, and a document of grains.

The content decides: file names say little. A document names its format in a member, nearly always
at its beginning, so nothing is parsed for that. A document that is cut short or broken still names
its format.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from os import PathLike, fspath
from os.path import basename, isdir
from pathlib import Path
from typing import Any, Final

from omsgrain.batch import read_file
from omsgrain.container.layout import MAGIC
from omsgrain.errors import SchemaError, UnsupportedError
from omsgrain.formats.aimem.format import AIMEM
from omsgrain.formats.base import HEAD, Format, Said
from omsgrain.formats.document import Dump, Import, Loss, Vector
from omsgrain.formats.mif import Mif
from omsgrain.formats.mif1.format import MIF1
from omsgrain.formats.mif2.format import MIF2
from omsgrain.formats.mif_ld.document import without_local
from omsgrain.formats.mif_ld.format import MIF_LD
from omsgrain.grain import Grain

FORMATS: Final[dict[str, Format]] = {one.name: one for one in (AIMEM, MIF2, MIF1, MIF_LD)}
"""The formats by their names."""
VERSIONS: Final[dict[str, Mif]] = {
    name: one for name, one in FORMATS.items() if isinstance(one, Mif)
}
"""The versions of MIF."""
OF_DIRECTORIES: Final = next(one for one in FORMATS.values() if one.reads_directories)
"""The format whose documents also stand in the files of a directory."""
CONTAINER: Final = "mg"
"""What holds grains as they are."""
_MOST: Final = 100 << 20
"""Bytes that are read of a document whose beginning does not name its format."""


def sniff(data: bytes) -> str:
    """Name the format of a document.

    Raises:
        UnsupportedError: none that is known.
    """
    told = _told(Said(data))
    if told is None:
        raise _unknown()
    return told.name


def sniff_file(path: Path) -> str:
    """Name the format of a file, or ``mg``; of most files only the beginning is read."""
    with path.open("rb") as file:
        if not file.seekable():
            raise read_once()
        head = file.read(HEAD)
        if head.startswith(MAGIC):
            return CONTAINER
        said = Said(head)
        told = _told(said)
        if told is None and said.is_object:
            told = _told(Said(head + file.read(_MOST)))
        if told is None:
            raise _unknown()
        return told.name


def sniffed(path: Path) -> str | None:
    """Name the format of a file; None if none is known, or there is no file."""
    with suppress(UnsupportedError, FileNotFoundError, IsADirectoryError):
        return sniff_file(path)
    return None


def version(name: str) -> Mif:
    """A version of MIF by its name."""
    if name not in VERSIONS:
        expected = ", ".join(VERSIONS)
        raise SchemaError("not a version of MIF", field="/format", expected=expected)
    return VERSIONS[name]


def _told(said: Said) -> Format | None:
    return next((one for one in FORMATS.values() if one.sniff(said)), None)


def read_once() -> UnsupportedError:
    """The error for a pipe in place of a file that is read twice."""
    says = "a pipe can be read only once"
    return UnsupportedError(says, expected="a file", found="a pipe")


def _unknown() -> UnsupportedError:
    known = ", ".join((*FORMATS, CONTAINER))
    return UnsupportedError("the format of the document is not known", expected=known)


# -- documents to grains and back -----------------------------------------------------------------


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
    if isinstance(grains, Import):
        vectors = grains.vectors if vectors is None else vectors
        grains = grains.grains
    from omsgrain.formats.convert import convert

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
    if name not in FORMATS:
        raise SchemaError("no such format", field="/format", expected=", ".join(FORMATS))
    return FORMATS[name]


def _may_carry(data: bytes, options: Mapping[str, Any]) -> bool:
    """Whether grains may have gone along in a document; of a sealed one nothing is seen."""
    sealed = options.get("passphrase") is not None or options.get("key") is not None
    if sealed or b"x_omsgrain" in data:
        return True
    return b"omsgrain" in data and (b"grains" in data or b"blob" in data)
