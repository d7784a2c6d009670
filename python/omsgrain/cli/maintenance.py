# SPDX-License-Identifier: Apache-2.0
"""``omsgrain init``, ``paths``, ``stats``, ``check``, ``rebuild``, ``compact``."""

from __future__ import annotations

from dataclasses import asdict

import click

from omsgrain.cli import output
from omsgrain.cli.command import command, flag, store_argument
from omsgrain.cli.open import (
    actor_option,
    keys_option,
    make_store,
    open_store,
    trust_options,
    writable,
)
from omsgrain.errors import IntegrityError, StoreError
from omsgrain.json_values import time_text
from omsgrain.query.times import spell_age
from omsgrain.storage.location import Where, location_of

INIT = """
A store on this machine:
    omsgrain init memory.omsg
A store with an index of two paths:
    omsgrain init robot.omsg --index observer_id --index object.celsius
A store that encrypts users' grains:
    omsgrain init sealed.omsg --keys people.keys --master master.key
"""
PATHS = """
The indexed paths; another one; without one:
    omsgrain paths memory.omsg
    omsgrain paths memory.omsg --add observer_id --add object.celsius
    omsgrain paths memory.omsg --drop observer_id
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
COMPACT = """
After deletions, to free space and remove the bytes:
    omsgrain compact memory.omsg
"""


@command("Create an empty store.", INIT)
@store_argument(exists=False, file_okay=False)
@click.option("--index", "indexed", multiple=True, metavar="PATH",
              help="A path to index, such as observer_id; repeatable.")  # fmt: skip
@actor_option
@trust_options
@output.json_option
def init(store: Where, indexed: tuple[str, ...], actor: str | None, as_json: bool) -> None:
    """Create an empty store at STORE. An existing store only gets the paths of --index."""
    made = make_store(store, actor=actor)
    if indexed:
        with writable(store, actor) as grains:
            grains.paths.add(*indexed)
    text = f"{store}: {'created' if made else 'exists already'}"
    output.done(as_json, text, store=str(store), made=made)


@command("Index values at paths.", PATHS)
@store_argument()
@click.option("--add", "added", multiple=True, metavar="PATH",
              help="Index this path: a field, or keys inside object or context.")  # fmt: skip
@click.option("--drop", "dropped", multiple=True, metavar="PATH",
              help="Stop indexing this path.")  # fmt: skip
@actor_option
@keys_option
@output.json_option
def paths(
    store: Where,
    added: tuple[str, ...],
    dropped: tuple[str, ...],
    actor: str | None,
    as_json: bool,
) -> None:
    """List the indexed paths of STORE, after adding and dropping some.

    The index answers filters such as --observer-id and --where. A new path in a large store takes
    a while; others can use the store meanwhile, and a killed command goes on when you repeat it.
    """
    change = bool(added or dropped)
    with writable(store, actor) if change else open_store(store, readonly=True) as grains:
        for path in dropped:
            grains.paths.drop(path)
        if added:
            grains.paths.add(*added)
        found = grains.paths.declared()
    if as_json:
        output.emit({"paths": [asdict(one) for one in found]})
        return
    for one in found:
        click.echo(output.safe(one.path + " (not ready)" * (not one.ready)))
    click.echo(output.plural(len(found), "indexed path"), err=True)


@command("Count what is in a store.", STATS)
@store_argument()
@keys_option
@flag("--prometheus", help="Print the figures in Prometheus' text format.")
@output.json_option
def stats(store: Where, prometheus: bool, as_json: bool) -> None:
    """Count the grains of STORE and the bytes that they take.

    The watermark is the last sequence number in the index on disk; the memtable covers the grains
    after it. Removed are the grains that left, for any reason. A bounded history also has its
    limits, and when grains last left by them, as the newest entries of the audit trail have it.
    """
    if prometheus and as_json:
        raise click.UsageError("--prometheus and --json exclude each other")
    with open_store(store, readonly=True) as grains:
        if prometheus:
            from omsgrain.server.metrics import store_figures, text_of

            click.echo(text_of(store_figures(grains)), nl=False)
            return
        values = asdict(grains.stats()) | asdict(grains.maintenance.history_state())
    for name in ("oldest_at", "retained_at"):
        if values[name] is not None:
            values[name] = time_text(values[name])
    if as_json:
        output.emit(values)
        return
    if values["keep"] is not None:
        values["keep"] = spell_age(values["keep"])
    values = {name: value for name, value in values.items() if value is not None}
    width = max(map(len, values))
    for name, value in values.items():
        click.echo(f"{name.replace('_', ' '):<{width}}  {value}")


@command(
    "Check every byte of a store.", CHECK, exits={0: "No problems.", 60: "There are problems."}
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


@command("Rebuild the index of a store.", REBUILD, exits={33: "Damaged grains were left out."})
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


@command("Rewrite a store without its free space.", COMPACT)
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
