# SPDX-License-Identifier: Apache-2.0
"""``omsgrain erase``, ``report``, ``consent``, ``due``, ``restrict``: people's rights."""

from __future__ import annotations

import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from omsgrain.cli import output
from omsgrain.cli.command import (
    ADDRESS,
    EXISTING,
    Chapter,
    F,
    NewPath,
    argument,
    command,
    flag,
    options,
    refuse_given,
    store_argument,
    target_option,
)
from omsgrain.cli.open import (
    SOURCE,
    actor_option,
    keys_in_use,
    keys_option,
    master_key,
    open_store,
    open_to_read,
    plain_option,
    policy_option,
    writable,
)
from omsgrain.crypto.private_file import new_file
from omsgrain.durable import private_files, refuse_existing, write_new
from omsgrain.errors import (
    FormatError,
    InvalidationDeniedError,
    KeyMissingError,
    NotFoundError,
    StoreError,
)
from omsgrain.json_values import time_text
from omsgrain.storage.location import Where
from omsgrain.storage.tokens import open_tokens

if TYPE_CHECKING:
    from omsgrain.store.privacy.erasure import ErasureReport
    from omsgrain.store.privacy.report import SubjectReport

_LIMIT = 4 << 20  # bytes; far more than a thousand names take

ERASE = r"""
A dry run, then the erasure, with names that do not appear in the shell's history:
    omsgrain erase memory.omsg --identity-file names.txt --reason gdpr17 --dry-run
    omsgrain erase memory.omsg --identity-file names.txt --reason gdpr17 \
        --certificate erased.json --key signer.pem
All memory of a tenant, with its tokens:
    omsgrain erase memory.omsg --tenant TENANT --reason contract-ended --forget-tokens
"""
REPORT = """
For the person, as JSON:
    omsgrain report memory.omsg --identity-file names.txt -o ada.json
For another service:
    omsgrain report memory.omsg ada -o ada.mg --policy gdpr
"""
CONSENT = """
A person withdraws a consent; the next run erases what it allowed:
    omsgrain consent withdraw memory.omsg CONSENT --reason "by letter"
    omsgrain due memory.omsg --run
"""
DUE = """
List what is queued; and the run that a timer starts once a day:
    omsgrain due memory.omsg
    omsgrain due memory.omsg --run --policy gdpr
"""
RESTRICT = """
A person contests a grain; leave it out of results until that is settled:
    omsgrain restrict memory.omsg ADDRESS --reason gdpr18
"""
UNRESTRICT = """
The dispute is settled:
    omsgrain unrestrict memory.omsg ADDRESS --reason settled
"""

_INCOMPLETE = {
    "unopened": "some grains were not checked: no key opens them",
    "key": "a key was not destroyed: it is in another key file",
    "rekey": "the key file was not rewritten",
}
_store = store_argument()
_address = argument("address", help=ADDRESS)
_code = click.option(
    "--reason", required=True, metavar="CODE", help="A word such as gdpr18; nothing personal."
)


def identity_options(command: F) -> F:
    """Add the names of a person."""
    text = 'More names, one a line; "-" is stdin.'
    command = click.option("--identity-file", type=click.File("rb"), metavar="FILE", help=text)(
        command
    )
    said = "Names of the person: user ids, DIDs, e-mail addresses."
    return argument("identity", nargs=-1, help=said)(command)


_allow_none = flag("--allow-none", help="Exit with 0 if the store has nothing of these names.")


def names(identity: tuple[str, ...], file: BinaryIO | None) -> list[str]:
    """Return the names given on the command line and in a file."""
    found = list(identity)
    if file is not None:
        data = file.read(_LIMIT + 1)
        try:
            lines = data.decode("utf-8-sig").splitlines()
        except UnicodeDecodeError:
            lines = None
        if lines is None or len(data) > _LIMIT:
            raise FormatError(
                "--identity-file is not a list of names", expected="one name a line, in UTF-8"
            )
        found += [line.strip() for line in lines if line.strip()]
    if not found:
        raise click.UsageError("no person: give IDENTITY or --identity-file")
    return found


