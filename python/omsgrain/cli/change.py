# SPDX-License-Identifier: Apache-2.0
"""``omsgrain supersede``, ``mark``, ``hold``, ``release``, ``delete``, ``state``, ``reviews``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, BinaryIO

import click

from omsgrain.cli import output
from omsgrain.cli.command import ADDRESS, argument, command, options, store_argument
from omsgrain.cli.filters import STATUSES
from omsgrain.cli.open import actor_option, keys_option, open_store, plain_option, writable
from omsgrain.errors import FormatError
from omsgrain.json_values import parsed, time_text
from omsgrain.storage.location import Where

_LIMIT = 16 << 20  # bytes of JSON for one grain; no valid grain needs as many

SUPERSEDE = """
Replace a belief by a newer one:
    omsgrain supersede memory.omsg OLD newer.json --justification "measured again"
"""
MARK = """
Two sensors disagree; a contested grain stays among current results:
    omsgrain mark memory.omsg ADDRESS contested --reason "the second sensor says 19"
"""
DELETE = """
Delete a grain for good, and remove its bytes from the disk:
    omsgrain delete memory.omsg ADDRESS --reason "asked for by mail" --erased forgotten
    omsgrain compact memory.omsg
"""
HOLD = """
Keep evidence for a court:
    omsgrain hold memory.omsg ADDRESS --authority "court 7" --reason litigation
"""
RELEASE = """
End the hold of that court:
    omsgrain release memory.omsg ADDRESS --authority "court 7" --reason closed
"""
STATE = """
Is the grain current, verified or held, and how often was it read?
    omsgrain state memory.omsg ADDRESS
"""
REVIEWS = """
List what waits for a review, and mark one as done:
    omsgrain reviews memory.omsg
    omsgrain reviews memory.omsg --done NUMBER --actor did:web:example.org:ada
