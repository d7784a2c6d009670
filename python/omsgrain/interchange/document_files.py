# SPDX-License-Identifier: Apache-2.0
"""Documents in files: read them for an import, and write them in an export.

A document is read, and its signature checked, before the store is opened: a bad document creates
no store.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from omsgrain.crypto.detached import SUFFIX, beside, signature_path
from omsgrain.crypto.trust import Trust, look
from omsgrain.durable import NewFiles
from omsgrain.errors import SchemaError, UnsupportedError
from omsgrain.formats.aimem import document
from omsgrain.formats.aimem.format import AIMEM
from omsgrain.formats.aimem.signature import sign_bundle
from omsgrain.formats.mif_ld.directory import files_in, load_directory, shape_of_name
from omsgrain.formats.table import sniff_file, version
from omsgrain.interchange.aimem_export import export_bundle, export_stream
from omsgrain.interchange.mif_export import USUAL, export_pieces
from omsgrain.interchange.parse import ParsedDocument, arrived, read
from omsgrain.interchange.report import AimemExportReport, ExportReport
from omsgrain.interchange.signed_files import signed_data, signed_text, signed_text_of

if TYPE_CHECKING:
    from omsgrain.crypto.did import Resolver
    from omsgrain.crypto.signers import Signer
    from omsgrain.crypto.trust import Checked
    from omsgrain.formats.aimem.document import Bundle
    from omsgrain.store import GrainStore

LAYOUTS: Final = {"json": ".mif.json", "yaml": ".mif.yaml", "jsonl": ".mif.jsonl"}
"""The ending of file names, by layout."""
LARGEST: Final = 100 << 20
"""Bytes of a document that is read."""
_YAML: Final = ".mif.yml"


@dataclass(frozen=True, slots=True)
class Trusted:
    """Whose signatures beside files are trusted.

    Attributes:
        keys: files of public keys, and DIDs.
        resolver: finds the keys of other signers.
        required: whether a file without a trusted signature is refused.
    """

    keys: Sequence[str] = ()
    resolver: Resolver | None = None
    required: bool = False

    def look(
        self, file: Path, *, source: IO[bytes] | None = None, data: bytes | None = None
    ) -> Checked:
        """Check the signature in FILE.sig before FILE is imported, whatever FILE is.

        Args:
            file: the file.
            source: the same file, open, if it is a bundle.
            data: its bytes, if they are known.
        """
        # Most files have no signature, and most imports need none.
        if not (self.keys or self.required or os.path.lexists(f"{file}{SUFFIX}")):
            return "missing"
        known = Trust.load(self.keys, self.resolver)
        mark = beside(file)
        if mark is None:
            return look(None, b"", known, required=self.required)
        if source is not None:
            data = signed_text(source)
        with signed_data(file) if data is None else nullcontext(data) as signed:
            return look(mark, signed, known, required=self.required, resolver=self.resolver)


def read_document(
    file: Path,
    user_id: str | None,
    trusted: Trusted,
    *,
    most: int = LARGEST,
    **options: Any,
) -> ParsedDocument:
    """Read a MIF document in a file, or memories in the files of a directory.

    The options are those of ``formats.load``.
    """
    if file.is_dir():
        for one in files_in(file):
            trusted.look(one)
        found = load_directory(file, user_id=user_id, mode=options.get("mode", "schema"))
        return arrived(found, user_id)
    with file.open("rb") as source:
        data = source.read(most + 1)  # one more, so that it is refused
    if len(data) <= most:
        trusted.look(file, data=data)
    if file.name.lower().endswith(".md"):
        options["shape"] = shape_of_name(file.name)
    return arrived(read(data, user_id=user_id, most=most, **options), user_id)


@contextmanager
def open_bundle(
    file: Path, trusted: Trusted, *, scan: bool = False
) -> Iterator[tuple[Bundle | IO[bytes], Checked]]:
    """Open an AIMEM bundle; one by lines as a stream, which ``scan`` checks whole before."""
    sniff_file(file)  # refuses a pipe, and a file of no known format
    with file.open("rb") as source:
        lines = AIMEM.by_lines(source)
        bundle: Bundle | IO[bytes] = (
            source if lines else document.read_bundle(document.whole(source))
        )
        checked = trusted.look(file, source=source)
        if lines and scan:
            source.seek(0)
            document.scan(source)
        source.seek(0)
        yield bundle, checked


def layout_of_name(file: Path) -> str | None:
    """The layout by the name of a file; None if it says none."""
    if file.name.endswith(_YAML):
        return "yaml"
    return next((one for one, end in LAYOUTS.items() if file.name.endswith(end)), None)


@dataclass(frozen=True, slots=True)
class ExportedFile:
    """A file of an export.

    Attributes:
        path: the document.
        bytes: its size.
        producer: of a bundle, whose identifiers are in it.
        signed_by: the DID of who signed it, in the file beside it; None if it is not signed.
    """

    path: Path
    bytes: int
    producer: str | None = None
    signed_by: str | None = None


def export_mif(
    store: GrainStore,
    file: Path,
    *,
    user_id: str,
    layout: str | None = None,
    replace: bool = False,
    **options: Any,
) -> tuple[ExportedFile, ExportReport]:
    """Write a user's memory as a document in a file; all else as ``export_pieces``."""
    if options.get("document") is None:
        options["layout"] = layout or layout_of_name(file) or "json"
        of = version(options.get("format", USUAL))
        if file.suffix.lower() in of.no_exports:
            raise SchemaError(f"an export of {of.title} is one document of JSON", field="/file",
                              expected=".jsonld", found=file.suffix)  # fmt: skip
    with NewFiles(replace=replace) as files:
        found, _, report = export_pieces(store, user_id, **options)
        size = files.add(file, found).stat().st_size
        if replace:
            files.drop(signature_path(file))  # it would be one of another document
    return ExportedFile(file, size), report