@command(
    "Erase a person, or a tenant.",
    ERASE,
    exits={
        41: "A hold or a retention protects some grains; the rest is erased.",
        53: "Keys or grains could not be opened.",
        61: "The store has nothing of these names.",
        60: "The files could not be rewritten; the next `due --run` tries again.",
    },
)
@_store
@identity_options
@click.option("--tenant", metavar="ID", help="Instead of names: all memory of this tenant.")
@click.option(
    "--reason", required=True, metavar="CODE", help="A word such as gdpr17; nothing personal."
)
@click.option(
    "--mentions",
    type=click.Choice(["list", "erase"]),
    default="list",
    help="Grains of others that name the person: list them, or erase them too.",
)
@click.option(
    "--scrub",
    type=click.Choice(["now", "queued"]),
    default="now",
    help="When to rewrite the files without the bytes: now, or by `due --run`.",
)
@click.option(
    "--within",
    "within_days",
    type=click.IntRange(0, 30),
    default=30,
    metavar="DAYS",
    help="With --scrub queued: the deadline, 0 to 30.",
)
@flag("--forget-tokens", help="Also revoke and delete the tokens that open the memory.")
@flag("--ciphertext", help="Also remove encrypted grains whose key was destroyed.")
@click.option(
    "--new-master",
    metavar="SOURCE",
    help=f"Rewrite the key file under this master key, as `keys rekey` does. {SOURCE}",
)
@flag("--dry-run", help="Change nothing; count what would be erased.")
@click.option(
    "--certificate",
    type=NewPath(),
    help="Write a signed certificate of the erasure, without names; `verify` checks it.",
)
@click.option("--key", type=EXISTING, help="With --certificate: the private key that signs it.")
@_allow_none
@policy_option
@actor_option
@keys_option
@output.json_option
def erase(
    store: Where,
    identity: tuple[str, ...],
    identity_file: BinaryIO | None,
    tenant: str | None,
    reason: str,
    new_master: str | None,
    forget_tokens: bool,
    dry_run: bool,
    certificate: Path | None,
    key: Path | None,
    allow_none: bool,
    policy: str | None,
    actor: str | None,
    as_json: bool,
    **given: Any,
) -> int:
    """Erase the person whose names are IDENTITY from STORE.

    The keys are destroyed first, so that encrypted grains and all their copies become unreadable.
    Then unencrypted grains are removed, and the files are rewritten. Grains under a hold or a
    minimum retention stay, restricted; a lock protects no grain. Grains of others that name the
    person are listed by their addresses.

    A name given as an argument appears in your shell's history and in the list of processes;
    --identity-file keeps it out of both. The output contains no names.

    Tokens that open the memory (`token`) stay, and the report counts them. They name the tenant;
    --forget-tokens deletes them.

    With --tenant, erase all that belongs to a tenant, as its AIMEM bundles would contain it. An
    import skips erased records unless it has --allow-erased.

    The certificate contains the time, the reason, the numbers of keys and grains, what was kept
    and why, and a checkpoint of the audit trail.
    """
    from omsgrain.crypto.signers import load_signer
    from omsgrain.memory import removal
    from omsgrain.memory.removal import erase_tenant

    if (certificate is None) != (key is None):
        raise click.UsageError("--certificate and --key need each other")
    if certificate is not None and dry_run:
        raise click.UsageError("--certificate does not go with --dry-run")
    signer = None if key is None else load_signer(key)

    if tenant is not None:
        if identity or identity_file is not None:
            raise click.UsageError("--tenant and names exclude each other")
        refuse_given("--tenant", "mentions", "ciphertext")
        people = [tenant]
    else:
        people = names(identity, identity_file)
    if dry_run:
        with open_store(store, readonly=True, policy=policy) as grains:
            found = removal.erase_preview(grains, people, keys_in_use())
        if as_json:
            output.emit(found)
        else:
            for name, value in found.items():
                click.echo(f"{name:10} {output.dumps(value)}")
        return _none(allow_none, any(found.values()))
    rekey = None if new_master is None else master_key(new_master)
    given |= {"reason_code": reason, "rekey": rekey}
    removal.check_erasure(people, keys_in_use(), reason_code=reason, rekey=rekey)
    forgotten = 0
    if forget_tokens:  # after the checks, before the files are rewritten
        with open_tokens(store, actor=actor) as tokens:
            forgotten = tokens.forget(people)
    with writable(store, actor, policy=policy) as grains:
        if tenant is None:
            report = removal.erase(grains, people, **given)
        else:
            own = {name: given[name] for name in given if name not in ("mentions", "ciphertext")}
            report = erase_tenant(grains, tenant, **own)
    with open_tokens(store, readonly=True) as tokens:
        left = tokens.count(people)
    matched = report.matched or bool(left or forgotten)
    in_copies = bool(report.erased) and keys_in_use() is None
    if as_json:
        output.emit(report.to_dict() | {"tokens": left, "in_earlier_copies": in_copies})
    else:
        _print_erasure(report)
        if in_copies:
            text = (
                "earlier copies of the store still contain the removed grains: they were not "
                "encrypted"
            )
            click.echo(text, err=True)
        if left:
            click.echo(
                f"tokens that still open this memory: {left}; see --forget-tokens", err=True
            )
    if certificate is not None and signer is not None and (matched or allow_none):
        of: Any = "person" if tenant is None else "tenant"
        with open_store(store, readonly=True) as grains:
            made = grains.privacy.certify(
                report, signer, reason_code=reason, of=of, iat=int(time.time())
            )
        write_new(certificate, made.to_json().encode())
        if not as_json:
            click.echo(output.safe(f"{certificate}: certificate, signed by {signer.did}"))
    code = _exit_code(report, queued=given["scrub"] == "queued")
    return code or _none(allow_none, matched)


