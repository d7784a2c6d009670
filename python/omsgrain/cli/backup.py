# SPDX-License-Identifier: Apache-2.0
"""``omsgrain backup``, ``backups``, ``restore``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from omsgrain.cli import output
from omsgrain.cli.command import (
    BackupParam,
    NewPath,
    SpanParam,
    StoreParam,
    argument,
    command,
    flag,
    store_argument,
)
from omsgrain.cli.open import actor_option, keys_in_use, keys_option, open_store
from omsgrain.errors import StoreError
from omsgrain.json_values import time_text
from omsgrain.storage.location import StoreUrl, Where

if TYPE_CHECKING:
    from omsgrain.storage.backup.manifest import Backup
    from omsgrain.storage.backup.repository import BackupRepository

BACKUP = """
Each night, to another disk; then check the copy:
    omsgrain backup memory.omsg monday.omsg
    omsgrain check monday.omsg
Each hour, to a directory that gets only what changed:
    omsgrain backup memory.omsg --to backups
The same to object storage, with the extra 'objects':
    omsgrain backup memory.omsg --to s3://bucket/robots
"""
BACKUPS = """
List them:
    omsgrain backups backups
Keep the newest three, and all of the last 30 days:
    omsgrain backups backups --prune --keep-last 3 --keep-within 30d
"""
RESTORE = """
To a new name; and with the erasures since the backup, if the store still exists:
    omsgrain restore backup.omsg restored.omsg
    omsgrain restore backup.omsg again.omsg --tombstones-from memory.omsg
Of incremental backups, the newest; and the newest one that was made before a time:
    omsgrain restore backups newest.omsg
    omsgrain restore backups earlier.omsg --at 2099-01-15T10:00:00Z
