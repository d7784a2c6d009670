# SPDX-License-Identifier: Apache-2.0
"""``omsgrain init``, ``stats``, ``check``, ``rebuild``, ``compact``, ``backup``, ``restore``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from omsgrain.cli import output
from omsgrain.cli.manual import Manual, argument
from omsgrain.cli.open import (
    actor_option,
    keys_in_use,
    keys_option,
    make_store,
    open_store,
    trust_options,
    writable,
)
from omsgrain.cli.params import NewPath, StoreParam, store_argument
from omsgrain.errors import IntegrityError, StoreError
from omsgrain.storage.location import Where, location_of

INIT = """
A store on this machine:
    omsgrain init memory.omsg
One whose users' grains are sealed:
    omsgrain init sealed.omsg --keys people.keys --master master.key
"""
STATS = """
For a person, and for what watches the store:
    omsgrain stats memory.omsg
    omsgrain stats memory.omsg --json
"""
CHECK = """
Now and then, and before a backup is trusted:
    omsgrain check memory.omsg
"""
REBUILD = """
When `check` finds something wrong in the index:
    omsgrain rebuild memory.omsg
"""
BACKUP = """
Each night, to another disk; then look at the copy:
    omsgrain backup memory.omsg monday.omsg
    omsgrain check monday.omsg
"""
COMPACT = """
After deleting much, or what must be gone:
    omsgrain compact memory.omsg
"""
RESTORE = """
To a new name; with what was erased since, if the store lives on:
    omsgrain restore backup.omsg restored.omsg
    omsgrain restore backup.omsg again.omsg --tombstones-from memory.omsg
"""


@click.command(cls=Manual, short_help="Make an empty store.", examples=INIT)
@store_argument(exists=False, file_okay=False)
@actor_option
@trust_options
@output.json_option
def init(store: Where, actor: str | None, as_json: bool) -> None:
    """Make an empty store at STORE. A store that is there already is left as it is."""
    made = make_store(store, actor=actor)
    if as_json:
        output.emit({"store": str(store), "made": made})
    else:
        click.echo(output.safe(f"{store}: {'made' if made else 'is there already'}"))


@click.command(cls=Manual, short_help="Count what is in a store.", examples=STATS)
@store_argument()
@keys_option
@output.json_option
def stats(store: Where, as_json: bool) -> None:
    """Count the grains of STORE and the bytes that they take.

    The watermark is the last sequence number that the index on disk covers; grains beyond it are
    found all the same.
    """
    with open_store(store, readonly=True) as grains:
        values = asdict(grains.stats())
    if as_json:
        output.emit(values)
        return
    width = max(map(len, values))
    for name, value in values.items():
        click.echo(f"{name.replace('_', ' '):<{width}}  {value}")


@click.command(
    cls=Manual,
    short_help="Look at every byte of a store.",
    examples=CHECK,
    exits={0: "Nothing is wrong.", 60: "Something is wrong."},
)
@store_argument()
@keys_option
@output.json_option
def check(store: Where, as_json: bool) -> int:
    """Look at every byte of STORE that matters: blobs, addresses, index rows, counts.

    It reads the whole store, in a process of
    its own, while others may use it. What it finds in the index, `rebuild` mends; a damaged grain
    can only come back from a backup or another store.
    """
    home = location_of(store)
    home.must_exist()
    report = home.check()  # in a process of its own: a damaged page can end the one that reads
    if report.ok:
        with open_store(store, readonly=True) as grains:
            report = grains.check_text(report)
    if as_json:
        output.emit(asdict(report))
    else:
        for problem in report.problems:
            where = problem.where if problem.seq is None else f"{problem.where} {problem.seq}"
            click.echo(output.safe(f"{where}: {problem.message}"), err=True)
        found = f"{len(report.problems)} problems" if report.problems else "all well"
        click.echo(f"{report.grains} grains, {report.rows} index rows: {found}")
    return 0 if report.ok else StoreError.exit_code


@click.command(
    cls=Manual,
    short_help="Make the index of a store anew.",
    examples=REBUILD,
    exits={33: "Damaged grains were left out."},
)
@store_argument()
@keys_option
@output.json_option
def rebuild(store: Where, as_json: bool) -> int:
    """Make the index of STORE anew from its blobs, in one transaction.

    Needed only if `check` finds something wrong in it. Blobs are never changed. Damaged ones are
    named by their sequence number and left out.
    """
    with writable(store) as grains:
        report = grains.rebuild()
    if as_json:
        output.emit(asdict(report))
    else:
        for seq in report.damaged:
            click.echo(f"grain {seq}: the bytes are not those that were put", err=True)
        click.echo(
            f"{report.grains} grains, {report.rows} index rows, "
            f"{report.readdressed} addresses made again, {len(report.damaged)} damaged"
        )
    return IntegrityError.exit_code if report.damaged else 0


@click.command(cls=Manual, short_help="Copy a store while it is in use.", examples=BACKUP)
@store_argument()
@argument("directory", type=NewPath(dir_okay=True), help="The new directory of the copy.")
@keys_option
@output.json_option
def backup(store: Where, directory: Path, as_json: bool) -> None:
    """Copy STORE as it is now to DIRECTORY, which must not exist yet.

    Others may read and write meanwhile; the copy has what was committed when it began. It is a
    store by itself; `restore` makes a store of it again, once it is checked.
    """
    with open_store(store, readonly=True) as grains:
        grains.backup(directory)
    size = sum(file.stat().st_size for file in directory.iterdir())
    if as_json:
        output.emit({"path": str(directory), "bytes": size})
    else:
        click.echo(output.safe(f"{size} bytes: {directory}"))


@click.command(
    cls=Manual, short_help="Write a store anew without what is free in it.", examples=COMPACT
)
@store_argument()
@actor_option
@keys_option
@output.json_option
def compact(store: Where, actor: str | None, as_json: bool) -> None:
    """Write STORE anew without free pages, and so without the bytes of what was deleted.

    Others may use it meanwhile. It takes as much room again until it is done; whatever happens,
    there is one whole store.
    """
    with writable(store, actor) as grains:
        report = grains.compact()
    output.done(as_json, f"{report.before} bytes before, {report.after} after", **asdict(report))


@click.command(cls=Manual, short_help="Make a store from a backup.", examples=RESTORE)
@argument("backup", type=StoreParam(), help="What `backup` made.")
@argument("store", type=StoreParam(exists=False), help="The new store.")
@click.option(
    "--tombstones-from",
    type=StoreParam(file_okay=False),
    metavar="STORE",
    help="Erase again what was erased there after the backup was made.",
)
@keys_option
@actor_option
@output.json_option
def restore(
    backup: Where, store: Where, tombstones_from: Where | None, actor: str | None, as_json: bool
) -> None:
    """Make a store at STORE, where there is nothing yet, from BACKUP, which stays as it is.

    All of the backup is checked first; a damaged one makes no store. What was erased since comes
    back with it, unless the store that lived on, or a later backup of it, says what that was.
    """
    import omsgrain as og

    og.restore(backup, store, actor=actor, keys=keys_in_use(), tombstones_from=tombstones_from)
    output.done(as_json, f"restored: {store}", path=str(store), restored=True)