"""
DENIED = {41: "A policy, a hold or a minimum retention of the grain forbids it."}

_store = store_argument()
_address = argument("address", help=ADDRESS)
_reason = click.option("--reason", metavar="TEXT", help="The reason; some policies require it.")


@command("Replace a grain by a newer one.", SUPERSEDE, exits=DENIED)
@_store
@argument("old", help="The address of the grain to replace: 64 hex digits.")
@argument("file", type=click.File("rb"), help='The new grain, its fields as JSON; "-" is stdin.')
@click.option("--justification", metavar="TEXT", help="The reason; some policies require it.")
@actor_option
@plain_option
@keys_option
@output.json_option
def supersede(
    store: Where,
    old: str,
    file: BinaryIO,
    justification: str | None,
    actor: str | None,
    as_json: bool,
) -> None:
    """Replace the grain at OLD in STORE by the grain in FILE.

    In one step the new grain is stored and the old one leaves current results; the old one stays
    in the history. The policy of the old grain must allow it. The command prints the new address.
    """
    fields = _fields(file.read(_LIMIT + 1))
    with writable(store, actor) as grains:
        address = grains.supersede(old, fields, justification=justification)
    output.done(as_json, address, content_address=address, supersedes=old)


@command("Set the verification status of a grain.", MARK, exits=DENIED)
@_store
@_address
@argument("status", type=click.Choice(STATUSES), help=f"One of {', '.join(STATUSES)}.")
@_reason
@actor_option
@keys_option
@output.json_option
def mark(
    store: Where, address: str, status: Any, reason: str | None, actor: str | None, as_json: bool
) -> None:
    """Set the verification status of the grain at ADDRESS in STORE.

    A contested grain stays among current results; a retracted one leaves them. The policy of the
    grain must allow it.
    """
    with writable(store, actor) as grains:
        grains.trust.set_verification(address, status, reason=reason)
    output.done(as_json, status, content_address=address, verification_status=status)


@command("Delete a grain.", DELETE, exits=DENIED)
@_store
@_address
@_reason
@click.option(
    "--erased",
    metavar="CODE",
    help="Also keep imports and syncs from bringing the grain back. CODE is a word for the "
    "tombstone, such as forgotten; nothing personal.",
)
@actor_option
@keys_option
@output.json_option
def delete(
    store: Where,
    address: str,
    reason: str | None,
    erased: str | None,
    actor: str | None,
    as_json: bool,
) -> None:
    """Delete the grain at ADDRESS from STORE, if its policy, holds and retention allow it.

    An import or a sync can bring the grain back, unless you give --erased. Until `compact`, free
    pages of the file can still hold its bytes.
    """
    from omsgrain.memory import removal

    with writable(store, actor) as grains:
        removal.delete(grains, address, reason=reason, erased=erased)
    output.done(as_json, "deleted", content_address=address, deleted=True)


_held = options(
    output.json_option,
    keys_option,
    actor_option,
    click.option("--reason", "reason_code", required=True, metavar="CODE",
                 help="A word such as litigation; nothing personal."),
    click.option("--authority", required=True, metavar="NAME",
                 help="The authority, such as a court. Each can end only its own holds."),
    _address,
    _store,
)  # fmt: skip


@command("Protect a grain from any change.", HOLD)
@_held
def hold(
    store: Where, address: str, authority: str, reason_code: str, actor: str | None, as_json: bool
) -> None:
    """Hold the grain at ADDRESS in STORE: nothing may supersede, delete or erase it."""
    with writable(store, actor) as grains:
        grains.holds.add(address, authority=authority, reason_code=reason_code)
    output.done(as_json, "held", content_address=address, held=True)


@command("End a hold.", RELEASE)
@_held
def release(
    store: Where, address: str, authority: str, reason_code: str, actor: str | None, as_json: bool
) -> None:
    """End the hold of an authority on the grain at ADDRESS in STORE."""
    with writable(store, actor) as grains:
        grains.holds.release(address, authority=authority, reason_code=reason_code)
    output.done(as_json, "released", content_address=address, released=authority)


@command("Show the state of a grain.", STATE)
@_store
@_address
@keys_option
@output.json_option
def state(store: Where, address: str, as_json: bool) -> None:
    """Show the state of the grain at ADDRESS in STORE: superseded, verified, held, read."""
    with open_store(store, readonly=True) as grains:
        found = asdict(grains.status(address))
        found["successors"] = list(found["successors"])
        found["holds"] = [asdict(hold) for hold in grains.holds.of(address)]
    if as_json:
        output.emit(found)
        return
    for name, value in found.items():
        if name in ("system_valid_to", "last_accessed_at") and value is not None:
            value = time_text(value)
        click.echo(output.safe(f"{name:20} {output.dumps(value) if value != [] else '-'}"))


@command("List the changes that wait for a review.", REVIEWS)
@_store
@click.option("--done", "number", type=int, metavar="N", help="Mark review N as done.")
@actor_option
@keys_option
@output.json_option
def reviews(store: Where, number: int | None, actor: str | None, as_json: bool) -> None:
    """List the changes in STORE that a policy accepted on condition of a review."""
    if number is not None:
        with writable(store, actor) as grains:
            grains.reviews.resolve(number)
        output.done(as_json, f"review {number} is done", number=number, done=True)
        return
    with open_store(store, readonly=True) as grains:
        found = grains.reviews.pending()
    if as_json:
        output.emit([asdict(one) for one in found])
        return
    for one in found:
        by = f" by {one.by}" if one.by else ""
        at, why = time_text(one.time), one.justification or "no reason given"
        text = f"{one.number}  {at}  {one.operation} {one.address}{by}: {why}"
        click.echo(output.safe(text))


def _fields(text: bytes) -> dict[str, Any]:
    """Read the fields of one grain from JSON."""
    if len(text) > _LIMIT:
        raise FormatError("FILE is too large for one grain", expected=f"at most {_LIMIT} bytes")
    try:
        value = parsed(text)
    except (ValueError, RecursionError) as error:
        raise FormatError("FILE is not JSON", line=getattr(error, "lineno", None)) from None
    if not isinstance(value, dict):
        raise FormatError(
            "FILE does not contain the fields of a grain", expected="one JSON object"
        )
    return value
