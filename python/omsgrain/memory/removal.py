# SPDX-License-Identifier: Apache-2.0
"""Remove grains from a store together with the copies that documents keep of them.

A large record of a document is stored as several grains, with its duplicates, and the document
keeps the rest around its records. ``GrainStore.delete`` removes one grain alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from omsgrain import _core
from omsgrain.crypto.master_key import load_master
from omsgrain.errors import SchemaError
from omsgrain.interchange.kept import trimmed
from omsgrain.memory.record import UserGrains
from omsgrain.query import times
from omsgrain.storage import tombstones
from omsgrain.storage.erasure_queue import WITHIN
from omsgrain.store.context import check_reason, context_of
from omsgrain.store.privacy import key_destruction, removal
from omsgrain.store.privacy.identity import Identities, select

if TYPE_CHECKING:
    from omsgrain import GrainStore
    from omsgrain.crypto.keyring.keyring import KeyRing
    from omsgrain.crypto.master_key import MasterKey
    from omsgrain.grain import Grain
    from omsgrain.store.privacy.erasure import ErasureReport

_PAGE: Final = 100  # grains: an audit entry lists a thousand, parts among them


def delete(
    store: GrainStore, address: str, *, reason: str | None = None, erased: str | None = None
) -> None:
    """Remove a grain and its copies in documents; all or nothing.

    The context of its records in documents is removed with its last version. An import or a sync
    can bring the grain back, unless ``erased`` gives a reason code: then a tombstone stops them.
    """
    grain = _opened(store, address)
    owner = None if grain is None else grain.get("user_id")
    if grain is None or not isinstance(owner, str):
        store.delete_many([address], reason=reason, erased=erased)
        return
    owned = UserGrains(store, owner)
    more, ids = owned.left_of([grain])
    with trimmed(store, owner, ids, owned.listed([grain.address, *more])) as beside:
        store.delete_many([grain.address], beside=[*more, *beside], reason=reason, erased=erased)


def clear_mentions(store: GrainStore, identities: Identities | Iterable[str]) -> None:
    """Remove the copies that documents of others keep of grains with a person's name.

    Call it before an erasure that includes these grains. It can run again.
    """
    owners: dict[str, list[str]] = {}
    for found in select(context_of(store).storage, identities):
        grain = _opened(store, found.address) if found.other else None
        if grain is not None and _goes(store, grain):
            owners.setdefault(str(grain["user_id"]), []).append(grain.address)
    for owner, addresses in owners.items():
        owned = UserGrains(store, owner)
        for start in range(0, len(addresses), _PAGE):
            page = addresses[start : start + _PAGE]
            grains = [one for address in page if (one := _opened(store, address)) is not None]
            more, ids = owned.left_of(grains)
            with trimmed(store, owner, ids, owned.listed([*page, *more])) as beside:
                if more or beside:
                    store.delete_many([*more, *beside])


def erase(
    store: GrainStore,
    identities: Sequence[str],
    *,
    reason_code: str,
    mentions: Literal["list", "erase"] = "list",
    **options: Any,
) -> ErasureReport:
    """Erase a person; arguments and errors are those of ``GrainStore.privacy.erase``.

    With the grains of others that have a name, their copies in documents are removed too.
    """
    if mentions == "erase":
        clear_mentions(store, identities)
    return store.privacy.erase(identities, reason_code=reason_code, mentions=mentions, **options)


def erase_tenant(
    store: GrainStore,
    tenant: str,
    *,
    reason_code: str,
    scrub: Literal["now", "queued"] = "now",
    within_days: int = WITHIN,
    rekey: MasterKey | None = None,
) -> ErasureReport:
    """Erase all memory of a tenant: grains, index rows, vectors, keys and ciphertext.

    From the first moment no export includes any of it: an export that begins finds nothing, and
    one that is running stops with an error. Only holds and minimum retentions keep a grain. Such
    a grain is restricted, is in no export, and is erased when nothing keeps it any longer.

    A grain that bears the tenant's id and belongs to no user is erased too. One that belongs to
    another user stays, whatever it says, and the report names it. An import brings erased records
    back only with ``allow_erased``; the tenant can have new ones at once. The audit trail says
    that there was an erasure, and not of whom or of what.

    Spec: AIMEM §5.2
    """
    return store.privacy.erase(
        [tenant],
        reason_code=reason_code,
        mentions="tenant",
        scrub=scrub,
        ciphertext=True,
        within_days=within_days,
        rekey=rekey,
    )


def erasures(store: GrainStore, tenant: str) -> int:
    """Return how often a tenant was erased, by any process; an erasure counts as it begins."""
    with context_of(store).storage.read() as reader:
        return tombstones.times(reader, "identity", tenant)


def check_erasure(
    identities: Sequence[str],
    keys: KeyRing | None,
    *,
    reason_code: str,
    rekey: MasterKey | None = None,
) -> None:
    """Refuse a bad request for an erasure before any change."""
    Identities(identities)
    check_reason(reason_code)
    if rekey is not None:
        if keys is None:
            raise SchemaError("the store is opened without keys", field="/rekey")
        load_master(rekey)


def erase_preview(
    store: GrainStore, identities: Sequence[str], keys: KeyRing | None
) -> dict[str, Any]:
    """Count what erasing a person would affect, and change nothing."""
    people = Identities(identities)
    own = sealed = named = 0
    kept: Counter[str] = Counter()
    now = times.now()
    selection = select(context_of(store).storage, people)
    for found in selection:
        own, named = own + found.own, named + (not found.own)
        if not found.own:
            continue
        sealed += found.number is not None
        with context_of(store).storage.read() as reader:
            grain = reader.grain(found.seq)
            if grain is None:
                continue
            rule = removal.refusal(reader, context_of(store).settings, grain, now)
        if rule is not None:
            kept[rule] += 1
    return {
        "keys": 0 if keys is None else len(key_destruction.numbers_of(keys, people)),
        "own": own,
        "sealed": sealed,
        "named": named,
        "kept": dict(sorted(kept.items())),
        "unopened": selection.unopened,
    }


def _opened(store: GrainStore, address: str) -> Grain | None:
    """Return a grain, decrypted; None if it is not stored, or cannot be read."""
    with context_of(store).storage.read() as reader:
        (seq,) = reader.find([_core.parse_address(address)])
        return None if seq is None else removal.readable(reader, seq)


def _goes(store: GrainStore, grain: Grain) -> bool:
    """Whether no rule keeps a grain from being erased."""
    now = context_of(store).settings.clock()
    with context_of(store).storage.read() as reader:
        return removal.refusal(reader, context_of(store).settings, grain, now) is None
