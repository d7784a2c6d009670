# SPDX-License-Identifier: Apache-2.0
"""Rules about stores that need code: files, keys, backups, crashes and the audit trail."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import lmdb

import omsgrain as og
from omsgrain import crypto
from omsgrain.conformance.bench import ADA, BEN, NOW, Bench, ada, ben, by_hand
from omsgrain.conformance.rule import Entry, Tried, refuses, result, takes
from omsgrain.conformance.vectors import blob, vector
from omsgrain.query.envelope import envelope as enveloped
from omsgrain.storage.audit.verify import Checkpoint
from omsgrain.storage.tables import AUDIT, META, TERMS

_ANN: Final[dict[str, Any]] = {"user_id": "ann-17"}
_CHILD: Final = """
import os, signal, sys
import omsgrain as og
store = og.open(sys.argv[1])
for n in range(6):
    print(store.put({"type": "event", "content": f"note {n}", "created_at": 1000}), flush=True)
os.kill(os.getpid(), signal.SIGKILL) if hasattr(signal, "SIGKILL") else os._exit(9)
"""


def belief(what: str = "on", at: int = 0, **more: Any) -> dict[str, Any]:
    """Return the fields of a grain."""
    return {
        "type": "belief",
        "subject": "lamp",
        "relation": "is",
        "object": what,
        "confidence": 0.5,
        "created_at": NOW + at,
        **more,
    }


def found(store: og.GrainStore, **filters: Any) -> list[str]:
    """Return the addresses that a query finds, in order."""
    return [hit.address for hit in store.query(**filters).results]


def put(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """Put returns the address, and get the same bytes."""
    for store in (bench.store(), bench.on_disk()):
        given = {**vector("oms", 1)["input"], "type": "belief"}
        yield Tried("vector 1 as a belief", entry["address"], store.put(given))
        yield Tried("its bytes", blob("oms", 7).hex(), store.get(entry["address"]).blob.hex())


def strict(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """Put refuses a blob that is not canonical or has another address."""
    store = bench.store()
    for number in (101, 133, 139, 201, 205):
        one = vector("refusals/read", number)
        yield refuses(
            one["description"],
            one["expect_error"],
            store.put,
            bytes.fromhex(one["blob_hex"]),
        )
    yield Tried("grains in the store", 0, len(store))


def signatures(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """A grain keeps the envelopes of all its signers."""
    store = bench.store()
    grain = og.Grain(og.encode(belief()))
    envelopes = [crypto.sign(grain, one, iat=NOW // 1000) for one in (ada(), ben())]
    addresses = {store.put(one) for one in envelopes}
    yield Tried("addresses", 1, len(addresses))
    address = addresses.pop()
    yield Tried(
        "signers", sorted([ADA, BEN]), sorted(s.signer for s in store.trust.signatures(address))
    )
    yield Tried("Ada's envelope", envelopes[0], store.trust.envelope(address, ADA))
    forged = by_hand(
        {1: -8, 3: "application/vnd.mg+msgpack", 4: ADA.encode()},
        crypto.with_signed_bit(og.Grain(og.encode(belief("off")))).blob,
        ben(),
    )
    yield Tried("an invalid one", True, result(lambda: store.put(forged)) != "taken")


def sign(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """Signing an unsigned grain writes a new grain, derived from it, which supersedes it."""
    store = bench.store()
    old = store.put(belief())
    new = store.sign(old, ada(), iat=NOW // 1000)
    yield Tried("superseded_by", new, store.status(old).superseded_by)
    yield Tried("derived_from", [old], store.get(new)["derived_from"])
    yield Tried("its signed bit", 1, store.get(new).blob[1] & 1)


def envelope(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """A result has grain, score from 0 to 1, matched_fields and address."""
    store = bench.store()
    for at in range(3):
        store.put(belief(str(at), at * 1000))
    page = store.query(subject="lamp", limit=2, count=True)
    hit = page.results[0]
    yield Tried("scores", [1.0, 0.0], [row["score"] for row in enveloped(page)["results"]])
    yield Tried("matched_fields", ("subject",), tuple(hit.matched_fields))
    yield Tried("content_address", hit.grain.address, hit.address)
    yield Tried("total", 3, page.total)
    rest = store.query(subject="lamp", limit=2, cursor=page.next_cursor)
    yield Tried("the rest by next_cursor", (1, None), (len(rest.results), rest.next_cursor))


def lasting(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """Stored grains are present when the store is opened again."""
    path = bench.directory() / "memory.omsg"
    with og.open(path) as store:
        old = store.put(belief())
        new = store.supersede(old, belief("off", 1))
    with og.open(path, readonly=True) as store:
        yield Tried("both grains", (True, True), (store.exists(old), store.exists(new)))
        yield Tried("superseded_by", new, store.status(old).superseded_by)


def crash(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """A kill of the process loses no acknowledged grain."""
    path = bench.directory() / "memory.omsg"
    root = str(Path(og.__file__).parents[1])
    child = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {root!r}){_CHILD}", str(path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    returned = child.stdout.split()
    yield Tried("addresses returned before the kill", 6, len(returned))
    with og.open(path) as store:
        yield Tried("stored addresses after the kill", 6, sum(map(store.exists, returned)))
        yield Tried("the result of check", True, store.maintenance.check().ok)


def damage(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """Damage to a stored grain is found."""
    path = bench.directory() / "memory.omsg"
    with og.open(path) as store:
        store.put(belief("the lighthouse keeper"))
    data = next(file for file in sorted(path.iterdir()) if b"lighthouse" in file.read_bytes())
    data.write_bytes(data.read_bytes().replace(b"lighthouse", b"lightHouse"))
    with og.open(path) as store:
        yield Tried("one letter changed in the file", False, store.maintenance.check().ok)


def rebuild(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """Rebuild the index from the blobs alone."""
    path = bench.directory() / "memory.omsg"
    with og.open(path) as store:
        addresses = store.put_many([belief(str(n), n) for n in range(20)]).addresses
    with lmdb.open(str(path), max_dbs=1) as data, data.begin(write=True) as transaction:
        transaction.drop(data.open_db(TERMS.name, transaction, create=False), delete=False)
    with og.open(path) as store:
        yield Tried("found with a damaged index", [], found(store, subject="lamp"))
        store.maintenance.rebuild()
        again = sorted(found(store, subject="lamp"))
    yield Tried("found after it", sorted(map(str, addresses)), again)


def backup(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """A backup is a store without keys."""
    keys = bench.keys()
    store = bench.on_disk(keys=keys)
    address = store.put(belief("secret", **_ANN))
    path = bench.directory() / "copy.omsg"
    store.maintenance.backup(path)
    with og.open(path) as copy:
        yield Tried("the grain without keys", True, copy.get(address).sealed)
    with og.open(path, keys=keys) as copy:
        yield Tried("with them", "secret", copy.get(address)["object"])


def restore(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """Restore repeats erasures that came after the backup."""
    root = bench.directory()
    with og.open(root / "s.omsg") as store:
        gone, kept = store.put(belief(subject_did=ADA)), store.put(belief("x"))
        store.maintenance.backup(root / "copy.omsg")
        store.privacy.erase([ADA], reason_code="gdpr17", scrub="queued")
    og.restore(root / "copy.omsg", root / "new.omsg", tombstones_from=root / "s.omsg")
    with og.open(root / "new.omsg") as store:
        yield Tried("erased, kept", (False, True), (store.exists(gone), store.exists(kept)))


def sealed(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """A user's grain is stored encrypted, and can be read with the keys."""
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


