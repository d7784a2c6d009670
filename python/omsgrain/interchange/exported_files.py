# SPDX-License-Identifier: Apache-2.0
"""Files of exports: documents and bundles, with their signatures beside them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from omsgrain.crypto.detached import signature_path
from omsgrain.durable import NewFiles
from omsgrain.errors import SchemaError, UnsupportedError
from omsgrain.formats.aimem import document
from omsgrain.formats.aimem.format import AIMEM
from omsgrain.formats.aimem.signature import sign_bundle
from omsgrain.formats.table import version
from omsgrain.interchange.aimem_export import export_bundle, export_stream
from omsgrain.interchange.export import AimemExportReport, ExportReport
from omsgrain.interchange.mif_export import USUAL, export_pieces
from omsgrain.interchange.signed_files import signed_text_of

if TYPE_CHECKING:
    from omsgrain.crypto.signers import Signer
    from omsgrain.store import GrainStore

LAYOUTS: Final = {"json": ".mif.json", "yaml": ".mif.yaml", "jsonl": ".mif.jsonl"}
"""The ending of file names, by layout."""
_YAML: Final = ".mif.yml"


def layout_of_name(file: Path) -> str | None:
    """The layout by the name of a file; None if it says none."""
    if file.name.endswith(_YAML):
        return "yaml"
    return next((one for one, end in LAYOUTS.items() if file.name.endswith(end)), None)


@dataclass(frozen=True, slots=True)
class ExportedFile:
    path: Path
    bytes: int  # its size
    producer: str | None = None  # of a bundle, whose identifiers are in it
    # the DID of who signed it, in the file beside it; None if it is not signed
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
    for one in export_bundle(store, tenant, report=report, **options):
        yield one.envelope["producer"], [document.write_bundle(one)]


def _lines(
    store: GrainStore, tenant: str, options: dict[str, Any], report: AimemExportReport
) -> Iterator[tuple[str, Iterable[bytes]]]:
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
