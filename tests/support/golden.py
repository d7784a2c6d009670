# SPDX-License-Identifier: Apache-2.0
"""The answers of a golden store, when it was made and by every later version."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import omsgrain as og
from omsgrain.container.layout import Codec
from omsgrain.crypto.keyring import KeyRing
from omsgrain.errors import ErasedError
from support.paths import TEST_DATA

DATA = TEST_DATA / "golden"
MASTER = bytes(range(32))
STORES = ("short-addresses", "sealed-6", "sealed-7")
TIME = 1_768_471_200_000
CODECS: tuple[Codec, ...] = ("none", "zstd", "lz4")


def unpack(name: str, folder: Path) -> Path:
    """Write the files of a golden store, or of its exports, into a folder."""
    with zipfile.ZipFile(io.BytesIO((DATA / f"{name}.zip").read_bytes())) as archive:
        archive.extractall(folder / name)
    if (keys := folder / name / "keys.omsk").exists():
        keys.chmod(0o600)
    return folder / name


@contextmanager
def opened(
    folder: Path, *, readonly: bool = False, count_access: bool = False
) -> Iterator[og.GrainStore]:
    """Open an unpacked golden store, with its key file if it has one."""
    keys = folder / "keys.omsk"
    path = folder / "store.omsg"
    if not keys.exists():
        with og.open(path, readonly=readonly, count_access=count_access) as store:
            yield store
        return
    with KeyRing.open(keys, master=MASTER) as ring:
        with og.open(path, keys=ring, readonly=readonly, count_access=count_access) as store:
            yield store


def _state(store: og.GrainStore, address: str) -> Any:
    """The status; without what an earlier version did not have, and no golden store uses."""
    values = plain(asdict(store.status(address)))
    assert values.pop("expires_at") is None
    return values


def answers(store: og.GrainStore) -> dict[str, Any]:
    """Everything the store says that a later version must say too."""
    every = sorted(grain.address for grain in store)
    grains = [address for address in every if readable(store, address)]
    user = "ada"
    return {
        "grains": grains,
        "erased": sorted(set(every) - set(grains)),
        "fields": {address: plain(store.get(address).to_dict()) for address in grains},
        "states": {address: _state(store, address) for address in grains},
        "holds": {
            address: [plain(asdict(h)) for h in store.holds.of(address)] for address in grains
        },
        "signatures": {a: [s.signer for s in store.trust.signatures(a)] for a in grains},
        "vectors": {a: {m: list(v) for m, v in store.vectors.get(a).items()} for a in grains},
        "history": {address: [g.address for g in store.history(address)] for address in grains},
        "current": found(store.query(limit=1000, user_id=user)),
        "past": found(store.query(limit=1000, user_id=user, current=False)),
        "subject": found(store.query(subject="shelf-1", user_id=user)),
        "relation": found(store.query(relation="mg:perceives", user_id=user)),
        "session": found(store.query(session_id="s1", user_id=user)),
        "tag": found(store.query(tag="garden", user_id=user)),
        "words": sorted(found(store.query(words="tea", user_id=user))),
        "search": sorted(found(store.search("tea", sealed=False))),
        "reviews": [review.address for review in store.reviews.pending()],
        "changes": [[c.seq, c.kind, c.address] for c in store.changes()],
        "due": [plain(asdict(due)) for due in store.privacy.due()],
        "position": store.consumers.position("follower"),
        "audit": [[e.number, e.operation, e.actor] for e in store.audit.entries()],
        "audit_ok": store.audit.verify().ok,
        "check_ok": store.maintenance.check().ok,
        **(_of_paths(store) if store.paths.declared() else {}),
    }


def _of_paths(store: og.GrainStore) -> dict[str, Any]:
    warm: Any = {"where": {"object.celsius": {"gte": 22.5}}}
    return {
        "paths": [one.path for one in store.paths.declared()],
        "observer": found(store.query(observer_id="gauge-1", user_id="ada")),
        "exactly": found(store.query(where={"object.celsius": 21}, user_id="ada")),
        "warm": found(store.query(**warm, user_id="ada")),
        "warm_plain": found(store.query(**warm, sealed=False)),
        "latest": [one.address for one in store.latest("observer_id", user_id="ada")],
    }


def readable(store: og.GrainStore, address: str) -> bool:
    """Whether a grain can be read: the key of a sealed one may be destroyed."""
    try:
        store.get(address)
    except ErasedError:
        return False
    return True


def found(page: Any) -> list[str]:
    return [hit.address for hit in page.results]


def plain(value: Any) -> Any:
    """A value as JSON has it: bytes as hex, tuples as lists."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    return value
