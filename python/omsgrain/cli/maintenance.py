# SPDX-License-Identifier: Apache-2.0
"""``omsgrain init``, ``stats``, ``check``, ``rebuild``, ``compact``, ``backup``, ``restore``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from omsgrain.cli import output
from omsgrain.cli.command import Manual, NewPath, StoreParam, argument, store_argument
from omsgrain.cli.open import (
    actor_option,
    keys_in_use,
    keys_option,
    make_store,
    open_store,
    trust_options,
    writable,
)
from omsgrain.errors import IntegrityError, StoreError
from omsgrain.storage.location import Where, location_of

INIT = """
A store on this machine:
    omsgrain init memory.omsg
A store that encrypts users' grains:
    omsgrain init sealed.omsg --keys people.keys --master master.key
"""
STATS = """
As a table, and as JSON for a monitor:
    omsgrain stats memory.omsg
    omsgrain stats memory.omsg --json
"""
CHECK = """
From time to time, and before you trust a backup:
    omsgrain check memory.omsg
"""
REBUILD = """
When `check` finds a problem in the index:
    omsgrain rebuild memory.omsg
"""
BACKUP = """
Each night, to another disk; then check the copy:
    omsgrain backup memory.omsg monday.omsg
    omsgrain check monday.omsg
"""
COMPACT = """
After deletions, to free space and remove the bytes:
    omsgrain compact memory.omsg
"""
RESTORE = """
To a new name; and with the erasures since the backup, if the store still exists:
    omsgrain restore backup.omsg restored.omsg
    omsgrain restore backup.omsg again.omsg --tombstones-from memory.omsg
"""


@click.command(cls=Manual, short_help="Create an empty store.", examples=INIT)
@store_argument(exists=False, file_okay=False)
@actor_option
@trust_options
@output.json_option
def init(store: Where, actor: str | None, as_json: bool) -> None:
    """Create an empty store at STORE. An existing store is not changed."""
    made = make_store(store, actor=actor)
    text = f"{store}: {'created' if made else 'exists already'}"
    output.done(as_json, text, store=str(store), made=made)


@click.command(cls=Manual, short_help="Count what is in a store.", examples=STATS)
@store_argument()
@keys_option
@click.option("--prometheus", is_flag=True, help="Print the figures in Prometheus' text format.")
@output.json_option
def stats(store: Where, prometheus: bool, as_json: bool) -> None:
    """Count the grains of STORE and the bytes that they take.

    The watermark is the last sequence number in the index on disk; the memtable covers the grains
    after it.
    """
    if prometheus and as_json:
        raise click.UsageError("--prometheus and --json exclude each other")
    with open_store(store, readonly=True) as grains:
        found = grains.stats()
    if prometheus:
        from omsgrain.server.metrics import store_figures, text_of

        click.echo(text_of(store_figures(found)), nl=False)
        return
    values = asdict(found)
    if as_json:
        output.emit(values)
        return
    width = max(map(len, values))
    for name, value in values.items():
        click.echo(f"{name.replace('_', ' '):<{width}}  {value}")


@click.command(
    cls=Manual,
    short_help="Check every byte of a store.",
    examples=CHECK,
    exits={0: "No problems.", 60: "There are problems."},
)
@store_argument()
@keys_option
@output.json_option
def check(store: Where, as_json: bool) -> int:
    """Check all of STORE: blobs, addresses, index rows, states, counts, audit trail, text index.

    It reads the whole store, in a separate process; others can use the store meanwhile. `rebuild`
    repairs the index; restore a damaged grain from a backup or another store.
    """
    from omsgrain.store.context import context_of
    from omsgrain.store.maintenance import check_text

    home = location_of(store)
    home.must_exist()
    report = home.check()  # a damaged page can kill the process that reads it
    if report.ok:
        with open_store(store, readonly=True) as grains:
            report = check_text(context_of(grains), report)
    if as_json:
        output.emit(asdict(report))
    else:
        for problem in report.problems:
            where = problem.where if problem.seq is None else f"{problem.where} {problem.seq}"
            click.echo(output.safe(f"{where}: {problem.message}"), err=True)
        counts = (
            f"{output.plural(report.grains, 'grain')}, {output.plural(report.rows, 'index row')}"
        )
        click.echo(f"{counts}: {output.problems(len(report.problems))}")
    return 0 if report.ok else StoreError.exit_code


@click.command(
    cls=Manual,
    short_help="Rebuild the index of a store.",
    examples=REBUILD,
    exits={33: "Damaged grains were left out."},
)
@store_argument()
@keys_option
@output.json_option
def rebuild(store: Where, as_json: bool) -> int:
    """Rebuild the index of STORE from its blobs, in one transaction.

    It is needed only if `check` finds a problem in the index. Blobs never change. Damaged blobs
    are reported by their sequence number and left out.
    """
    with writable(store) as grains:
        report = grains.maintenance.rebuild()
    if as_json:
        output.emit(asdict(report))
    else:
        for seq in report.damaged:
            click.echo(f"grain {seq}: the bytes do not match the address", err=True)
        click.echo(
            f"{output.plural(report.grains, 'grain')}, {output.plural(report.rows, 'index row')}, "
            f"{output.plural(report.readdressed, 'address', 'addresses')} rebuilt, "
            f"{len(report.damaged)} damaged"
        )
    return IntegrityError.exit_code if report.damaged else 0


@click.command(cls=Manual, short_help="Copy a store while it is in use.", examples=BACKUP)
@store_argument()
@argument("directory", type=NewPath(dir_okay=True), help="The new directory of the copy.")
@keys_option
@output.json_option
def backup(store: Where, directory: Path, as_json: bool) -> None:
    """Copy STORE as it is now to DIRECTORY, which must not exist yet.

    Others can read and write meanwhile; the copy contains what was committed at its start. The
    copy is a store; `restore` checks it and makes a new store from it.
    """
    with open_store(store, readonly=True) as grains:
        grains.maintenance.backup(directory)
    size = sum(file.stat().st_size for file in directory.iterdir())
    output.done(as_json, f"{size} bytes: {directory}", path=str(directory), bytes=size)


@click.command(cls=Manual, short_help="Rewrite a store without its free space.", examples=COMPACT)
@store_argument()
@actor_option
@keys_option
@output.json_option
def compact(store: Where, actor: str | None, as_json: bool) -> None:
    """Rewrite STORE without free pages, and so without the bytes of deleted grains.

    Others can use it meanwhile. It needs as much space again until it ends. A crash leaves the old
    store or the new one, whole.
    """
    with writable(store, actor) as grains:
        report = grains.maintenance.compact()
    output.done(as_json, f"{report.before} bytes before, {report.after} after", **asdict(report))


@click.command(cls=Manual, short_help="Create a store from a backup.", examples=RESTORE)
@argument("backup", type=StoreParam(), help="A backup, made by `backup`.")
@argument("store", type=StoreParam(exists=False), help="The new store.")
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
    backup: Where, store: Where, tombstones_from: Where | None, actor: str | None, as_json: bool
) -> None:
    """Create a store at STORE, which must not exist yet, from BACKUP, which does not change.

    The backup is checked first; a damaged backup creates no store. Data that was erased since the
    backup comes back, unless --tombstones-from names the store that was used since, or a later
    backup.
    """
    import omsgrain as og

    og.restore(backup, store, actor=actor, keys=keys_in_use(), tombstones_from=tombstones_from)
    output.done(as_json, f"restored: {store}", path=str(store), restored=True)