def export_aimem(
    store: GrainStore,
    file: Path,
    *,
    tenant: str,
    lines: bool = False,
    signer: Signer | None = None,
    key_url: str | None = None,
    replace: bool = False,
    **options: Any,
) -> tuple[list[ExportedFile], AimemExportReport]:
    """Write the memory of a tenant as a bundle, or as one for each producer of its identifiers."""
    report = AimemExportReport()
    with NewFiles(replace=replace) as files:
        made = (_lines if lines else _documents)(store, tenant, options, report)
        done = []
        for producer, pieces in made:
            path = file if len(report.producers) == 1 else _named(file, producer)
            partial = files.add(path, pieces)
            if signer is not None:
                text = signed_text_of(partial)
                mark = sign_bundle(text, signer, kid=key_url, iat=int(time.time()))
                files.add(signature_path(path), [mark])
            elif replace:
                files.drop(signature_path(path))  # it would be one of another bundle
            by = None if signer is None else signer.did
            done.append(ExportedFile(path, partial.stat().st_size, producer, by))
    return done, report


def _documents(
    store: GrainStore, tenant: str, options: dict[str, Any], report: AimemExportReport
) -> Iterator[tuple[str, Iterable[bytes]]]:
    """Each bundle as one document, by producer."""
    for one in export_bundle(store, tenant, report=report, **options):
        yield one.envelope["producer"], [document.write_bundle(one)]


def _lines(
    store: GrainStore, tenant: str, options: dict[str, Any], report: AimemExportReport
) -> Iterator[tuple[str, Iterable[bytes]]]:
    """Each bundle by lines, by producer."""
    try:
        only = export_stream(store, tenant, report=report, **options)
    except UnsupportedError as error:
        if error.rule != "several_producers":
            raise
        for name in report.producers:
            yield name, export_stream(store, tenant, only_producer=name, **options)
    else:
        yield report.producers[0], only


def _named(file: Path, producer: str) -> Path:
    """The name of the bundle of one of several producers."""
    ending = next((one for one in AIMEM.suffixes if file.name.endswith(one)), file.suffix)
    return file.with_name(f"{file.name.removesuffix(ending)}-{producer}{ending}")
