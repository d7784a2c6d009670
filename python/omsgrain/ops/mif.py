# SPDX-License-Identifier: Apache-2.0
"""Bring a user's memory from MIF documents of either version into a store, and out of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from omsgrain.durable import NewFiles
from omsgrain.errors import SchemaError
from omsgrain.formats.document import Dump, Loss
from omsgrain.ops.opening import open_store, open_to_read
from omsgrain.ops.signed import look_beside
from omsgrain.storage.lmdb.open import DATA_FILE
from omsgrain.storage.location import Where, location_of

if TYPE_CHECKING:
    from omsgrain import GrainStore
    from omsgrain.interchange.documents import KeptDocument
    from omsgrain.interchange.parse import ParsedDocument
    from omsgrain.interchange.report import MifReport

FORMATS: Final = ("mif2", "mif1", "mif-ld")
LAYOUTS: Final = {"json": ".mif.json", "yaml": ".mif.yaml", "jsonl": ".mif.jsonl"}
"""How files are called, by layout."""
_CHANGING: Final = ("redact_pii", "since", "strict")
"""What is of no use for a document that is given back as it came."""
_YAML: Final = ".mif.yml"
_OTHERS: Final = (".md", ".ndjson")
"""How files of MIF in JSON-LD are called that have no corpus in them."""
_MOST: Final = 100 << 20  # bytes of a document that is read


@dataclass(frozen=True, slots=True)
class ExportedMif:
    """A file of an export.

    Attributes:
        path: the document.
        bytes: its size.
        report: what left, and what could not, as JSON-ready values.
    """

    path: Path
    bytes: int
    report: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """The file as JSON-ready values."""
        return {"path": os.fspath(self.path), "bytes": self.bytes, **self.report}


def is_directory(path: Path) -> bool:
    """Whether a path is a directory that can have memories of MIF in JSON-LD: not a store."""
    return path.is_dir() and not (path / DATA_FILE).exists()


def layout_of_name(file: Path) -> str | None:
    """The layout that a file is called by; None if its name says none."""
    if file.name.endswith(_YAML):
        return "yaml"
    return next((one for one, end in LAYOUTS.items() if file.name.endswith(end)), None)


def import_document(
    store: GrainStore,
    data: bytes,
    *,
    user_id: str | None = None,
    most: int | None = None,
    **options: Any,
) -> MifReport:
    """Take a document into an open store."""
    from omsgrain.interchange.apply import import_document as take

    return take(store, data, user_id=user_id, most=_MOST if most is None else most, **options)


def export_document(
    store: GrainStore,
    user_id: str,
    *,
    passphrase: str | None = None,
    document: str | None = None,
    **options: Any,
) -> tuple[Dump, dict[str, Any]]:
    """Write a user's memory from an open store, or give back a document that was imported."""
    found, losses, told = _pieces(store, user_id, passphrase, document, options)
    return Dump(b"".join(found), losses), told


def _pieces(
    store: GrainStore,
    user_id: str,
    passphrase: str | None,
    document: str | None,
    options: dict[str, Any],
) -> tuple[Iterable[bytes], list[Loss], dict[str, Any]]:
    """A document by pieces, what it cannot hold, and what is to be told of it."""
    from omsgrain.interchange.documents import kept_pieces
    from omsgrain.interchange.export import export_pieces

    found: Iterable[bytes]
    if document is not None:
        for name in _CHANGING:
            if options.get(name):
                expected = "a document that is given back is not changed"
                raise SchemaError("not with a document", field=f"/{name}", expected=expected)
        known = {name: options[name] for name in ("purpose", "actor") if name in options}
        found, losses = kept_pieces(store, user_id, document, **known)
        told: dict[str, Any] = {"document": document, "losses": [], "lost": 0}
    else:
        if passphrase is not None and options.get("format") != "mif1":
            expected = "only MIF 1.0 has an envelope"
            raise SchemaError("no place for a passphrase", field="/format", expected=expected)
        found, losses, report = export_pieces(store, user_id, **options)
        told = report.to_dict()
    if passphrase is not None:
        from omsgrain.formats.mif1.envelope import seal_document

        found = [seal_document(b"".join(found), passphrase)]
    return found, losses, told


def documents(store: Where, user_id: str) -> list[KeptDocument]:
    """Return the documents that are kept of a user."""
    from omsgrain.interchange.documents import documents as kept

    location_of(store).must_exist()
    with open_store(store, readonly=True) as grains:
        return kept(grains, user_id)


def import_mif(
    store: Where,
    file: Path,
    *,
    user_id: str | None = None,
    dry_run: bool = False,
    trust: Sequence[str] = (),
    require_signature: bool = False,
    actor: str | None = None,
    most: int | None = None,
    **options: Any,
) -> MifReport:
    """Take a document in a file into a store, which is made if it is not there.

    A document that is none, or is not signed as it must be, is refused before a store is made.
    """
    known: dict[str, Any] = {
        name: options.pop(name) for name in ("format", "passphrase", "mode") if name in options
    }
    look = partial(look_beside, trust=trust, required=require_signature)
    came = _arrived(file, user_id, _MOST if most is None else most, known, look)
    there = location_of(store).exists()
    with _store(store, actor, elsewhere=dry_run and not there) as grains:
        from omsgrain.interchange.apply import import_document as take

        return take(grains, came, dry_run=dry_run, **options)


def _arrived(
    file: Path,
    user_id: str | None,
    most: int,
    known: dict[str, Any],
    look: Callable[..., object],
) -> ParsedDocument:
    """Read a document in a file; of its text and its tree nothing is left then."""
    from omsgrain.interchange.parse import arrived, read

    if file.is_dir():
        from omsgrain.formats.mif_ld.corpus import files_in, load_directory

        for one in files_in(file):
            look(one)
        found = load_directory(file, user_id=user_id, mode=known.get("mode", "schema"))
        return arrived(found, user_id)
    with file.open("rb") as source:
        data = source.read(most + 1)  # one more, so that it is refused
    if len(data) <= most:
        look(file, data=data)
    if file.name.lower().endswith(".md"):
        from omsgrain.formats.mif_ld.corpus import shape_of_name

        known = {**known, "shape": shape_of_name(file.name)}
    return arrived(read(data, user_id=user_id, most=most, **known), user_id)


def export_mif(
    store: Where,
    file: Path,
    *,
    user_id: str,
    layout: str | None = None,
    replace: bool = False,
    policy: str | None = None,
    actor: str | None = None,
    **options: Any,
) -> ExportedMif:
    """Write a user's memory as a document in a file."""
    if options.get("document") is None:
        options["layout"] = layout or layout_of_name(file) or "json"
        if options.get("format") == "mif-ld" and file.suffix.lower() in _OTHERS:
            raise SchemaError("a corpus of MIF in JSON-LD is one document of JSON", field="/file",
                              expected=".jsonld", found=file.suffix)  # fmt: skip
    with (
        NewFiles(replace=replace) as files,
        open_to_read(store, policy=policy, actor=actor) as grains,
    ):
        passphrase, document = (options.pop(name, None) for name in ("passphrase", "document"))
        found, _, told = _pieces(grains, user_id, passphrase, document, options)
        size = files.add(file, found).stat().st_size
    return ExportedMif(file, size, told)


@contextmanager
def _store(store: Where, actor: str | None, *, elsewhere: bool) -> Iterator[GrainStore]:
    """A store to import into; an empty one that is thrown away, if none is to be made."""
    with ExitStack() as stack:
        if elsewhere:
            store = Path(stack.enter_context(TemporaryDirectory(prefix="omsgrain-")))
        yield stack.enter_context(open_store(store, actor=actor))
