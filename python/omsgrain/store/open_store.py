# SPDX-License-Identifier: Apache-2.0
"""Open a store, and restore one from a backup."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, cast, get_args

from omsgrain.errors import SchemaError
from omsgrain.storage.location import (
    Budget,
    DirectoryLocation,
    budget_of,
    directory_of,
    is_durable,
    location_of,
)
from omsgrain.store.context import Settings, TextFeed, context_of
from omsgrain.store.paths import declare
from omsgrain.store.store import GrainStore

if TYPE_CHECKING:
    from omsgrain.crypto import Resolver
    from omsgrain.crypto.keyring import KeyRing
    from omsgrain.query.filters import Filters
    from omsgrain.query.times import Time
    from omsgrain.storage.backup.objects import BackupPlace
    from omsgrain.storage.location import Where


def open(
    path: Where,
    *,
    keys: KeyRing | None = None,
    plain: bool = False,
    readonly: bool = False,
    durability: Literal["commit", "relaxed"] = "commit",
    actor: str | None = None,
    policy: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | None = None,
    hold_authorities: Iterable[str] = (),
    erasure_authorities: Iterable[str] = (),
    delegation: bool = False,
    count_access: bool = True,
    require_signatures: bool | Mapping[str, Iterable[str]] = False,
    resolver: Resolver | None = None,
    memory_limit: int | str | None = None,
    text_index: TextFeed = "idle",
    indexed: Iterable[str] = (),
    keep: timedelta | str | None = None,
    max_bytes: int | str | None = None,
    keep_where: Filters | None = None,
    keep_cited: bool = False,
) -> GrainStore:
    """Open the store at a path, a directory such as ``memory.omsg``; make it if it is not there.

    Opening a store again in the same process shares it; any number of processes may read, and
    writers take turns.

    Args:
        path: the directory, whose parent must exist; or where the store is kept in PostgreSQL,
            ``postgresql://USER@HOST/DATABASE?tenant=NAME``; or ``":memory:"`` for a new store in
            memory, which is gone when it is closed.
        keys: seal what belongs to a user, and open what is sealed: a ``KeyRing``, which stays open
            when the store is closed. Without keys sealed grains show their headers and addresses.
        plain: store users' grains in the clear in a store that was used with keys. Without keys
            and without this such a store refuses them; it still takes sealed grains.
        readonly: refuse to write, and do not make a store.
        durability: ``commit``: what is put is on the disk when the call returns. ``relaxed``: the
            operating system has it then, much sooner; a killed process loses nothing, but a power
            cut can cost what was put since the last ``flush`` or ``close``, and in the worst case
            the whole store; in PostgreSQL a crash of the server can cost the last moments.
        actor: who acts, for the audit trail: a DID, a user, a service.
        policy: rules for what is put, deleted and exported: ``gdpr``, ``hipaa``, ``ccpa``,
            ``sox``, the path of a file with rules, or several of them.
        hold_authorities: DIDs whose signature makes a hold inside a grain binding; without any,
            every such hold binds. Where there are some, a sync ends a hold only if what it brings
            is signed by one of them.
        erasure_authorities: DIDs whose signature makes an order to erase count that comes by a
            sync; without any, every store that may erase here can bring one.
        delegation: check what the goals that delegate allow.
        count_access: count the reads of each grain.
        require_signatures: take only grains whose signature was verified: True, or those that
            ``{"type": [...], "namespace": ["robots:*"]}`` names.
        resolver: gives the public key of a DID that does not hold it, such as a did:web. Without
            one the signatures of such signers are kept and do not count.
        memory_limit: what the open store may keep in memory beside the map of its file: bytes, or
            ``"64MB"``; 16 MiB at the least. Without it about 100 MB, in large stores more. Not in
            PostgreSQL.
        text_index: when new grains are added to the text index, so that no search waits for it.
            ``idle``: in the background, once nothing was put for 2 s, if there is an index; the
            first search makes one. ``ingest``: in the background while grains are put, and
            ``close`` waits for the rest; the first put makes the index.
        indexed: paths to index, such as ``observer_id`` or ``object.celsius``; the store keeps
            them, and ``store.paths`` changes them. A new path in a large store takes a while.
        keep: how long grains stay, counted from their ``created_at``: ``"90m"``, ``"36h"``,
            ``"7d"`` or a ``timedelta``. Older grains leave the store, oldest first, in the
            background while it is open. Grains that are held, consents, and what a policy or a
            preset keeps stay. A grain that left may be stored again. The store does not remember
            this option and the next three: each process that opens it bounds it or does not.
            ``maintenance.retain`` does the same once.
        max_bytes: the size of the store's data file at the most: bytes, or ``"512MB"``; 16 MiB
            at the least. An eighth of it stays free, in small files up to half, since LMDB writes
            pages before it frees those that they replace. The text index and vector indexes have
            files of their own, which do not count.
        keep_where: filters as for ``query``: grains that match them stay. So past grains leave,
            unless the filters have ``current=None``.
        keep_cited: keep a grain as long as a grain that stays refers to it, by ``derived_from``
            or another link.

    Raises:
        StoreError: not a store, of a newer format, missing, or no permission.
        SchemaError, RangeError: an argument of another kind, or too little memory.
        UnsupportedError: an option that means nothing where the store is kept, or a URL of another
            kind.
    """
    budget = None if memory_limit is None else budget_of(memory_limit)
    if keys is not None and not hasattr(keys, "of_user"):
        raise SchemaError("keys are a KeyRing", field="/keys", found=type(keys).__name__)
    if type(plain) is not bool or (plain and keys is not None):
        raise SchemaError("plain is for a store without keys", field="/plain", expected="a bool")
    durable = is_durable(durability)
    for name, dids in (
        ("hold_authorities", hold_authorities),
        ("erasure_authorities", erasure_authorities),
    ):
        if isinstance(dids, str):
            raise SchemaError("a list of DIDs", field=f"/{name}", found="one text")
    if actor is not None and not isinstance(actor, str):
        raise SchemaError("the actor is a name", field="/actor", expected="a string")
    preset = None
    if policy is not None:
        from omsgrain.privacy import load

        preset = load(policy)
    required = None
    if require_signatures:
        from omsgrain.store.trust import Required

        required = Required.parse(require_signatures)
    location, limits = location_of(path), None
    if (keep, max_bytes, keep_where, keep_cited) != (None, None, None, False):
        from omsgrain.store.history_limits import HistoryLimits, must_have_file

        limits = HistoryLimits.of(keep, max_bytes, keep_where, keep_cited)
        if limits is not None:
            must_have_file(limits, isinstance(location, DirectoryLocation))
            budget = limits.tighten(budget)
        if readonly:
            expected = "readonly=False, to bound the history"
            raise SchemaError("the store is opened for reading", field="/keep", expected=expected)
    settings = Settings(
        actor=actor,
        preset=preset,
        hold_authorities=frozenset(hold_authorities),
        erasure_authorities=frozenset(erasure_authorities),
        delegation=delegation,
        count_access=count_access,
        keys=keys,
        plain=plain,
        require=required,
        resolver=resolver,
        budget=budget or Budget(),
        text_index=text_index,
        limits=limits,
    )
    if text_index not in get_args(TextFeed):
        raise SchemaError(
            "unknown text_index", field="/text_index", expected="idle or ingest", found=text_index
        )
    storage = location.open(readonly=readonly, durable=durable, budget=budget)
    store = GrainStore(storage, settings)
    if indexed:
        try:
            declare(context_of(store), indexed)
        except BaseException:
            store.close()
            raise
    return store


def restore(
    backup: Where | BackupPlace,
    path: Where,
    *,
    at: Time | None = None,
    actor: str | None = None,
    keys: KeyRing | None = None,
    tombstones_from: Where | None = None,
) -> None:
    """Check a backup completely, and make a store at a new path from it.

    Grains that were erased after the backup come back, unless you name the store that continued.
    Encrypted grains of a destroyed key stay unreadable, since no backup contains keys.

    Args:
        backup: the directory of a copy, or of any store; or the place of incremental backups. It
            does not change.
        path: where to make the store; nothing may exist there.
        at: which of the incremental backups: the newest one made until this time, or the one
            whose id begins with these 16 or more digits; without it the newest one.
        actor: who restores, for the audit trail of the new store.
        keys: the keys of encrypted grains.
        tombstones_from: the store that continued, or a later copy. The grains of its tombstones
            are erased before anyone can read the new store.

    Raises:
        StoreError: the copy is damaged, something exists at the path, or the path cannot be
            written. Nothing was made.
        NotFoundError: there is no such backup.
        IntegrityError: an incremental backup is damaged or incomplete. Nothing was made.
        SchemaError: ``at`` is not a time or an id, or the backup is a copy.
        UnsupportedError: the backup or the path is a database, another version of omsgrain made
            the backup, or the extra ``objects`` is missing.
    """
    from omsgrain.storage.backup.repository import BackupRepository, is_repository
    from omsgrain.storage.lmdb.backup import appearing, must_be_new, restore_copy
    from omsgrain.store.privacy.erasure_scheduler import replay_erasures

    target = directory_of(path)
    must_be_new(target)
    repository = BackupRepository(cast("BackupPlace", backup)) if is_repository(backup) else None
    if repository is not None:
        found = repository.find(at)
    elif at is not None:
        raise SchemaError("a copy of a store is of one time", field="/at", expected="no time")
    else:
        source = directory_of(cast("Where", backup))
    with appearing(target, "restore the store") as made:
        if repository is None:
            restore_copy(source, made)
        else:
            repository.restore(found, made)
        with open(made, actor=actor, keys=keys) as store:
            if tombstones_from is not None:
                with closing(location_of(tombstones_from).open(readonly=True)) as other:
                    if replay_erasures(context_of(store), other):
                        store.maintenance.compact()
            context = context_of(store)
            context.storage.write(lambda writer: context.note(writer, "restore", []))
