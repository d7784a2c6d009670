# SPDX-License-Identifier: Apache-2.0
"""``omsgrain consent``, ``due``, ``restrict``, ``unrestrict``: what a store owes to people."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from omsgrain.cli import output
from omsgrain.cli.manual import Chapter, Manual, argument
from omsgrain.cli.open import (
    actor_option,
    keys_option,
    open_store,
    plain_option,
    policy_option,
    writable,
)
from omsgrain.cli.params import ADDRESS, store_argument
from omsgrain.errors import InvalidationDeniedError, StoreError
from omsgrain.json_values import time_text
from omsgrain.storage.location import Where

CONSENT = """
A person takes a consent back; what stood on it goes with the next run:
    omsgrain consent withdraw memory.omsg CONSENT --reason "by letter"
    omsgrain due memory.omsg --run
"""
DUE = """
What waits, and the run that a timer starts once a day:
    omsgrain due memory.omsg
    omsgrain due memory.omsg --run --policy gdpr
"""
RESTRICT = """
A person contests what is said; it is in no answer until that is settled:
    omsgrain restrict memory.omsg ADDRESS --reason gdpr18
"""
UNRESTRICT = """
It was right after all:
    omsgrain unrestrict memory.omsg ADDRESS --reason settled
"""

_store = store_argument()
_address = argument("address", help=ADDRESS)
_code = click.option(
    "--reason", required=True, metavar="CODE", help="A word such as gdpr18; nothing personal."
)


@click.group(cls=Chapter, short_help="Withdraw consents.", examples=CONSENT)
def consent() -> None:
    """Withdraw consents. Each command has --json."""


@consent.command(short_help="Withdraw a consent, at once.", examples=CONSENT)
@_store
@argument("address", help="The address of the consent: 64 hex digits.")
@click.option("--reason", metavar="TEXT", help="Why, as a note that can be erased.")
@click.option(
    "--within",
    type=click.IntRange(0, 30),
    metavar="DAYS",
    help="Erase within so many days, 0 to 30; without it, 30.",
)
@actor_option
@plain_option
@keys_option
@output.json_option
def withdraw(
    store: Where,
    address: str,
    reason: str | None,
    within: int | None,
    actor: str | None,
    as_json: bool,
) -> None:
    """Withdraw the consent at ADDRESS in STORE.

    What was stored on its ground and asks for it is queued to be erased, by `due --run`; all other
    grains on its ground are named.
    """
    with writable(store, actor) as grains:
        found = grains.withdraw_consent(address, reason=reason, sla_days=within)
    if as_json:
        lists = {"queued": list(found.queued), "others": list(found.others)}
        output.emit({**asdict(found), **lists})
        return
    click.echo(f"withdrawn by {found.withdrawal}")
    if found.deadline is not None:
        by = time_text(found.deadline)
        click.echo(f"{len(found.queued)} grains to be erased by {by}")
    for other in found.others:
        click.echo(f"without its ground: {other}")
    if not found.complete:
        click.echo("grains were not looked into: no key here opens them", err=True)


@click.command(
    cls=Manual,
    short_help="List or do the erasures that are due.",
    examples=DUE,
    exits={
        41: "With --run: a hold or a retention keeps something.",
        60: "With --run: something else could not be done; it is tried again the next time.",
    },
)
@_store
@click.option("--run", is_flag=True, help="Do what is due.")
@click.option("--everything", is_flag=True, help="With --run: also what is queued for later.")
@policy_option
@actor_option
@keys_option
@output.json_option
def due(
    store: Where,
    run: bool,
    everything: bool,
    policy: str | None,
    actor: str | None,
    as_json: bool,
) -> int:
    """List what STORE is to erase and by when, or with --run erase what is due. Once a day.

    That is what withdrawn consents allowed, what is left of erasing people, and with --policy what
    its rules keep no longer.
    """
    if everything and not run:
        raise click.UsageError("--everything goes with --run")
    if not run:
        entries = _due(store, policy)
        if as_json:
            output.emit(entries)
            return 0
        for entry in entries:
            by = "" if entry["deadline"] is None else time_text(entry["deadline"])
            said = [by or "now", entry["kind"], entry["address"] or ""]
            said += ["overdue"] if entry["overdue"] else []
            click.echo("  ".join(said))
        click.echo(f"{len(entries)} queued", err=True)
        return 0
    with writable(store, actor, policy=policy) as grains:
        report = grains.run_due_erasures(everything=everything)
    if as_json:
        output.emit({"complete": report.complete, **asdict(report)})
    else:
        click.echo(
            f"{report.erased} erased, {report.expired} expired, {report.finished} others done, "
            f"{report.dropped} void, {len(report.kept)} kept, {report.waiting} waiting"
        )
        if report.scrub_due is not None:
            click.echo("Free space still holds erased bytes; compact removes them now.", err=True)
        for address, rule in report.kept:
            click.echo(output.safe(f"kept: {address}  {rule}"), err=True)
    if report.kept:
        return InvalidationDeniedError.exit_code
    return 0 if report.complete else StoreError.exit_code


def _due(store: Where, policy: str | None) -> list[dict[str, Any]]:
    """What is queued to be erased, by deadlines; then what the preset keeps no longer."""
    with open_store(store, readonly=True, policy=policy) as grains:
        queued = [asdict(entry) for entry in grains.due_erasures()]
        expired: list[dict[str, Any]] = [
            {"deadline": None, "kind": "retention", "address": address, "overdue": True}
            for address in grains.retention_due()
        ]
    return queued + expired


@click.command(
    cls=Manual, short_help="Keep a grain and leave it out of all use.", examples=RESTRICT
)
@_store
@_address
@_code
@actor_option
@keys_option
@output.json_option
def restrict(store: Where, address: str, reason: str, actor: str | None, as_json: bool) -> None:
    """Leave the grain at ADDRESS out of what STORE finds; it stays, and `get` gives it."""
    with writable(store, actor) as grains:
        grains.restrict(address, reason_code=reason)
    output.done(as_json, "restricted", content_address=address, restricted=True)


@click.command(cls=Manual, short_help="End a restriction.", examples=UNRESTRICT)
@_store
@_address
@_code
@actor_option
@keys_option
@output.json_option
def unrestrict(store: Where, address: str, reason: str, actor: str | None, as_json: bool) -> None:
    """End the restriction of the grain at ADDRESS in STORE."""
    with writable(store, actor) as grains:
        grains.unrestrict(address, reason_code=reason)
    output.done(as_json, "unrestricted", content_address=address, restricted=False)