def _none(allow_none: bool, matched: bool) -> int:
    """Refuse names that match nothing: they may be misspelt."""
    if matched or allow_none:
        return 0
    text = "the store has nothing of these names"
    raise NotFoundError(text, expected="another spelling, or --allow-none")


def _print_erasure(report: ErasureReport) -> None:
    click.echo(
        f"{output.plural(report.keys, 'key')} destroyed, "
        f"{output.plural(report.sealed, 'encrypted grain')} made unreadable, "
        f"{output.plural(report.erased, 'grain')} removed"
    )
    for address, fields in report.named:
        click.echo(output.safe(f"names the person: {address}  {', '.join(fields)}"))
    for address, rule in report.kept:
        click.echo(output.safe(f"kept: {address}  {rule}"), err=True)
    for what in report.incomplete:
        if what in _INCOMPLETE:
            click.echo(_INCOMPLETE[what], err=True)
    if report.rekeyed:
        click.echo("the key file is rewritten; destroy the old master key")
    if report.scrubbed:
        click.echo("the files no longer contain the removed bytes")
    elif report.scrub_due is not None:
        by = time_text(report.scrub_due)
        click.echo(f"free pages may contain the removed bytes: run `due --run` by {by}", err=True)


def _exit_code(report: ErasureReport, *, queued: bool) -> int:
    left = set(report.incomplete) - ({"scrub"} if queued else set())
    if "kept" in left:
        return InvalidationDeniedError.exit_code
    if left & {"unopened", "key"}:
        return KeyMissingError.exit_code
    return StoreError.exit_code if left else 0


@command(
    "Report all data of a person in a store.",
    REPORT,
    exits={
        53: "Some grains could not be read, or may not be exported; the rest is written.",
        61: "The store has nothing of these names.",
    },
)
@_store
@identity_options
@target_option("Write to this new file: FILE.mg as a container, else JSON.")
@_allow_none
@policy_option
@actor_option
@keys_option
@output.json_option
def report(
    store: Where,
    identity: tuple[str, ...],
    identity_file: BinaryIO | None,
    target: Path | None,
    policy: str | None,
    actor: str | None,
    allow_none: bool,
    as_json: bool,
) -> int:
    """Gather all data in STORE about the person whose names are IDENTITY, as JSON.

    The output is decrypted, and as personal as the store: only you can read the new file. For
    names on the command line see `erase`.
    """
    people = names(identity, identity_file)
    if target is not None:
        refuse_existing(target, replace=False)  # refuse before the report is made
    with open_to_read(store, actor=actor, policy=policy) as grains:  # it writes an audit entry
        found = grains.privacy.report(people)
        _write(found, target)
    if target is None:
        pass  # printed instead
    elif as_json:
        counts = {"own": found.own, "named": found.named, "complete": found.complete}
        lacks = list(found.incomplete)
        output.emit({"path": os.fspath(target), **counts, "incomplete": lacks})
    else:
        click.echo(output.safe(f"{target}: {found.own} own grains, {found.named} others"))
    for lack in () if as_json else found.incomplete:
        click.echo(output.safe(lack), err=True)
    if not found.complete:
        return KeyMissingError.exit_code
    return _none(allow_none, bool(found.own or found.named))


