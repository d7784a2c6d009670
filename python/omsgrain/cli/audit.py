# SPDX-License-Identifier: Apache-2.0
"""``omsgrain audit``: show and verify the audit trail."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from omsgrain.cli import output
from omsgrain.cli.command import EXISTING, When, command, flag, refuse_given, store_argument
from omsgrain.cli.open import keys_option, open_store, resolver_in_use
from omsgrain.errors import IntegrityError
from omsgrain.json_values import time_text
from omsgrain.storage.location import Where

if TYPE_CHECKING:
    from omsgrain.storage.audit.log import AuditEntry

EXAMPLES = r"""
Who changed one grain, and when:
    omsgrain audit memory.omsg --address ADDRESS
Keep a checkpoint elsewhere, and verify against it later:
    omsgrain audit memory.omsg --checkpoint > audit.json
    omsgrain audit memory.omsg --verify --against audit.json
"""


@command(
    "Show or verify the audit trail.",
    EXAMPLES,
    exits={33: "--verify found an entry that was edited, swapped or dropped, or a missing end."},
)
@store_argument()
@click.option(
    "--after",
    type=int,
    default=0,
    metavar="N",
    help="Only entries after number N.",
)
@click.option(
    "--since",
    type=When(),
    metavar="TIME",
    help="Only entries since this time: 2026-01-15T10:00:00Z, or an age such as 1h.",
)
@click.option(
    "--limit",
    type=click.IntRange(1, sys.maxsize),
    metavar="N",
    help="At most N entries; without it, all.",
)
@click.option("--address", metavar="ADDRESS", help="Only entries about this grain.")
@click.option("--operation", metavar="NAME", help="Only entries of this operation, such as put.")
@flag("--verify", help="Verify every entry instead of showing them.")
@click.option(
    "--against",
    type=EXISTING,
    help="With --verify: a checkpoint that was kept elsewhere. It shows whether the end is "
    "missing.",
)
@flag("--checkpoint", help="Print a checkpoint: where the trail ends now.")
@click.option("--key", type=EXISTING, help="With --checkpoint: sign it with this key.")
@click.option("--signer", metavar="DID", help="With --against: the DID that must have signed it.")
@keys_option
@output.json_option
def audit(
    store: Where,
    after: int,
    since: int | None,
    limit: int | None,
    address: str | None,
    operation: str | None,
    verify: bool,
    against: Path | None,
    checkpoint: bool,
    key: Path | None,
    signer: str | None,
    as_json: bool,
) -> int:
    """Show the audit trail of STORE: an entry for each write, chained by hashes.

    With --verify, check the trail instead. Only --against a checkpoint that was kept elsewhere
    shows whether the end is missing.
    """
    if against is not None and not verify:
        raise click.UsageError("--against needs --verify")
    if verify and checkpoint:
        raise click.UsageError("--verify and --checkpoint exclude each other")
    if key is not None and not checkpoint:
        raise click.UsageError("--key needs --checkpoint")
    if signer is not None and against is None:
        raise click.UsageError("--signer needs --against")
    if verify or checkpoint:
        kind = "--verify" if verify else "--checkpoint"
        refuse_given(kind, "after", "since", "limit", "address", "operation")
    if checkpoint:
        _print_checkpoint(store, key)
        return 0
    if verify:
        from omsgrain.storage.audit.verify import Checkpoint

        kept = None if against is None else Checkpoint.from_json(against.read_bytes())
        with open_store(store, readonly=True) as grains:
            report = grains.audit.verify(kept, signer=signer, resolver=resolver_in_use())
        if as_json:
            output.emit(asdict(report))
        else:
            for problem in report.problems:
                where = "" if problem.number is None else f"entry {problem.number}: "
                click.echo(output.safe(where + problem.message), err=True)
            found = output.problems(len(report.problems))
            click.echo(f"{output.plural(report.entries, 'entry', 'entries')}: {found}")
        return 0 if report.ok else IntegrityError.exit_code
    with open_store(store, readonly=True) as grains:
        entries = grains.audit.entries(after, address=address, operation=operation)
        least = since or 0
        recent = (one for one in entries if one.time >= least or not one.sound)
        chosen = islice(recent, limit)
        if as_json:
            output.emit([_values(entry) for entry in chosen])
        else:
            for entry in chosen:
                click.echo(output.safe(_line(entry)))
    return 0


def _print_checkpoint(store: Where, key: Path | None) -> None:
    signer, now = None, None
    if key is not None:
        from omsgrain.crypto.signers import load_signer

        signer, now = load_signer(key), int(time.time())
    with open_store(store, readonly=True) as grains:
        click.echo(grains.audit.checkpoint(signer, iat=now).to_json())


def _values(entry: AuditEntry) -> dict[str, Any]:
    """Return an entry as JSON-ready values, without empty ones."""
    values = {
        "number": entry.number,
        "sound": entry.sound,
        "time": entry.time,
        "operation": entry.operation,
        "actor": entry.actor,
        "count": entry.count,
        "reason_code": entry.reason_code,
        "note": entry.note,
        "note_erased": entry.note_erased or None,
        "details": dict(entry.details) or None,
        "last_seq": entry.last_seq,
        "grains": entry.grains,
        "tags": [tag.hex() for tag in entry.tags] or None,
        "hash": entry.hash,
    }
    return {name: value for name, value in values.items() if value is not None}


def _line(entry: AuditEntry) -> str:
    if not entry.sound:
        return f"{entry.number}  damaged"
    said = [f"{entry.number}", time_text(entry.time) or "", entry.operation]
    if grains := entry.count or entry.details.get("grains"):  # exports have none
        said.append(f"{grains} grain{'s' * (grains != 1)}")
    said.append(f"by {entry.actor}" if entry.actor else "actor not set")
    if entry.reason_code:
        said.append(f"({entry.reason_code})")
    if entry.note_erased:
        said.append("[its reason was erased]")
    elif entry.note:
        said.append(" ".join(entry.note.split()))
    return "  ".join(said)
