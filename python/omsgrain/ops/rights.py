# SPDX-License-Identifier: Apache-2.0
"""The rights of people: report, erase, withdraw a consent, restrict; and doing what is due."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from omsgrain.crypto.private_file import new_file
from omsgrain.durable import private_files, refuse_existing, write_new
from omsgrain.errors import SchemaError
from omsgrain.ops.opening import keys_in_use, open_store, writable
from omsgrain.storage.location import Where, location_of
from omsgrain.store.base import check_reason

if TYPE_CHECKING:
    from omsgrain.crypto.master_key import MasterKey
    from omsgrain.crypto.signers import Signer
    from omsgrain.store.privacy.erasure import ErasureReport
    from omsgrain.store.privacy.erasure_scheduler import DueReport
    from omsgrain.store.privacy.report import SubjectReport


def erase(
    store: Where,
    identities: Sequence[str],
    *,
    reason_code: str,
    mentions: Any = "list",
    scrub: Any = "now",
    ciphertext: bool = False,
    within_days: int = 30,
    rekey: MasterKey | None = None,
    policy: str | None = None,
    actor: str | None = None,
) -> ErasureReport:
    """Erase a person; arguments and errors are those of ``GrainStore.erase_subject``.

    The rules of a policy say how long grains must be kept; the actor stands in the audit trail.
    With the grains of others that bear a name goes what documents keep of these.
    """
    from omsgrain.ops.removing import clear_mentions

    check_erasure(identities, reason_code=reason_code, rekey=rekey)
    with writable(store, actor, policy=policy) as grains:
        if mentions == "erase":
            clear_mentions(grains, identities)
        return grains.erase_subject(
            identities,
            reason_code=reason_code,
            mentions=mentions,
            scrub=scrub,
            ciphertext=ciphertext,
            within_days=within_days,
            rekey=rekey,
        )


def check_erasure(
    identities: Sequence[str], *, reason_code: str, rekey: MasterKey | None = None
) -> None:
    """See that an erasure is asked for as it must be, before anything is done for it."""
    from omsgrain.crypto.master_key import load_master
    from omsgrain.store.privacy.identity import Identities

    Identities(identities)
    check_reason(reason_code)
    if rekey is not None:
        if keys_in_use() is None:
            raise SchemaError("the store is opened without keys", field="/rekey")
        load_master(rekey)


def certify(
    store: Where,
    report: ErasureReport,
    file: Path,
    signer: Signer,
    *,
    reason_code: str,
    of: Literal["person", "tenant"],
) -> None:
    """Write the signed certificate of an erasure to a new file."""
    with open_store(store, readonly=True) as grains:
        made = grains.certify_erasure(
            report, signer, reason_code=reason_code, of=of, iat=int(time.time())
        )
    write_new(file, made.to_json().encode())


def erase_preview(
    store: Where, identities: Sequence[str], *, policy: str | None = None
) -> dict[str, Any]:
    """Count what erasing a person would meet, and change nothing."""
    from omsgrain.store.privacy import key_destruction, removal
    from omsgrain.store.privacy.identity import Identities, select

    people = Identities(identities)
    own = sealed = named = 0
    kept: Counter[str] = Counter()
    now = time.time_ns() // 1_000_000
    with open_store(store, readonly=True, policy=policy) as grains:
        selection = select(grains._store, people)
        for found in selection:
            own, named = own + found.own, named + (not found.own)
            if not found.own:
                continue
            sealed += found.number is not None
            with grains._store.read() as reader:
                grain = reader.grain(found.seq)
                if grain is None:
                    continue
                rule = removal.refusal(reader, grains._settings, grain, now)
            if rule is not None:
                kept[rule] += 1
        keys = len(key_destruction.numbers_of(keys_in_use(), people))
    return {
        "keys": keys,
        "own": own,
        "sealed": sealed,
        "named": named,
        "kept": dict(sorted(kept.items())),
        "unopened": selection.unopened,
    }


def subject_report(
    store: Where,
    identities: Sequence[str],
    file: Path | None = None,
    *,
    policy: str | None = None,
    actor: str | None = None,
) -> tuple[SubjectReport, str | None]:
    """Gather what a store holds about a person, and write it."""
    readonly = not location_of(store).is_writable()  # the audit trail tells of it, where it can
    if file is not None:
        refuse_existing(file, replace=False)  # before anything is gathered for it
    with _opened(store, readonly, policy, actor) as grains:
        report = grains.subject_report(identities)
        if file is None:
            return report, report.to_json()
        if file.suffix == ".mg":
            with private_files():
                report.write_mg(file)
        else:
            with (
                new_file(file) as handle,
                open(handle, "w", encoding="utf-8", closefd=False) as text,
            ):
                report.write_json(text)
        return report, None


def _opened(store: Where, readonly: bool, policy: str | None, actor: str | None) -> Any:
    if readonly:
        return open_store(store, readonly=True, policy=policy, actor=actor)
    return writable(store, actor, policy=policy)


def consent_withdraw(
    store: Where,
    address: str,
    *,
    reason: str | None = None,
    within_days: int | None = None,
    actor: str | None = None,
) -> dict[str, Any]:
    """Withdraw a consent; errors are those of ``GrainStore.withdraw_consent``."""
    with writable(store, actor) as grains:
        report = grains.withdraw_consent(address, reason=reason, sla_days=within_days)
    return {**asdict(report), "queued": list(report.queued), "others": list(report.others)}


def due_list(store: Where, *, policy: str | None = None) -> list[dict[str, Any]]:
    """What is queued to be erased, by deadlines; then what the preset keeps no longer."""
    with open_store(store, readonly=True, policy=policy) as grains:
        queued = [asdict(entry) for entry in grains.due_erasures()]
        expired: list[dict[str, Any]] = [
            {"deadline": None, "kind": "retention", "address": address, "overdue": True}
            for address in grains.retention_due()
        ]
    return queued + expired


def due_run(
    store: Where, *, everything: bool = False, policy: str | None = None, actor: str | None = None
) -> DueReport:
    """Erase what is due; errors are those of ``GrainStore.run_due_erasures``."""
    with writable(store, actor, policy=policy) as grains:
        return grains.run_due_erasures(everything=everything)


def restrict(store: Where, address: str, *, reason_code: str, actor: str | None = None) -> None:
    """Leave a grain out of all use; errors are those of ``GrainStore.restrict``."""
    with writable(store, actor) as grains:
        grains.restrict(address, reason_code=reason_code)


def unrestrict(store: Where, address: str, *, reason_code: str, actor: str | None = None) -> None:
    """End the restriction of a grain; errors are those of ``GrainStore.unrestrict``."""
    with writable(store, actor) as grains:
        grains.unrestrict(address, reason_code=reason_code)