def _write(found: SubjectReport, target: Path | None) -> None:
    """Write a report to a file that only its owner may read, or to stdout."""
    if target is None:
        click.echo(output.safe(found.to_json()).encode(), nl=False)
    elif target.suffix == ".mg":
        with private_files():
            found.write_mg(target)
    else:
        with (
            new_file(target) as handle,
            open(handle, "w", encoding="utf-8", closefd=False) as file,
        ):
            found.write_json(file)


@click.group(cls=Chapter, short_help="Withdraw consents.", examples=CONSENT)
def consent() -> None:
    """Withdraw consents. Each command has --json."""


@consent.command(short_help="Withdraw a consent.", examples=CONSENT)
@_store
@argument("address", help="The address of the consent: 64 hex digits.")
@click.option("--reason", metavar="TEXT", help="The reason, as a note that can be erased.")
@click.option(
    "--within",
    type=click.IntRange(0, 30),
    metavar="DAYS",
    help="Erase within this many days, 0 to 30; by default 30.",
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

    Grains that depend on it and ask for erasure are queued for `due --run`; other grains that
    depend on it are listed.
    """
    with writable(store, actor) as grains:
        found = grains.privacy.withdraw_consent(address, reason=reason, sla_days=within)
    if as_json:
        lists = {"queued": list(found.queued), "others": list(found.others)}
        output.emit({**asdict(found), **lists})
        return
    click.echo(f"withdrawn by {found.withdrawal}")
    if found.deadline is not None:
        by = time_text(found.deadline)
        click.echo(f"{output.plural(len(found.queued), 'grain')} to erase by {by}")
    for other in found.others:
        click.echo(f"without consent now: {other}")
    if not found.complete:
        click.echo("some grains were not checked: no key opens them", err=True)


@command(
    "List or run the erasures that are due.",
    DUE,
    exits={
        41: "With --run: a hold or a retention protects some grains.",
        60: "With --run: something else failed; the next run tries it again.",
    },
)
@_store
@flag("--run", help="Erase what is due.")
@flag("--everything", help="With --run: erase also what is queued for later.")
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
    """List what STORE must erase and by when, or with --run erase what is due. Run it once a day.

    It covers withdrawn consents, unfinished erasures of people, and with --policy grains past
    their retention.
    """
    if everything and not run:
        raise click.UsageError("--everything needs --run")
    if not run:
        with open_store(store, readonly=True, policy=policy) as grains:
            entries = [asdict(entry) for entry in grains.privacy.due()]
            entries += (
                {"deadline": None, "kind": "retention", "address": address, "overdue": True}
                for address in grains.privacy.retention_due()
            )
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
        report = grains.privacy.run_due(everything=everything)
    if as_json:
        output.emit({"complete": report.complete, **asdict(report)})
    else:
        click.echo(
            f"{report.erased} erased, {report.expired} expired, {report.finished} others done, "
            f"{report.dropped} void, {len(report.kept)} kept, {report.waiting} waiting"
        )
        if report.scrub_due is not None:
            click.echo(
                "Free pages still contain erased bytes; `compact` removes them now.", err=True
            )
        for address, rule in report.kept:
            click.echo(output.safe(f"kept: {address}  {rule}"), err=True)
    if report.kept:
        return InvalidationDeniedError.exit_code
    return 0 if report.complete else StoreError.exit_code


_restriction = options(output.json_option, keys_option, actor_option, _code, _address, _store)


@command("Restrict a grain: leave it out of results, and keep it.", RESTRICT)
@_restriction
def restrict(store: Where, address: str, reason: str, actor: str | None, as_json: bool) -> None:
    """Leave the grain at ADDRESS out of the results of STORE; `get` still returns it."""
    with writable(store, actor) as grains:
        grains.privacy.restrict(address, reason_code=reason)
    output.done(as_json, "restricted", content_address=address, restricted=True)


@command("End a restriction.", UNRESTRICT)
@_restriction
def unrestrict(store: Where, address: str, reason: str, actor: str | None, as_json: bool) -> None:
    """End the restriction of the grain at ADDRESS in STORE."""
    with writable(store, actor) as grains:
        grains.privacy.unrestrict(address, reason_code=reason)
    output.done(as_json, "unrestricted", content_address=address, restricted=False)