def keys_apart(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """Each user has a separate key, which decrypts nothing of other users."""
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


def keys_master(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """A key file opens only under its master key."""
    path = bench.directory() / "people.keys"
    ring = og.crypto.KeyRing.create(path, master=bytes(32))
    ring.close()
    yield takes("its own", lambda: og.crypto.KeyRing.open(path, master=bytes(32)).close())
    yield refuses("another", "ERR_KEY", lambda: og.crypto.KeyRing.open(path, master=b"\x01" * 32))


def _lived(bench: Bench) -> og.GrainStore:
    store = bench.store(actor="tester")
    old = store.put(belief())
    store.supersede(old, belief("off", 1))
    store.contest(old)
    store.holds.add(old, authority="court", reason_code="case-7")
    store.delete(store.put(belief("x")))
    return store


def audit_chain(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """Each entry includes the hash of all earlier ones, so any change is detected."""
    store = _lived(bench)
    yield Tried("unchanged", True, store.audit.verify().ok)
    for what, number in (("the first", 1), ("one in the middle", 3), ("the last", 6)):
        store = _lived(bench)
        _change(bench, store, number)
        yield Tried(f"{what} changed", False, store.audit.verify().ok)


def _change(bench: Bench, store: og.GrainStore, number: int) -> None:
    """Flip one bit of an entry of the audit trail."""

    def work(writer: Any) -> None:
        key = number.to_bytes(8, "big")
        row = writer.row(AUDIT, key)
        writer.set_row(AUDIT, key, row[:-1] + bytes([row[-1] ^ 1]))

    bench.storage(store).write(work)


def audit_tail(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """A signed checkpoint outside the store reveals a truncated trail."""
    store = _lived(bench)
    kept = store.audit.checkpoint(ada(), iat=NOW // 1000)
    yield Tried("unchanged", True, store.audit.verify(kept, signer=ADA).ok)

    def cut(writer: Any) -> None:
        for number in (5, 6):
            writer.set_row(AUDIT, number.to_bytes(8, "big"), None)
        row = writer.row(AUDIT, (4).to_bytes(8, "big"))
        writer.set_row(META, b"audit.head", (4).to_bytes(8, "big") + row[:32])

    bench.storage(store).write(cut)
    yield Tried("two entries cut off", False, store.audit.verify(kept, signer=ADA).ok)
    forged = json.loads(kept.to_json()) | {"number": 4}
    yield refuses(
        "a changed checkpoint",
        "ERR_SIGNATURE",
        lambda: store.audit.verify(Checkpoint.from_json(json.dumps(forged)), signer=ADA),
    )


def audit_addresses(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """Entries hold addresses only as keyed hashes."""
    store = bench.store()
    address = store.put(belief())
    store.delete(address)
    raw = bench.audit_rows(store)
    yield Tried("in all rows of the trail", False, bytes.fromhex(address) in raw)
    entries = list(store.audit.entries(address=address))
    yield Tried("asked for by the address", ["put", "delete"], [e.operation for e in entries])


def required(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """A store can require signatures, and then refuses unsigned grains."""
    store = bench.on_disk(require_signatures=True)
    grain = og.Grain(og.encode(belief()))
    yield refuses("unsigned", "ERR_SIGNATURE", lambda: store.put(grain))
    yield takes("signed", lambda: store.put(og.crypto.sign(grain, ada())))


def erase_key(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """Destroying a user's key record makes the user's grains unreadable forever."""
    root = bench.directory()
    path = root / "people.keys"
    with (
        og.crypto.KeyRing.create(path, master=bytes(32)) as keys,
        og.open(root / "s.omsg", keys=keys) as store,
    ):
        address = store.put(belief(user_id="ann"))
        before = path.read_bytes()
        yield Tried("the user's grain before", "on", store.get(address)["object"])
        yield Tried("records destroyed", 1, keys.erase(["ann"]))
        yield Tried("keys after", None, keys.of_user("ann"))
        yield refuses("the user's grain after", "ERR_ERASED", lambda: store.get(address))
    yield Tried(
        "the file is overwritten in place",
        (len(before), True),
        (path.stat().st_size, path.read_bytes() != before),
    )
    with og.crypto.KeyRing.open(path, master=bytes(32)) as keys:
        yield Tried("opened again", None, keys.of_user("ann"))


def tombstones(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """A tombstone shows neither the address nor the name."""
    root = bench.directory()
    with og.open(root / "s.omsg") as store:
        address = store.put(belief("lighthouse", **_ANN))
        store.privacy.erase(["ann-17"], reason_code="gdpr17")
    raw = b"".join(file.read_bytes() for file in root.rglob("*") if file.is_file())
    for what, text in (
        ("the address", bytes.fromhex(address)),
        ("it in hex", address.encode()),
        ("the name", b"ann-17"),
        ("the content", b"lighthouse"),
    ):
        yield Tried(f"{what} in the files", False, text in raw)
