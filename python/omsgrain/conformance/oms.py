# SPDX-License-Identifier: Apache-2.0
"""Rules of OMS that need code: grains, signatures, encryption, files, stores, the audit trail."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any, Final

import lmdb
import msgpack
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

import omsgrain as og
from omsgrain import container, crypto
from omsgrain.conformance.bench import ADA, NOW, Bench, ada
from omsgrain.conformance.rule import TAKEN, Entry, Tried, refuses, result, takes, value_of
from omsgrain.conformance.steps import Scene
from omsgrain.conformance.vectors import blob, data, vector
from omsgrain.crypto import seal, signers
from omsgrain.json_values import revive
from omsgrain.storage.audit.verify import Checkpoint
from omsgrain.storage.tables import AUDIT, META, TERMS

# single grains


def encoded(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Kind ``encode``: a grain with more fields is written, or refused by a code."""
    for case in entry["cases"]:
        given = value_of({**entry["grain"], **case.get("fields", {})})
        if "refused" in case:
            yield refuses(case["try"], case["refused"], og.encode, given)
        else:
            yield takes(case["try"], og.encode, given)


def warned(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Kind ``warnings``: how many warnings a grain gets."""
    for case in entry["cases"]:
        grain = og.Grain(og.encode(entry["grain"] | case["fields"]))
        yield Tried(case["try"], case["warnings"], len(grain.warnings))


def aware_times(_: Bench, entry: Entry) -> Iterator[Tried]:
    """A datetime of Python with a zone, and without."""
    at = datetime(2026, 1, 15, 12, 0, 0, 999, tzinfo=timezone(timedelta(hours=2)))
    found = og.decode(og.encode(belief(valid_from=at)))["valid_from"]
    yield Tried("12:00:00.000999+02:00", NOW, found)
    naive = belief(valid_from=at.replace(tzinfo=None))
    yield refuses("the same without a zone", "ERR_SCHEMA", og.encode, naive)


def batch(_: Bench, entry: Entry) -> Iterator[Tried]:
    """A batch, and lines of JSON."""
    listed = [vector(f"types/{number}") for number in range(1, 20, 2)]
    expected = [one["address"] for one in listed]
    made = og.encode_many([revive(one["input"]) for one in listed])
    yield Tried("a grain of each type in a batch", expected, list(made.addresses))
    lines = b"".join(json.dumps(one["input"]).encode() + b"\n" for one in listed)
    yield Tried("the same by lines of JSON", expected, list(og.encode_jsonl(lines).addresses))


def keyed(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Kind ``key``: a payload has a field's short key, and a reader returns its full name."""
    grain, name, short = value_of(entry["grain"]), entry["name"], entry["short"]
    payload = msgpack.unpackb(og.encode(grain)[9:], strict_map_key=False)
    back = og.decode(og.encode(grain)).to_dict()
    given = grain
    if "list" in entry:
        long_name, key = entry["list"]
        given, back, payload = grain[long_name][0], back[long_name][0], payload[key][0]
    named = [one for one in dict.fromkeys((short, name)) if one in payload]
    yield Tried(f"{name} in the payload", [short], named)
    yield Tried("read again by its full name", given[name], back.get(name))
    if entry.get("needed"):
        del given[name]
        yield refuses(f"without {name}", "ERR_SCHEMA", og.encode, grain)


# identities, signatures, encrypted grains


def did_web(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Only the caller's resolver resolves a did:web."""
    name = "did:web:example.org"
    yield refuses("without a resolver", "ERR_DID", lambda: crypto.did.resolve(name))
    asked: list[str] = []

    def resolver(did: str) -> str:
        asked.append(did)
        return ADA

    yield takes("with one", lambda: crypto.did.resolve(name, resolver))
    yield Tried("its requests", [name], asked)


def strict(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Ed25519 uses the strict equation, as OpenSSL does."""
    for one in data("ed25519_edges")["cases"]:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(one["key"]))
        signature, message = (bytes.fromhex(one[name]) for name in ("signature", "message"))
        found = result(signers.verify, key, -8, signature, message) == TAKEN
        yield Tried(one["name"], one["holds"], found)


def layout(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Header with bit 1, 12-byte nonce, AES-256-GCM, 16-byte tag; the header is authenticated."""
    belief = blob("oms/7")
    sealed = seal.seal(belief, bytes(32), whole=False)
    yield Tried("the size", len(belief) + 12 + 16, len(sealed))
    yield Tried("bit 1", 2, sealed[1] & 2)
    found = AESGCM(bytes(32)).decrypt(sealed[9:21], sealed[21:], sealed[:9])
    yield Tried("opened by AES-GCM alone", belief[9:], found)
    whole = seal.seal(belief, bytes(32), whole=True)
    yield Tried(
        "sealed whole", belief, AESGCM(bytes(32)).decrypt(whole[9:21], whole[21:], whole[:9])
    )


def nonces(_: Bench, entry: Entry) -> Iterator[Tried]:
    """Each encryption uses a new nonce."""
    belief = blob("oms/7")
    nonces = {seal.seal(belief, bytes(32), whole=False)[9:21] for _ in range(1000)}
    yield Tried("a thousand seals of one grain", 1000, len(nonces))


def user_keys(_: Bench, entry: Entry) -> Iterator[Tried]:
    """A user's key is HKDF-SHA256 of the root, with the salt of the user's record."""
    root = bytes.fromhex(data("sealed")["root"])
    for one in data("sealed")["user_keys"]:
        salt = one["salt"] and bytes.fromhex(one["salt"])
        found = seal.derive_user_key(root, one["user_id"], salt=salt, generation=one["generation"])
        what = f"user {one['user_id']!r}, generation {one['generation']}"
        yield Tried(f"{what}, {'salted' if salt else 'without salt'}", one["key"], found.hex())


# files


def every_byte(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """A file with a changed byte is refused."""
    whole = bytes.fromhex(vector("containers/good-manifest")["file_hex"])
    path = bench.directory() / "x.mg"
    passed = []
    for at in range(0, len(whole), 11):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        if container.verify(path, errors="collect").ok:
            passed.append(at)
    yield Tried(f"each eleventh of {len(whole)} bytes changed", [], passed)


def packed(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """Compressed grains come back byte for byte; the footer covers the compressed bytes."""
    blobs = [blob(f"types/{n}") for n in range(1, 21)]
    for codec in ("zstd", "lz4"):
        path = bench.directory() / "x.mg"
        container.write(path, blobs, codec=codec)
        with container.read(path) as found:
            yield Tried(f"20 grains packed with {codec}", blobs, list(found))
        body = path.read_bytes()
        yield Tried("its footer", hashlib.sha256(body[:-32]).digest(), body[-32:])


def import_verified(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """An import hashes every grain before it writes any."""
    path = bench.directory() / "x.mg"
    whole = bytes.fromhex(vector("containers/good-manifest")["file_hex"])
    body = whole[:40] + bytes([whole[40] ^ 1]) + whole[41:-32]
    path.write_bytes(body + hashlib.sha256(body).digest())
    store = bench.store()
    yield Tried("a changed grain with a new footer", True, result(store.import_mg, path) != TAKEN)
    yield Tried("grains in the store", 0, len(store))


# stores


_CHILD: Final = """
import os, signal, sys
import omsgrain as og
store = og.open(sys.argv[1])
for n in range(6):
    print(store.put({"type": "event", "content": f"note {n}", "created_at": 1000}), flush=True)
os.kill(os.getpid(), signal.SIGKILL) if hasattr(signal, "SIGKILL") else os._exit(9)
"""


def belief(what: str = "on", at: int = 0, **more: Any) -> dict[str, Any]:
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
    return [hit.address for hit in store.query(**filters).results]


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


# policies


DENIED: Final = "ERR_INVALIDATION_DENIED"
_ACTS: Final = ("superseded", "contested", "retracted", "deleted")
"""The operations that invalidate a grain."""


def _act(store: og.GrainStore, what: str, address: str, why: str | None) -> Callable[[], Any]:
    acts: dict[str, Callable[[], Any]] = {
        "superseded": partial(store.supersede, address, belief("new", 1), why),
        "contested": partial(store.contest, address, reason=why),
        "retracted": partial(store.retract, address, reason=why),
        "deleted": partial(store.delete, address, reason=why),
    }
    return acts[what]


def _short(policy: Any) -> str:
    if not isinstance(policy, dict):
        return repr(policy)
    return " ".join(f"{k}={v}" if k != "authorized" else "authorized" for k, v in policy.items())


def policy(bench: Bench, entry: Entry) -> Iterator[Tried]:
    """Kind ``policy``: a policy that allows all operations or denies all.

    Denied acts are tried with a reason, on one grain; each allowed act has a grain of its own.
    """
    acts = entry.get("acts", _ACTS)
    for case in entry["cases"]:
        store, written = bench.store(), Scene(bench, "oms").value(case["policy"])
        names = acts if case["allowed"] else ["on"]
        grains = [store.put(belief(name, invalidation_policy=written)) for name in names]
        bench.clock += case.get("after_ms", 0)
        for number, name in enumerate(acts):
            what = f"{_short(written)}: {name}"
            if case["allowed"]:
                yield takes(what, _act(store, name, grains[number], case.get("reason")))
            else:
                yield refuses(what, DENIED, _act(store, name, grains[0], "a reason"))