"""
_WAITING = "no parts were deleted: a backup is running, or was killed less than 24 hours ago"


@command("Copy a store while it is in use.", BACKUP)
@store_argument()
@argument(
    "directory",
    type=NewPath(dir_okay=True),
    required=False,
    unless="to",
    help="The new directory of a copy.",
)
@click.option(
    "--to",
    type=BackupParam(),
    metavar="PLACE",
    help="Make an incremental backup in this directory, or at this URL: s3://, gs://, az://.",
)
@keys_option
@output.json_option
def backup(store: Where, directory: Path | None, to: Where | None, as_json: bool) -> None:
    """Copy STORE as it is now to DIRECTORY, which must not exist yet; or back it up to PLACE.

    Others can read and write meanwhile; the backup contains what was committed at its start.
    A copy is a store. PLACE has the backups of one store, and gets only the parts that it lacks.
    A backup after a killed one resumes. `restore` checks a backup and makes a new store from it.
    Access to object storage comes from the environment, such as AWS_ACCESS_KEY_ID.
    """
    if (directory is None) == (to is None):
        raise click.UsageError("give a DIRECTORY for a copy, or --to for an incremental backup")
    with open_store(store, readonly=True) as grains:
        if to is not None:
            report = grains.maintenance.backup_to(_place(to))
            found = report.backup
            text = (
                f"{found.id[:16]}: {output.plural(found.grains, 'grain')}, {report.sent} of "
                f"{output.plural(report.parts, 'part')} sent, {report.sent_bytes} bytes"
            )
            counts = {"sent": report.sent, "sent_bytes": report.sent_bytes}
            output.done(as_json, text, **_values(found), **counts)
            return
        assert directory is not None
        grains.maintenance.backup(directory)
    size = sum(file.stat().st_size for file in directory.iterdir())
    output.done(as_json, f"{size} bytes: {directory}", path=str(directory), bytes=size)


@command(
    "List or prune incremental backups.",
    BACKUPS,
    exits={StoreError.exit_code: "--prune: no parts were deleted, since a backup is running."},
)
@argument("place", type=BackupParam(exists=True), help="The directory or URL of `backup --to`.")
@flag("--prune", help="Remove old backups, and parts that none needs.")
@click.option(
    "--keep-last",
    type=click.IntRange(1),
    metavar="N",
    help="--prune: keep the newest N backups.",
)
@click.option(
    "--keep-within",
    type=SpanParam(),
    metavar="SPAN",
    help="--prune: keep the backups of this time, such as 12h, 30d, 4w.",
)
@output.json_option
def backups(
    place: Where, prune: bool, keep_last: int | None, keep_within: str | None, as_json: bool
) -> int:
    """List the incremental backups in PLACE, oldest first, or prune them.

    With --prune, a backup stays if either rule keeps it; the newest one always stays. Data that
    was erased from the store stays in the backups that were made before, until they are pruned.
    """
    if prune != (keep_last is not None or keep_within is not None):
        raise click.UsageError("--prune goes with --keep-last or --keep-within")
    import omsgrain as og

    repository = og.BackupRepository(_place(place))
    if prune:
        return _prune(repository, keep_last, keep_within, as_json)
    found = repository.backups()
    if as_json:
        output.emit({"backups": [_values(one) for one in found]})
        return 0
    for one in found:
        when, grains = time_text(one.created_at), output.plural(one.grains, "grain")
        click.echo(f"{when}  {one.id[:16]}  {grains}, {one.bytes} bytes")
    click.echo(output.plural(len(found), "backup"), err=True)
    return 0


def _prune(
    repository: BackupRepository,
    keep_last: int | None,
    keep_within: str | None,
    as_json: bool,
) -> int:
    report = repository.prune(keep_last=keep_last, keep_within=keep_within)
    counts = {"kept": report.kept, "parts": report.parts, "freed": report.freed}
    output.done(
        as_json,
        f"{output.plural(len(report.removed), 'backup')} removed, {report.kept} kept, "
        f"{output.plural(report.parts, 'part')} deleted, {report.freed} bytes freed",
        removed=list(report.removed),
        **counts,
        waiting=report.waiting,
    )
    if report.waiting:
        click.echo(_WAITING, err=True)
    return StoreError.exit_code if report.waiting else 0


@command("Create a store from a backup.", RESTORE)
@argument(
    "backup",
    type=BackupParam(exists=True),
    help="A backup, or the directory or URL of `backup --to`.",
)
@argument("store", type=StoreParam(exists=False), help="The new store.")
@click.option(
    "--at",
    metavar="TIME",
    help="Which of the incremental backups: the newest one made until this time, or the one with "
    "this id.",
)
@click.option(
    "--tombstones-from",
    type=StoreParam(file_okay=False),
    metavar="STORE",
    help="Erase again what was erased in this store after the backup.",
)
@keys_option
@actor_option
@output.json_option
def restore(
    backup: Where,
    store: Where,
    at: str | None,
    tombstones_from: Where | None,
    actor: str | None,
    as_json: bool,
) -> None:
    """Create a store at STORE, which must not exist yet, from BACKUP, which does not change.

    The backup is checked first; a damaged backup creates no store. Data that was erased since the
    backup comes back, unless --tombstones-from names the store that was used since, or a later
    copy.
    """
    import omsgrain as og

    options: dict[str, Any] = {"tombstones_from": tombstones_from, "keys": keys_in_use()}
    og.restore(backup, store, at=at, actor=actor, **options)
    output.done(as_json, f"restored: {store}", path=str(store), restored=True)


def _place(place: Where) -> str | Path:
    if isinstance(place, StoreUrl):
        raise click.UsageError("backups are kept in a directory or in object storage")
    return place if isinstance(place, str) else Path(place)


def _values(found: Backup) -> dict[str, Any]:
    return {
        "id": found.id,
        "created_at": time_text(found.created_at),
        "grains": found.grains,
        "bytes": found.bytes,
        "parts": len(found.parts),
        "parent": found.parent,
    }
