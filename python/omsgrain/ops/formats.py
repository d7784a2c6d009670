# SPDX-License-Identifier: Apache-2.0
"""Bring the memory of a tenant from a store to bundles and back; erase a tenant."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from omsgrain.crypto.detached import signature_path
from omsgrain.durable import NewFiles
from omsgrain.errors import UnsupportedError
from omsgrain.formats.aimem import document
from omsgrain.formats.aimem.signature import sign_bundle
from omsgrain.formats.sniff import sniff_file
from omsgrain.ops.bundles import SUFFIXES, read_bundle
from omsgrain.ops.opening import open_store, open_to_read, writable
from omsgrain.ops.signed import look_beside, signed_text_of
from omsgrain.storage.location import Where, location_of

if TYPE_CHECKING:
    from omsgrain import GrainStore
    from omsgrain.crypto.master_key import MasterKey
    from omsgrain.interchange.aimem_export import AimemExportReport
    from omsgrain.interchange.report import ImportSummary
    from omsgrain.store.privacy.erasure import ErasureReport


@dataclass(frozen=True, slots=True)
class Exported:
    """A file of an export.

    Attributes:
        path: the bundle.
        producer: whose identifiers are in it.
        bytes: its size.
        signed_by: the DID of who signed it, in the file beside it; None if nobody did.
    """

    path: Path
    producer: str
    bytes: int
    signed_by: str | None

    def to_dict(self) -> dict[str, Any]:
        """The file as JSON-ready values."""
        path, size = os.fspath(self.path), self.bytes
        return {"path": path, "producer": self.producer, "bytes": size, "signed": self.signed_by}


def import_aimem(
    store: Where,
    file: Path,
    *,
    tenant: str | None = None,
    allow_erased: bool = False,
    allow_dna_updates: bool = False,
    trust: Sequence[str] = (),
    require_signature: bool = False,
    dry_run: bool = False,
    actor: str | None = None,
) -> ImportSummary:
    """Take a bundle into a store, which is made if it is not there.

    A bundle that is not good, or is not signed as it must be, is refused before a store is made.
    """
    from omsgrain.interchange.aimem_import import import_bundle

    lines = sniff_file(file).lines
    with file.open("rb") as source:
        what = None if lines else read_bundle(source)
        checked = look_beside(file, trust, required=require_signature, source=source)
        there = location_of(store).exists()
        if lines and not there:
            source.seek(0)
            document.scan(source)
        source.seek(0)
        with _store(store, actor, elsewhere=dry_run and not there) as grains:
            return import_bundle(
                grains,
                source if what is None else what,
                tenant=tenant,
                allow_erased=allow_erased,
                allow_dna_updates=allow_dna_updates,
                signature=checked,
                dry_run=dry_run,
            )


@contextmanager
def _store(store: Where, actor: str | None, *, elsewhere: bool) -> Iterator[GrainStore]:
    """A store to import into; an empty one that is thrown away, if none is to be made."""
    with ExitStack() as stack:
        if elsewhere:
            store = Path(stack.enter_context(TemporaryDirectory(prefix="omsgrain-")))
        yield stack.enter_context(open_store(store, actor=actor))


def export_aimem(
    store: Where,
    file: Path,
    *,
    tenant: str,
    lines: bool = False,
    key: Path | None = None,
    key_url: str | None = None,
    replace: bool = False,
    policy: str | None = None,
    actor: str | None = None,
    **options: Any,
) -> tuple[list[Exported], AimemExportReport]:
    """Write the memory of a tenant as a bundle, or as one for each producer of its identifiers."""
    from omsgrain.crypto.signers import load_signer

    signer = None if key is None else load_signer(key)
    with (
        NewFiles(replace=replace) as files,
        open_to_read(store, policy=policy, actor=actor) as grains,
    ):
        made, report = (_lines if lines else _documents)(grains, tenant, options)
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
            done.append(Exported(path, producer, partial.stat().st_size, by))
    return done, report


_Made = tuple[Iterator[tuple[str, Iterable[bytes]]], "AimemExportReport"]


def _documents(grains: GrainStore, tenant: str, options: dict[str, Any]) -> _Made:
    from omsgrain.formats.aimem import document
    from omsgrain.interchange.aimem_export import AimemExportReport, export_bundle

    report = AimemExportReport()
    made = export_bundle(grains, tenant, report=report, **options)
    return ((one.envelope["producer"], [document.write_bundle(one)]) for one in made), report


def _lines(grains: GrainStore, tenant: str, options: dict[str, Any]) -> _Made:
    from omsgrain.interchange.aimem_export import AimemExportReport, export_stream

    report = AimemExportReport()
    try:
        only = export_stream(grains, tenant, report=report, **options)
    except UnsupportedError as error:
        if error.rule != "several_producers":
            raise
        names = report.producers
        return (
            (name, export_stream(grains, tenant, only_producer=name, **options)) for name in names
        ), report
    return iter([(report.producers[0], only)]), report


def _named(file: Path, producer: str) -> Path:
    """What the bundle of one of several producers is called."""
    ending = next((one for one in SUFFIXES if file.name.endswith(one)), file.suffix)
    return file.with_name(f"{file.name.removesuffix(ending)}-{producer}{ending}")


def erase_tenant(
    store: Where,
    tenant: str,
    *,
    reason_code: str,
    scrub: Any = "now",
    within_days: int = 30,
    rekey: MasterKey | None = None,
    policy: str | None = None,
    actor: str | None = None,
) -> ErasureReport:
    """Erase all memory of a tenant; errors are those of ``gateways.aimem.erase_tenant``."""
    from omsgrain.interchange.aimem_erase import erase_tenant

    with writable(store, actor, policy=policy) as grains:
        return erase_tenant(
            grains,
            tenant,
            reason_code=reason_code,
            scrub=scrub,
            within_days=within_days,
            rekey=rekey,
        )
