# SPDX-License-Identifier: Apache-2.0
"""Bring two stores together."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import omsgrain as og
from omsgrain.errors import UnsupportedError
from omsgrain.ops.opening import open_store, resolver_in_use
from omsgrain.storage.location import location_of
from omsgrain.storage.memory import MemoryStorage

if TYPE_CHECKING:
    from omsgrain.policy.rules import Purpose
    from omsgrain.sync.local import Notes
    from omsgrain.sync.peer import Peer, Right
    from omsgrain.sync.run import Direction, OnProgress, SyncReport


class _SyncOptions(TypedDict):
    purpose: Purpose
    policy: str | None
    actor: str | None
    token: str | None
    trusted: Path | None
    notes: Notes
    hold_authorities: Sequence[str]
    erasure_authorities: Sequence[str]


def open_peer(
    text: str,
    *,
    takes: bool = True,
    create: bool = False,
    purpose: Purpose = "move",
    policy: str | None = None,
    actor: str | None = None,
    token: str | None = None,
    trusted: Path | None = None,
    notes: Notes = "tried",
    rights: Iterable[Right] | None = None,
    hold_authorities: Sequence[str] = (),
    erasure_authorities: Sequence[str] = (),
) -> Peer:
    """Open one side of a sync."""
    from omsgrain.sync.http import is_url
    from omsgrain.sync.local import LocalPeer
    from omsgrain.sync.peer import EVERYTHING

    if is_url(text):
        from omsgrain.sync.http import HttpPeer

        return HttpPeer(text, token=token, verify=None if trusted is None else str(trusted))
    home = location_of(text)
    if not create:
        home.must_exist()
    readonly = not takes and not home.is_writable()
    store = open_store(
        text,
        readonly=readonly,
        actor=actor,
        policy=policy,
        hold_authorities=hold_authorities,
        erasure_authorities=erasure_authorities,
    )
    may = EVERYTHING if rights is None else ("give", *rights)
    return LocalPeer(store, rights=may, purpose=purpose, notes=notes, owned=True)


def sync(
    source: str,
    target: str,
    *,
    namespaces: Iterable[str] | None = None,
    direction: Direction = "both",
    full: bool = False,
    dry_run: bool = False,
    create: bool = False,
    purpose: Purpose = "move",
    policy: str | None = None,
    actor: str | None = None,
    token: str | None = None,
    trusted: Path | None = None,
    answers: Path | None = None,
    share_keys: bool = False,
    rights: Iterable[Right] | None = None,
    trust: Sequence[str] = (),
    trust_state_from: Sequence[str] = (),
    hold_authorities: Sequence[str] = (),
    erasure_authorities: Sequence[str] = (),
    progress: OnProgress | None = None,
) -> SyncReport:
    """Bring two stores together."""
    from omsgrain import sync as syncing
    from omsgrain.sync.bundle import is_bundle, take_bundle, write_bundle
    from omsgrain.sync.http import is_url
    from omsgrain.sync.peer import EVERYTHING

    given: _SyncOptions = {
        "purpose": purpose,
        "policy": policy,
        "actor": actor,
        "token": token,
        "trusted": trusted,
        "notes": "never" if dry_run else "tried",
        "hold_authorities": hold_authorities,
        "erasure_authorities": erasure_authorities,
    }
    reads, writes = is_bundle(source), is_bundle(target)
    _check_files(reads, writes, direction, namespaces is not None or full)
    if not writes and (answers is not None or share_keys):
        raise UnsupportedError("only a file answers another one, or holds keys")
    if not reads and (trust or trust_state_from):
        raise UnsupportedError("only a file that is taken in is signed", expected="FILE STORE")
    may = None if rights is None else tuple(rights)
    if may is None and not reads and not is_url(source) and not is_url(target):
        may = tuple(right for right in EVERYTHING if right != "releases")
    with ExitStack() as opened:
        if writes:
            left = opened.enter_context(closing(open_peer(source, takes=False, **given)))
            return write_bundle(
                left,
                target,
                answers=answers,
                namespaces=namespaces,
                full=full,
                share_keys=share_keys,
                dry_run=dry_run,
                progress=progress,
            )
        if not reads:
            left = opened.enter_context(
                closing(open_peer(source, takes=direction != "push", rights=may, **given))
            )
        right: Peer
        create &= direction != "pull"
        if dry_run and create and not ("://" in target or os.path.lexists(target)):
            right = syncing.LocalPeer(og.GrainStore(MemoryStorage()))  # all would be new to it
        else:
            takes = direction != "pull"
            lets = None if reads else may
            peer = open_peer(
                target, takes=takes, create=create and not dry_run, rights=lets, **given
            )
            right = opened.enter_context(closing(peer))
        if reads:
            return take_bundle(
                source,
                right,
                rights=may,
                trust=trust,
                trust_state_from=trust_state_from,
                resolver=resolver_in_use(),
                dry_run=dry_run,
                progress=progress,
            )
        return syncing.sync(
            left,
            right,
            namespaces=namespaces,
            direction=direction,
            full=full,
            dry_run=dry_run,
            progress=progress,
        )


def _check_files(reads: bool, writes: bool, direction: Direction, narrowed: bool) -> None:
    """See that what is asked can be done with a file."""
    if (reads and writes) or ((reads or writes) and direction == "pull"):
        expected = "STORE FILE, or FILE STORE"
        raise UnsupportedError("a file is written, or taken in", expected=expected)
    if reads and narrowed:
        raise UnsupportedError("a file is taken in whole")
