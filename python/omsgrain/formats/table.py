# SPDX-License-Identifier: Apache-2.0
"""All formats of documents: which of them a document is of, its grains, and a document of grains.

The content decides: file names say little. A document names its format in a member, nearly always
at its beginning, so nothing is parsed for that. A document that is cut short or broken still names
its format.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from os import PathLike, fspath
from os.path import basename, isdir
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypedDict

from omsgrain.batch import read_file
from omsgrain.container.layout import MAGIC
from omsgrain.errors import SchemaError, UnsupportedError
from omsgrain.formats.aimem.format import AIMEM
from omsgrain.formats.base import HEAD, Format, Said
from omsgrain.formats.document import Dump, Import, Vector
from omsgrain.formats.foreign.areev import AREEV
from omsgrain.formats.foreign.claude_memory import CLAUDE_MEMORY
from omsgrain.formats.foreign.langgraph import LANGGRAPH
from omsgrain.formats.foreign.letta import LETTA
from omsgrain.formats.foreign.mcp_memory import MCP_MEMORY
from omsgrain.formats.foreign.mem0 import MEM0
from omsgrain.formats.foreign.okf import OKF
from omsgrain.formats.mif import Mif
from omsgrain.formats.mif1.format import MIF1
from omsgrain.formats.mif2.format import MIF2
from omsgrain.formats.mif_ld.format import MIF_LD
from omsgrain.grain import Grain

if TYPE_CHECKING:
    from typing_extensions import Unpack

FORMATS: Final[dict[str, Format]] = {
    one.name: one
    for one in (
        AIMEM,
        MIF2,
        MIF1,
        MIF_LD,
        MCP_MEMORY,
        MEM0,
        CLAUDE_MEMORY,
        LANGGRAPH,
        LETTA,
        AREEV,
        OKF,
    )
}
"""The formats by their names."""
VERSIONS: Final[dict[str, Mif]] = {
    name: one for name, one in FORMATS.items() if isinstance(one, Mif)
}
"""The versions of MIF."""
DOCUMENTS: Final = {
    name: one for name, one in FORMATS.items() if name in VERSIONS or one.translated
}
"""The formats whose records are imported one by one: the versions of MIF, and other systems'."""
OF_DIRECTORIES: Final = next(one for one in VERSIONS.values() if one.reads_directories)
"""The format of a directory whose files do not say another one."""
CONTAINER: Final = "mg"
"""The name of .mg files, which hold grains as they are."""
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


def of_grains(head: bytes) -> str | None:
    """Name the format of a file that holds grains, by its first bytes; None of any other file."""
    holding = (one for one in FORMATS.values() if one.holds_grains)
    known = (one.name for one in holding if head.startswith(one.magic))
    return next(known, CONTAINER if head.startswith(MAGIC) else None)


def sniff_file(path: Path) -> str:
    """Name the format of a file, or ``mg``; of most files only the beginning is read."""
    with path.open("rb") as file:
        if not file.seekable():
            raise read_once()
        head = file.read(HEAD)
        if (grains := of_grains(head)) is not None:
            return grains
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


def sniff_directory(root: Path) -> str:
    """Name the format of a directory."""
    known = (one for one in FORMATS.values() if one.reads_directories)
    return next((one.name for one in known if one.sniff_directory(root)), OF_DIRECTORIES.name)


def version(name: str) -> Mif:
    """A version of MIF by its name."""
    if name not in VERSIONS:
        expected = ", ".join(VERSIONS)
        raise SchemaError("not a version of MIF", field="/format", expected=expected)
    return VERSIONS[name]


def _told(said: Said) -> Format | None:
    return next((one for one in FORMATS.values() if one.sniff(said)), None)


def only_read(format: Format) -> UnsupportedError:
    """The error for a format that is read and never written."""
    expected = ", ".join(name for name, one in FORMATS.items() if one.writes)
    return UnsupportedError(f"{format.title} is only read", expected=expected, found=format.name)


def read_once() -> UnsupportedError:
    """The error for a pipe in place of a file that is read twice."""
    says = "a pipe can be read only once"
    return UnsupportedError(says, expected="a file", found="a pipe")


def _unknown() -> UnsupportedError:
    known = ", ".join((*FORMATS, CONTAINER))
    return UnsupportedError("the format of the document is not known", expected=known)


# -- documents to grains and back -----------------------------------------------------------------


