# SPDX-License-Identifier: Apache-2.0
"""``omsgrain sync``: sync two stores, or a store and a file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from omsgrain.cli import output
from omsgrain.cli.command import EXISTING, TOLD, argument, command, flag, refuse_dash
from omsgrain.cli.console import progress
from omsgrain.cli.open import (
    actor_option,
    authority_options,
    first_line,
    open_store,
    plain_option,
    policy_option,
    resolver_in_use,
    trust_options,
)
from omsgrain.errors import UnsupportedError
from omsgrain.storage.location import location_of

if TYPE_CHECKING:
    from omsgrain.policy.rules import Purpose
    from omsgrain.sync.local import Notes
    from omsgrain.sync.peer import Peer, Right
    from omsgrain.sync.run import Passed, Progress, SyncReport

TOKEN = "OMSGRAIN_TOKEN"
RIGHTS = ("all", "grains", "states", "holds", "releases", "restrictions", "erasures")

EXAMPLES = """
Two directories, both ways; then only from the robot to the hub:
    omsgrain sync robot.omsg hub.omsg
    omsgrain sync robot.omsg hub.omsg --direction push --namespace "robots:7:*"
With a server, with a token:
    omsgrain sync robot.omsg https://hub.example:8080 --token-file token
By a USB stick, without a network, to a store that may be new:
    omsgrain sync robot.omsg out.mg
    omsgrain sync out.mg hub.omsg --create
The same, signed, so that it may also transfer erasures, holds and restrictions:
    omsgrain sync robot.omsg stick.mg
    omsgrain sign stick.mg --key signer.pem
    omsgrain sync stick.mg hub.omsg --trust signer.pub
