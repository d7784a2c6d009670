# SPDX-License-Identifier: Apache-2.0
"""OMS 1.2, level 3: a store that lasts, seals, forgets a person, and can show what was done."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import omsgrain as og
from omsgrain.conformance.bench import NOW, Bench
from omsgrain.conformance.rule import Table, Tried, refuses, takes
from omsgrain.conformance.rules.oms_store import belief, found
from omsgrain.conformance.rules.people import ADA
from omsgrain.storage.tables import TERMS

_rule: Final = Table("oms", 3)
RULES: Final = _rule.rules

_ANN: Final[dict[str, Any]] = {"user_id": "ann-17"}
_CHILD: Final = """
import os, signal, sys
import omsgrain as og
store = og.open(sys.argv[1])
for n in range(6):
    print(store.put({"type": "event", "content": f"note {n}", "created_at": 1000}), flush=True)
os.kill(os.getpid(), signal.SIGKILL) if hasattr(signal, "SIGKILL") else os._exit(9)
"""


@_rule("store.lasting", "28", "What was put is there when the store is opened again")
def _lasting(bench: Bench) -> Iterator[Tried]:
    path = bench.directory() / "memory.omsg"
    with og.open(path) as store:
        old = store.put(belief())
        new = store.supersede(old, belief("off", 1))
    with og.open(path, readonly=True) as store:
        yield Tried("both grains", (True, True), (store.exists(old), store.exists(new)))
        yield Tried("superseded_by", new, store.state(old).superseded_by)


@_rule("store.crash", "28", "Nothing that put returned is lost when the process is killed")
def _crash(bench: Bench) -> Iterator[Tried]:
    path = bench.directory() / "memory.omsg"
    root = str(Path(og.__file__).parents[1])
    child = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {root!r}){_CHILD}", str(path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    returned = child.stdout.split()
    yield Tried("addresses returned before the kill", 6, len(returned))
    with og.open(path) as store:
        yield Tried("of them there after it", 6, sum(map(store.exists, returned)))
        yield Tried("what check finds", True, store.check().ok)


@_rule("store.check", "28", "Damage to a stored grain is found")
def _damage(bench: Bench) -> Iterator[Tried]:
    path = bench.directory() / "memory.omsg"
    with og.open(path) as store:
        store.put(belief("the lighthouse keeper"))
    data = next(file for file in sorted(path.iterdir()) if b"lighthouse" in file.read_bytes())
    data.write_bytes(data.read_bytes().replace(b"lighthouse", b"lightHouse"))
    with og.open(path) as store:
        yield Tried("one letter changed in the file", False, store.check().ok)


@_rule("store.rebuild", "28", "The index is made anew from the blobs alone")
def _rebuild(bench: Bench) -> Iterator[Tried]:
    store = bench.on_disk()
    addresses = store.put_many([belief(str(n), n) for n in range(20)]).addresses
    disk: Any = store._store
    disk.flush()
    disk._env.write(lambda txn, _: txn.drop(disk._env.tables[TERMS], delete=False))
    yield Tried("found where it is lost", [], found(store, subject="lamp"))
    store.rebuild()
    yield Tried(
        "found after it", sorted(map(str, addresses)), sorted(found(store, subject="lamp"))
    )


@_rule("store.backup", "28", "A backup is a store, and holds no keys")
def _backup(bench: Bench) -> Iterator[Tried]:
    keys = bench.keys()
    store = bench.on_disk(keys=keys)
    address = store.put(belief("secret", **_ANN))
    path = bench.directory() / "copy.omsg"
    store.backup(path)
    with og.open(path) as copy:
        yield Tried("the grain without keys", True, copy.get(address).sealed)
    with og.open(path, keys=keys) as copy:
        yield Tried("with them", "secret", copy.get(address)["object"])


@_rule("store.restore", "20", "restore erases again what was erased after the backup")
def _restore(bench: Bench) -> Iterator[Tried]:
    root = bench.directory()
    with og.open(root / "s.omsg") as store:
        gone, kept = store.put(belief(subject_did=ADA)), store.put(belief("x"))
        store.backup(root / "copy.omsg")
        store.erase_subject([ADA], reason_code="gdpr17", scrub="queued")
    og.restore(root / "copy.omsg", root / "new.omsg", tombstones_from=root / "s.omsg")
    with og.open(root / "new.omsg") as store:
        yield Tried("erased, kept", (False, True), (store.exists(gone), store.exists(kept)))


@_rule("seal.put", "20", "A grain of a user is stored encrypted, and comes back with the keys")
def _sealed(bench: Bench) -> Iterator[Tried]:
    keys, root = bench.keys(), bench.directory()
    with og.open(root / "s.omsg", keys=keys) as store:
        address = store.put(belief("lighthouse", **_ANN))
        yield Tried("with keys", "lighthouse", store.get(address)["object"])
        yield Tried("put again", address, store.put(belief("lighthouse", **_ANN)))
    with og.open(root / "s.omsg") as store:
        grain = store.get(address)
        yield Tried("without: sealed, its fields", (True, {}), (grain.sealed, dict(grain.fields)))
        yield Tried("its address", address, og.address(grain.blob))
    raw = b"".join(file.read_bytes() for file in root.rglob("*") if file.is_file())
    yield Tried("the files hold", (False, False), (b"lighthouse" in raw, b"ann-17" in raw))


@_rule("blind.exact", "20", "Sealed grains are found by exact values and words, under the keys")
def _blind(bench: Bench) -> Iterator[Tried]:
    store = bench.store(keys=bench.keys())
    address = store.put(belief("lighthouse", **_ANN, session_id="s-9", structural_tags=["x"]))
    store.put(belief("lighthouse", user_id="bob-3"))
    for what, filters in (
        ("user", _ANN), ("user and object", {**_ANN, "object": "lighthouse"}),
        ("session", {"session_id": "s-9"}), ("tag", {"tag": "x"}),
        ("words", {**_ANN, "words": "Lighthouse"}),
    ):  # fmt: skip
        yield Tried(what, [address], found(store, **filters))
    yield Tried("another user", [], found(store, user_id="ann-1"))


@_rule("blind.ranges", "20", "Ranges and prefixes over sealed grains are refused, not guessed")
def _ranges(bench: Bench) -> Iterator[Tried]:
    store = bench.store(keys=bench.keys())
    store.put(belief(**_ANN, namespace="home:kitchen"))
    for what, filters in (
        ("a time", {"created_after": NOW}),
        ("a prefix", {"namespace": "home:*"}),
        ("a confidence", {"subject": "lamp", "min_confidence": 0.1}),
    ):
        yield refuses(what, "ERR_UNSUPPORTED", store.query, **filters)


@_rule("keys.apart", "20", "Each user has a key of his own; one opens nothing of another")
def _apart(bench: Bench) -> Iterator[Tried]:
    keys = bench.keys()
    keys.ensure(["ann", "bob"])
    ann, bob = keys.of_user("ann"), keys.of_user("bob")
    yield Tried(
        "two users", True, ann is not None and bob is not None and ann.content != bob.content
    )
    store = bench.store(keys=keys)
    mine, other = store.put(belief(user_id="ann")), store.put(belief(user_id="bob"))
    keys.erase(["bob"])
    yield Tried("Ann's after Bob's key is gone", "on", store.get(mine)["object"])
    yield refuses("Bob's", "ERR_ERASED", lambda: store.get(other))


@_rule("keys.master", "20", "A key file opens under its master key and no other")
def _master(bench: Bench) -> Iterator[Tried]:
    path = bench.directory() / "people.keys"
    ring = og.crypto.KeyRing.create(path, master=bytes(32))
    ring.close()
    yield takes("its own", lambda: og.crypto.KeyRing.open(path, master=bytes(32)).close())
    yield refuses("another", "ERR_KEY", lambda: og.crypto.KeyRing.open(path, master=b"\x01" * 32))
