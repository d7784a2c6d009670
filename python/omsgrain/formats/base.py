# SPDX-License-Identifier: Apache-2.0
"""The contract of a format. Each format is an object in its folder; `table` lists them all."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NamedTuple, TypeAlias

from omsgrain import _core, formats
from omsgrain.durable import NewFiles
from omsgrain.errors import SchemaError, UnsupportedError
from omsgrain.formats import model
from omsgrain.formats.document import Import, Loss, Manifest, check_exact, spelled
from omsgrain.formats.json_text import looked_into, spell
from omsgrain.formats.problems import DocumentFindings
from omsgrain.formats.records import Record, RecordTable
from omsgrain.formats.source import Get, Source
from omsgrain.grain import Grain

if TYPE_CHECKING:
    from omsgrain.formats.convert.base import Hub
    from omsgrain.formats.mif_ld.records import Shape

Records: TypeAlias = dict[str, list[Record]]

HEAD: Final = 64 << 10
"""Bytes of a document in which its first character is looked for."""
_BOM: Final = b"\xef\xbb\xbf"
_VERSION: Final = "mif_version"
_ONE = re.compile(r"1(?:\.|$)")
_SAYS: Final = ["format", _VERSION]
_MEMBERS: Final = [*_SAYS, "encryption", "$schema", "@type", "@id", "memoryType", "conceptType"]


class Said:
    """The members of a document that tell its format, read no further than needed."""

    def __init__(self, data: bytes) -> None:
        self.data, self.text = data, data.removeprefix(_BOM)
        first = self.text[:HEAD].lstrip()[:1]
        self.is_object, self.is_array = first == b"{", first == b"["

    @cached_property
    def _first(self) -> dict[str, Any]:
        """The members up to the first one that names a format or a version."""
        return dict(_core.json_members(self.text, _MEMBERS, _SAYS))

    @property
    def format(self) -> Any:
        return self._first.get("format")

    @cached_property
    def version(self) -> str | int | float | None:
        """The member ``mif_version``; None if it can be no version."""
        found = self._first
        if "format" in found:
            found = dict(_core.json_members(self.text, _MEMBERS, [_VERSION]))
        if _VERSION not in found:
            return None
        value: Any = found[_VERSION]
        if value is None:  # a number, say
            document = looked_into(self.text)
            value = document.get(_VERSION) if isinstance(document, dict) else None
        good = isinstance(value, str | int | float) and not isinstance(value, bool)
        return value if good else None

    @property
    def is_version_1(self) -> bool:
        return self.version is not None and _ONE.match(str(self.version)) is not None

    @cached_property
    def members(self) -> dict[str, Any]:
        """All members that tell the format; None for a value that is not a text."""
        return dict(_core.json_members(self.text, _MEMBERS, []))


class Spelling(NamedTuple):
    """How a document is to be written."""

    layout: Any
    shape: Shape | None
    exact: bool  # as the one that was loaded
    local: bool  # with memories of the namespace ``_local``
    get: Get


class Format(ABC):
    """A format of documents: what is known of it, and how its documents are read and written."""

    name: ClassVar[str]  # as in `formats.load` and in the side channel of grains
    title: ClassVar[str]  # its name in messages
    suffixes: ClassVar[tuple[str, ...]]  # the suffixes of its files
    # the values of the member ``format`` by which a document names it
    names: ClassVar[tuple[str, ...]] = ()
    limits: ClassVar[Any]  # of its reader
    # of its writer, besides those of all: ``layout``, ``shape``, ``producer``, ``passphrase``,
    # ``key``
    options: ClassVar[frozenset[str]] = frozenset()
    # those of them that follow from a file name
    named_options: ClassVar[frozenset[str]] = frozenset()
    # of its reader, besides those of all: ``passphrase``, ``mode``
    load_options: ClassVar[frozenset[str]] = frozenset()
    # whether a signature covers the canonical text, not the bytes of the file
    signed_as_text: ClassVar[bool] = False
    arrays: ClassVar[Mapping[str, str]]  # the kinds of records, by the pointer of their array
    hub: ClassVar[Hub]  # its records as items of the model, and back
    table: ClassVar[RecordTable | None] = None  # its kinds of records as grains, if it has its own
    embeddings: ClassVar[bool] = True  # whether embeddings are written by default
    # the member with the id of an export; None if the format has none
    export_member: ClassVar[str | None] = None
    # whether an id of another system is the ``id`` itself or in a ``member``
    external: ClassVar[Literal["id", "member"] | None] = None
    relation_ids: ClassVar[bool] = False  # whether relations have ids
    # kinds that are written as another kind, and share its ids
    spaces: ClassVar[Mapping[model.Kind, model.Kind]] = {}
    ordered: ClassVar[bool] = True  # whether the order of keys is kept
    # whether it makes records of grains that never were one by itself
    takes_natives: ClassVar[bool] = False
    # whether its own writer leaves out memories of the namespace ``_local``
    leaves_local: ClassVar[bool] = False
    # whether a document can also be a directory of files
    reads_directories: ClassVar[bool] = False
    # whether a grain is stored in the record that was made of it; else all grains are stored
    # beside the records
    carries_inside: ClassVar[bool] = True
    # whether embeddings that no record has are stored with these grains
    carries_vectors: ClassVar[bool] = False
    # whether its documents are read through the file system, not as bytes: databases
    opens_files: ClassVar[bool] = False
    writes: ClassVar[bool] = True  # whether documents of it are written too
    writes_directories: ClassVar[bool] = False  # whether they are written as directories only
    # whether it is the format of another system, whose records become those of MIF 2.0
    translated: ClassVar[bool] = False
    # whether its files hold grains as they are, so that no record is made of them
    holds_grains: ClassVar[bool] = False
    magic: ClassVar[bytes] = b""  # what such a file begins with
    vendors: ClassVar[bool] = False  # whether it has a place for members of other systems
    counters: ClassVar[bool] = False  # whether its envelope counts how often the records were read
    made_anew: ClassVar[frozenset[str]] = frozenset()  # members that every new document has
    # relations of beliefs that the type of a memory implies
    said_by_type: ClassVar[frozenset[str]]

    def sniff(self, said: Said) -> bool:
        """Whether a document says that it is of this format."""
        return said.is_object and said.format in self.names

    @abstractmethod
    def load(self, *args: Any, **options: Any) -> Import:
        """Make grains of a document."""

    def load_file(self, path: Path, *args: Any, **options: Any) -> Import:
        """Make grains of the document in a file."""
        return self.load(self.read_bytes(path), *args, **options)

    def sniff_directory(self, root: Path) -> bool:
        """Whether the files of a directory say that it is of this format."""
        return False

    def files_in(self, root: Path) -> Iterator[Path]:
        """The files of a directory that `load_directory` reads."""
        return iter(())

    def load_directory(self, root: Path, *args: Any, **options: Any) -> Import:
        says = f"a directory is no document of {self.title}"
        raise SchemaError(says, field="/format", found=self.name)

    def options_of_file(self, name: str, data: bytes) -> dict[str, Any]:
        """The options of `load` that follow from a file name."""
        return {}

    def record_of(
        self, grain: Grain, get: Get, source: Source | None = None
    ) -> tuple[str, Record] | None:
        """The kind and the record that a grain was; None if it was no record of this format."""
        return None if self.table is None else self.table.from_grain(grain, get, source)

    def refuse(self, **given: Any) -> None:
        """Refuse options of `dump` that this format has nothing for."""
        for option, value in given.items():
            if value is not None and option not in self.options:
                field = f"/{option}" if option in ("shape", "producer") else "/format"
                raise SchemaError(f"{self.title} has no {option}", field=field, found=self.name)

    # -- files ------------------------------------------------------------------------------------

    def read_bytes(self, path: Path) -> bytes:
        """The document in a file; at most one byte more than the limit."""
        with path.open("rb") as source:
            data: bytes = source.read(self.limits.document + 1)
        return data

    def left_out(self, found: Import) -> list[Loss]:
        """The records that the load left out of a document."""
        return []

    def is_sealed(self, path: Path) -> bool:
        return False

    def write_file(
        self, read: Import, path: Path, options: dict[str, Any], *, replace: bool
    ) -> list[Loss]:
        """Write a file of any grains, and return what it cannot hold."""
        wanted = {name: value for name, value in options.items() if value is not None}
        if "producer" not in self.options:
            wanted.pop("producer", None)
        dumped = formats.dump(read, format=self.name, **wanted, **self.options_of_path(path))
        with NewFiles(replace=replace) as files:
            files.add(path, self.laid_out(path, dumped.data))
        return [*dumped.losses, *dumped.added]

    def options_of_path(self, path: Path) -> dict[str, Any]:
        """The options of `dump` that follow from a file name."""
        return {}

    def laid_out(self, path: Path, data: bytes) -> Iterable[bytes]:
        """A document as it is laid out in a file with this name."""
        return [data]

    @abstractmethod
    def check_file(self, file: Path, passphrase: str | None = None) -> DocumentFindings:
        """Find all defects of the document in a file; its signature is not verified."""

    def check_directory(self, root: Path) -> DocumentFindings:
        """Find all defects of the documents in a directory."""
        raise UnsupportedError(f"a directory of {self.title} is checked file by file")

    # -- documents that are made of grains of any format ------------------------------------------

    def numbered(self, kind: model.Kind, id: str, count: int) -> str | None:
        """An id in place of one that is used already; None to derive one from the text."""
        return None

    def user_of(self, user: str | None, producer: str) -> str | None:
        return user

    def native(
        self, grain: Grain, *, producer: str, owner: str | None, strict: bool
    ) -> tuple[str, Record | None, list[Loss]]:
        """The array, the record and the losses of a grain that never was a record.

        Called only for formats with ``takes_natives``.
        """
        raise UnsupportedError(f"{self.name} has no place for grains that never were a record")

    def kept_options(self, envelope: Mapping[str, Any]) -> dict[str, Any]:
        """The options with which a document was made."""
        return {}

    def carry(self, record: Record, member: dict[str, Any]) -> None:
        record["x_omsgrain"] = member

    def carry_beside(self, envelope: dict[str, Any], grains: dict[str, str]) -> None:
        envelope["x_omsgrain"] = {"grains": grains}

    def with_vector(self, record: Record, data: bytes) -> Record:
        """A record with its embedding, where no grain holds that."""
        return record

    def without_embedding(self, record: Record) -> tuple[Record, list[Loss]]:
        """A record without its embedding, and that as a loss, if it has one in itself."""
        return record, []

    def together(self, envelope: dict[str, Any], arrays: Records) -> dict[str, Any]:
        """The records of a document in their places."""
        raise UnsupportedError(f"{self.title} is only read", found=self.name)

    def current(self, document: dict[str, Any]) -> dict[str, Any]:
        """A document whose checksum, if it is ours, is that of what it says now."""
        return document

    def assembled(
        self, envelope: dict[str, Any], arrays: Records, *, summed: bool
    ) -> dict[str, Any]:
        """A new document; with ``summed`` it has a checksum."""
        return self.together(envelope, arrays)

    def spelled(
        self, document: dict[str, Any], own: Manifest | None, how: Spelling
    ) -> tuple[bytes, list[Loss]]:
        """The bytes of a document, and what its layout or its shape does not hold."""
        check_exact(own, exact=how.exact)
        if own is None:
            return spell(document), []
        return spelled(own, document, how.get, exact=how.exact), []

    def seal(self, data: bytes, passphrase: str | None, key: bytes | None) -> bytes:
        """A document in an envelope, where its format has one."""
        return data