class LoadOptions(TypedDict, total=False):
    """The options of ``load``; each format has some of them.

    Attributes:
        user_id: the user of the grains; not in AIMEM, where the bundle names its tenant.
        exact: keep the layout of the text, so that ``dump`` gives the same bytes; MIF.
        layout: how the file is laid out, if the content does not show it; MIF 1.0: "json", "yaml"
            or "jsonl"; MIF in JSON-LD: "document", "array", "lines", "corpus" or "markdown".
        shape: the shape of memories, "0.1" or "1.x"; MIF in JSON-LD.
        mode: "schema", "lenient" or "extra"; MIF in JSON-LD.
        strict_published: check shape 0.1 by its published variant; MIF in JSON-LD.
        passphrase: opens an encrypted document; MIF 1.0.
        key: opens it in place of a passphrase; MIF 1.0.
        limits: limits of the format.
    """

    user_id: str | None
    exact: bool
    layout: str | None
    shape: str | None
    mode: str
    strict_published: bool
    passphrase: str | None
    key: bytes | None
    limits: Any


class DumpOptions(TypedDict, total=False):
    """The options of ``dump``; each format has some of them.

    Attributes:
        user_id: the user of a new document.
        tenant_id: the same, as AIMEM calls it.
        exported_at: the time of a new document, RFC 3339.
        strict: write a new document without the grains themselves; the result lists the losses.
        embeddings: write the vectors too.
        exact: write the same bytes as those that were loaded with ``exact``; MIF.
        local: also export memories of the namespace ``_local``.
        layout: as for ``load``.
        shape: as for ``load``.
        producer: the name of the writing program; AIMEM.
        passphrase: encrypts the document; MIF 1.0.
        key: encrypts it in place of a passphrase; MIF 1.0.
    """

    user_id: str | None
    tenant_id: str | None
    exported_at: str | None
    strict: bool
    embeddings: bool | None
    exact: bool
    local: bool
    layout: str | None
    shape: str | None
    producer: str | None
    passphrase: str | None
    key: bytes | None


def load(
    document: bytes | str | PathLike[str],
    *,
    format: str = "auto",
    **options: Unpack[LoadOptions],
) -> Import:
    """Make grains of a document.

    Grains that the document carries whole come back as they were, if the document still says the
    same.

    Args:
        document: its bytes, or a path; for MIF in JSON-LD also a directory. The file name gives
            the layout and the shape of memories if the content does not.
        format: one of ``FORMATS``, or ``auto``: found from the content.
        **options: those of the format, of ``omsgrain.formats.table.LoadOptions``.

    Raises:
        DocumentError: it breaks a rule of its format.
        UnsupportedError: its format is not known.
        SchemaError: no such format, or a text that cannot be the path of a file.
        OSError: the file cannot be read.
    """
    given: dict[str, Any] = {**options}
    user_id = options.get("user_id")
    if not isinstance(document, bytes) and isdir(document):
        root = Path(document)
        known = _known(sniff_directory(root) if format == "auto" else format)
        return _taken_back(known.load_directory(root, **given), user_id)
    if not isinstance(document, bytes) and (base := _database(document, format)) is not None:
        return base.load_file(Path(document), **given)
    data = document if isinstance(document, bytes) else read_file(document)
    known = _known(sniff(data) if format == "auto" else format)
    if not isinstance(document, bytes):
        told = known.options_of_file(basename(fspath(document)), data)
        given |= {option: of for option, of in told.items() if given.get(option) is None}
    found = known.load(data, **given)
    return _taken_back(found, user_id) if _may_carry(data, given) else found


def _taken_back(found: Import, user_id: str | None) -> Import:
    from omsgrain.formats.convert.convert import taken_back

    return taken_back(found, user_id)


def dump(
    grains: Import | Iterable[Grain],
    *,
    format: str,
    vectors: Mapping[str, Vector] | None = None,
    **options: Unpack[DumpOptions],
) -> Dump:
    """Make a document of grains; one that was loaded comes back as it was.

    Records of other formats are converted. Unless ``strict`` is given, the document also carries
    the grains whole, and nothing is lost.

    Args:
        grains: what ``load`` gave, or any grains.
        format: one of ``FORMATS`` that is written.
        vectors: embeddings by address, if the grains are not what ``load`` gave.
        **options: those of the format, of ``omsgrain.formats.table.DumpOptions``.

    Raises:
        SchemaError: no such format, or the format cannot be made of these grains.
    """
    if isinstance(grains, Import):
        vectors = grains.vectors if vectors is None else vectors
        grains = grains.grains
    from omsgrain.formats.convert import convert

    to = _known(format)
    if not to.writes:
        raise only_read(to)
    given: dict[str, Any] = {**options}
    if "tenant_id" in given:  # what AIMEM calls a user
        given["user_id"] = given.pop("tenant_id")
    return convert.dump(grains, vectors or {}, to, **given)


def _database(path: str | PathLike[str], format: str) -> Format | None:
    """The format of a file that is not read as bytes; None for any other."""
    bases = {name: one for name, one in FORMATS.items() if one.opens_files}
    if format != "auto":
        return bases.get(format)
    with suppress(OSError, ValueError):  # whoever reads it names what is wrong
        return bases.get(sniffed(Path(path)) or "") if bases else None
    return None


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