"""
_END = "A store's path or URL, a server's URL, or a .mg file"


@command("Sync two stores.", EXAMPLES, name="sync")
@argument("source", help=f"{_END} to import.")
@argument("target", help=f"{_END} to write. {TOLD}")
@flag("--create", help="Create TARGET, a store, if it does not exist.")
@click.option(
    "--direction",
    type=click.Choice(["both", "push", "pull"]),
    default="both",
    help="push: from SOURCE to TARGET; pull: the other way.",
)
@click.option(
    "--namespace",
    "namespaces",
    multiple=True,
    metavar="NAME",
    help="Only grains of this namespace; robots:* matches every namespace that begins with "
    "robots:. Repeatable.",
)
@flag("--full", help="Compare everything, also what was synced before.")
@flag("--dry-run", help="Change nothing; report what would be sent.")
@click.option(
    "--purpose",
    type=click.Choice(["move", "transfer"]),
    default="move",
    help="move: to a store of your own, with restricted grains; transfer: to others.",
)
@click.option(
    "--for",
    "answers",
    type=EXISTING,
    help="With a FILE as TARGET: a file from the store that will import it.",
)
@flag(
    "--share-keys",
    help="Put the keys of tombstones into the FILE, so that erasures can be applied.",
)
@click.option(
    "--rights",
    multiple=True,
    metavar="LIST",
    help="What the other side may change in stores of this machine: all, or a list with commas "
    "of grains, states, holds, releases (ends of holds), restrictions, erasures. The "
    "default is all for a server and for a FILE with --trust. It is grains,states for any "
    "other FILE, and all but releases between two stores.",
)
@click.option(
    "--trust",
    multiple=True,
    metavar="SOURCE",
    help="A DID, or a file of public keys, that must have signed the FILE. Repeatable.",
)
@click.option(
    "--trust-state-from",
    multiple=True,
    metavar="SOURCE",
    help="As --trust, and accept also the verification statuses in the FILE.",
)
@authority_options
@click.option(
    "--token-file",
    type=EXISTING,
    help="A file with the token for a server; by default OMSGRAIN_TOKEN.",
)
@click.option("--ca", "trusted", type=EXISTING, help="Certificates to trust for a server, PEM.")
@policy_option
@actor_option
@plain_option
@trust_options
@output.json_option
def sync(
    source: str,
    target: str,
    create: bool,
    direction: Any,
    namespaces: tuple[str, ...],
    full: bool,
    dry_run: bool,
    answers: Path | None,
    share_keys: bool,
    rights: tuple[str, ...],
    trust: tuple[str, ...],
    trust_state_from: tuple[str, ...],
    token_file: Path | None,
    trusted: Path | None,
    as_json: bool,
    **given: Any,
) -> int:
    """Sync the stores SOURCE and TARGET: grains, their states, and erasures.

    Each is a store's path or the URL of `omsgrain serve` (https://hub.example). One of them may be
    a .mg file: sync writes it as TARGET, and imports it as SOURCE.

    Sync sends only what the other side lacks, and resumes after an interruption. A grain that was
    erased on one side is erased on the other, unless a hold or a minimum retention protects it
    there. What a store refuses is listed and does not stop the rest; the exit code is then that of
    the first refusal.
    """
    import omsgrain as og
    from omsgrain import sync as verbs
    from omsgrain.errors import BY_CODE, StoreError
    from omsgrain.storage.memory import MemoryStorage
    from omsgrain.sync.bundle import is_bundle, take_bundle, write_bundle
    from omsgrain.sync.http import is_url
    from omsgrain.sync.peer import EVERYTHING

    refuse_dash(target)
    reads, writes = is_bundle(source), is_bundle(target)
    remote = is_url(source) or is_url(target)
    _refuse_for_files(
        reads,
        writes,
        pulls=direction == "pull",
        chooses=bool(namespaces or full),
        answers=answers is not None or share_keys,
        trusts=bool(trust or trust_state_from),
    )
    if not remote and (token_file or trusted):
        raise click.UsageError("--token-file and --ca need the URL of a server")
    if create and (is_url(target) or writes or direction == "pull"):
        raise click.UsageError(
            "--create needs a store of this machine as TARGET, and a direction that sends to it"
        )
    if (reads or writes) and direction == "both":
        direction = "push"
    with progress(None, "bytes", as_json) as advance, ExitStack() as opened:
        notes: Notes = "never" if dry_run else "tried"
        side = _Endpoint(opened, token=_token(token_file), trusted=trusted, notes=notes, **given)
        may = _rights(rights, ends=bool(trust) or not reads)
        if may is None and not reads and not remote:
            may = tuple(right for right in EVERYTHING if right != "releases")
        watch = _Advance(advance)
        chosen: Any = {"namespaces": namespaces or None, "full": full}
        common: Any = {"dry_run": dry_run, "progress": watch}
        if writes:
            report = write_bundle(
                side.open(source, takes=False),
                target,
                answers=answers,
                share_keys=share_keys,
                **chosen,
                **common,
            )
        else:
            left = None if reads else side.open(source, takes=direction != "push", rights=may)
            right: Peer
            if dry_run and create and not ("://" in target or os.path.lexists(target)):
                right = verbs.LocalPeer(og.GrainStore(MemoryStorage()))  # every grain is new to it
            else:
                right = side.open(
                    target,
                    takes=direction != "pull",
                    create=create and not dry_run,
                    rights=None if reads else may,
                )
            if left is None:
                report = take_bundle(
                    source,
                    right,
                    rights=may,
                    trust=trust,
                    trust_state_from=trust_state_from,
                    resolver=resolver_in_use(),
                    **common,
                )
            else:
                report = verbs.sync(left, right, direction=direction, **chosen, **common)
    if as_json:
        output.emit(report.to_dict())
    else:
        _show(report, direction)
    refused = report.refused
    # A newer server may have codes that this version does not know.
    return BY_CODE.get(refused[0].code, StoreError).exit_code if refused else 0


def _refuse_for_files(
    reads: bool, writes: bool, *, pulls: bool, chooses: bool, answers: bool, trusts: bool
) -> None:
    """Refuse options that a .mg file as SOURCE or TARGET has not, or that only one has."""
    if (reads and writes) or ((reads or writes) and pulls):
        raise UnsupportedError(
            "a file is either SOURCE or TARGET, and has no --direction pull",
            expected="STORE FILE, or FILE STORE",
        )
    if reads and chooses:
        raise UnsupportedError("--namespace and --full do not apply to a file as SOURCE")
    if answers and not writes:
        raise UnsupportedError("--for and --share-keys need a .mg file as TARGET")
    if trusts and not reads:
        raise UnsupportedError(
            "--trust and --trust-state-from need a .mg file as SOURCE", expected="FILE STORE"
        )


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """How a store, or its server, is opened as a side of the sync."""

    opened: ExitStack
    token: str | None
    trusted: Path | None
    notes: Notes
    purpose: Purpose
    policy: str | None
    actor: str | None
    hold_authorities: Sequence[str]
    erasure_authorities: Sequence[str]

    def open(
        self,
        text: str,
        *,
        takes: bool = True,
        create: bool = False,
        rights: Iterable[Right] | None = None,
    ) -> Peer:
        from omsgrain.sync.http import HttpPeer, is_url
        from omsgrain.sync.local import LocalPeer
        from omsgrain.sync.peer import EVERYTHING

        peer: Peer
        if is_url(text):
            verify = None if self.trusted is None else str(self.trusted)
            peer = HttpPeer(text, token=self.token, verify=verify)
        else:
            home = location_of(text)
            if not create:
                home.must_exist()
            store = open_store(
                text,
                readonly=not takes and not home.is_writable(),
                actor=self.actor,
                policy=self.policy,
                hold_authorities=self.hold_authorities,
                erasure_authorities=self.erasure_authorities,
            )
            may = EVERYTHING if rights is None else ("give", *rights)
            peer = LocalPeer(store, rights=may, purpose=self.purpose, notes=self.notes, owned=True)
        return self.opened.enter_context(closing(peer))


def _rights(given: tuple[str, ...], *, ends: bool) -> Any:
    """Return the given rights, or None; "all" includes releases only with ``ends``."""
    named = [word.strip() for one in given for word in one.split(",")]
    if unknown := [word for word in named if word not in RIGHTS]:
        found = f"{unknown[0][:40]!r} is not a right"
        raise click.UsageError(f"--rights: {found}. Use {', '.join(RIGHTS)}.")
    if "all" in named:
        named = [*RIGHTS[1:]]
        if not ends:
            named.remove("releases")
    return tuple(dict.fromkeys(named)) or None


def _token(file: Path | None) -> str | None:
    """Return the token of a file or of the environment; a command line would show it."""
    if file is None:
        return os.environ.get(TOKEN) or None
    token = first_line(file, "--token-file").strip()
    if not token.isascii() or not token.isprintable() or not token:
        raise click.UsageError("--token-file contains no token")
    return token


class _Advance:
    """A progress bar of the bytes in both directions."""

    def __init__(self, advance: Any) -> None:
        self._advance = advance
        self._before = {"sent": 0, "received": 0}

    def __call__(self, progress: Progress) -> None:
        self._advance(progress.bytes - self._before[progress.way])
        self._before[progress.way] = progress.bytes


def _show(report: SyncReport, direction: str) -> None:
    for one in report.refused[: output.SHOWN]:
        rule = "" if one.rule is None else f", rule {one.rule}"
        text = f"Refused: {one.part} {one.address.hex()}: {one.code}{rule}"
        click.echo(output.safe(text), err=True)
    output.more(len(report.refused) - output.SHOWN, "refusals")
    would = "Would send" if report.dry_run else "Sent"
    if direction != "pull":
        click.echo(f"{would}: {_line(report.sent)}")
    if direction != "push":
        would = "Would receive" if report.dry_run else "Received"
        click.echo(f"{would}: {_line(report.received)}")


def _line(passed: Passed) -> str:
    return (
        f"{output.plural(passed.grains, 'grain')}, {output.plural(passed.bytes, 'byte')}, "
        f"{output.plural(passed.states, 'state')}, "
        f"{output.plural(passed.tombstones, 'tombstone')}, "
        f"{passed.erased} erased, {len(passed.refused)} refused"
    )
