# SPDX-License-Identifier: Apache-2.0
"""After an erasure no file has a byte of the person, and no process can read on."""

from __future__ import annotations

import base64
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain import errors as err
from omsgrain.crypto.keyring import KeyRing
from omsgrain.crypto.seal import Sealer
from omsgrain.search.ann import library
from omsgrain.search.nearest import Nearest
from omsgrain.storage.lmdb.storage import LmdbStorage
from omsgrain.storage.tables import BLIND
from omsgrain.store import GrainStore
from omsgrain.store.context import Settings, context_of
from omsgrain.store.privacy.erasure_scheduler import replay_erasures
from support.invented_people import ANN, KINDS, NAMES, Clock, belief, opened
from support.key_rings import secrets_of
from support.processes import Process

USER: dict[str, Any] = {"user_id": "ann-17"}
BEN: dict[str, Any] = {"user_id": "ben"}
FILES = [kind for kind in KINDS if "lmdb" in kind]
WORDS = ("quincunx", "zugzwang", "Ünverwechselbar")


def spellings(needle: bytes | str) -> set[bytes]:
    """The forms that a text or bytes can have in a file."""
    raw = {needle} if isinstance(needle, bytes) else set()
    if isinstance(needle, str):
        raw |= {needle.encode(code) for code in ("utf-8", "utf-16-le", "utf-16-be")}
        raw |= {needle.lower().encode(code) for code in ("utf-8", "utf-16-le", "utf-16-be")}
    found = set(raw)
    for one in raw:
        found |= {one.hex().encode(), one.hex().upper().encode()}
        for before in range(3):  # base64 looks different by where it begins
            text = base64.b64encode(bytes(before) + one)
            inner = text[4 * (before > 0) : -4]
            if len(inner) >= 8:
                found |= {inner, inner.replace(b"+", b"-").replace(b"/", b"_")}
    return found


def leaks(folder: Path, needles: dict[str, bytes | str]) -> list[tuple[str, str]]:
    """The files with any spelling of any needle."""
    files = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert "data.mdb" in files
    return [
        (name, what)
        for what, needle in needles.items()
        for spelling in spellings(needle)
        for name, data in files.items()
        if spelling in data
    ]


def salt_of(ring: KeyRing, user: str) -> bytes:
    keys = ring.of_user(user)
    assert keys is not None
    offset = ring._index.numbers[keys.number]
    return ring._open_record(offset, None)[0]


@pytest.fixture(params=FILES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[og.GrainStore]:
    with opened(request.param, tmp_path, Settings(actor="tester", clock=Clock())) as made:
        context_of(made)._nearest = Nearest(tmp_path / "memory.omsg", large=3)
        yield made


@pytest.mark.parametrize("ciphertext", [False, True])
def test_no_file_has_a_byte_of_it(store: og.GrainStore, tmp_path: Path, ciphertext: bool) -> None:
    ring = context_of(store).settings.keys
    others = [
        store.put(belief(f"nothing {n}", subject=f"thing {n % 5}", user_id=f"other-{n % 3}"))
        for n in range(40)
    ]
    mine = [
        store.put(belief(WORDS[0], **USER, note="x" * 9_000 + WORDS[1])),
        store.put(belief(WORDS[1], author_did=ANN)),
        store.put(belief("plain", subject=WORDS[2], observer_did=ANN)),
    ]
    vector = [0.123456, -7.654321, 3.25, 9.875]
    for n, address in enumerate([*mine, *others[:10]]):
        store.vectors.add(address, vector if n < 3 else [1.0, n, 2.0, 3.0], model="m")
    context_of(store).nearest().catch_up(context_of(store).storage)
    if library() is not None and ring is None:
        assert (tmp_path / "memory.omsg" / "vectors-1.usearch").exists()
    store.search(WORDS[1], sealed=False)
    store.contest(mine[1], reason=f"a reason about {WORDS[0]}")
    store.supersede(mine[2], belief("plainer", subject=WORDS[2], author_did=ANN))
    store.contest(mine[0], reason=f"a reason about {WORDS[0]}")
    needles: dict[str, bytes | str] = dict(zip(WORDS, WORDS, strict=True))
    needles |= {name: name for name in NAMES}
    plains = [store.get(address).blob for address in mine]
    needles |= {f"address {n}": og.Grain(blob).address for n, blob in enumerate(plains)}
    needles |= {f"digest {n}": bytes.fromhex(og.Grain(b).address) for n, b in enumerate(plains)}
    length = sum(value**2 for value in vector) ** 0.5
    needles["vector"] = struct.pack("<4f", *vector)
    needles["half"] = struct.pack("<4e", *(value / length for value in vector))
    if ring is not None:
        keys = ring.of_user("ann-17")
        assert keys is not None
        needles |= {f"key {n}": key for n, key in enumerate(secrets_of(keys))}
        needles["salt"] = salt_of(ring, "ann-17")
    found = {what for _, what in leaks(tmp_path, needles)}
    assert found >= {WORDS[1], *NAMES[:2], "digest 1"} - ({"ann-17"} if ring else set())
    assert ring is not None or found >= {"vector", *({"half"} if library() else ())}
    before = {address: store.get(address).blob for address in others}
    report = store.privacy.erase(NAMES, reason_code="gdpr17", ciphertext=ciphertext)
    assert report.complete
    assert leaks(tmp_path, needles) == []
    assert {address: store.get(address).blob for address in others} == before
    if ring is None:
        assert store.search("nothing").results
        assert store.search(vector=vector, model="m", limit=3).results
    assert not store.search(WORDS[1], sealed=False).results
    assert leaks(tmp_path, needles) == []
    store.close()
    assert leaks(tmp_path, needles) == []


def test_an_older_copy_cannot_be_decrypted(tmp_path: Path) -> None:
    with opened("sealed lmdb", tmp_path, Settings(clock=Clock())) as store:
        address = store.put(belief(WORDS[0], **USER))
        other = store.put(belief("nothing", **BEN))
        store.maintenance.backup(tmp_path / "copy.omsg")
        store.privacy.erase(NAMES, reason_code="gdpr17")
        ring = context_of(store).settings.keys
        with GrainStore(LmdbStorage(tmp_path / "copy.omsg"), Settings(keys=ring)) as copy:
            with pytest.raises(err.ErasedError):
                copy.get(address)
            assert copy.get(other)["object"] == "nothing"
            assert copy.query(user_id="ann-17").results == []


CHILD = """
    import sys
    from omsgrain.crypto.keyring import KeyRing
    from omsgrain.store import GrainStore
    from omsgrain.store.context import Settings
    from omsgrain.errors import OmsError
    from omsgrain.storage.lmdb.storage import LmdbStorage

    ring = KeyRing.open(sys.argv[2], master=bytes(range(32)))
    with GrainStore(LmdbStorage(sys.argv[1], readonly=True), Settings(keys=ring)) as store:
        for line in sys.stdin:
            said = []
            for address in line.split():
                try:
                    said.append(store.get(address)["object"])
                except OmsError as error:
                    said.append(error.code)
            said.append(str(len(store.query(user_id="ann-17").results)))
            print(" ".join(said), flush=True)
"""


def test_another_process_cannot_read_on(tmp_path: Path) -> None:
    with opened("sealed lmdb", tmp_path, Settings(clock=Clock())) as store:
        sealed = store.put(belief("lit", **USER))
        clear = store.put(belief("dim", author_did=ANN))
        other = store.put(belief("red", **BEN))
        line = f"{sealed} {clear} {other}"
        with Process(CHILD, tmp_path / "memory.omsg", tmp_path / "people.keys") as child:
            child.say(line)
            assert child.hear() == "lit dim red 1"
            assert store.privacy.erase(NAMES, reason_code="gdpr17").complete
            child.say(line)
            assert child.hear() == "ERR_ERASED ERR_NOT_FOUND red 0"


def test_keys_go_before_anything_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many grains a person has, only those are opened that can be held."""
    with opened("sealed lmdb", tmp_path, Settings(clock=Clock())) as store:
        store.put_many([belief(f"lit {n}", **USER) for n in range(300)])
        store.put(belief("locked", **USER, invalidation_policy={"mode": "locked"}))
        done: list[str] = []
        unseal, erase = Sealer.unseal, KeyRing.erase

        def opening(self: Sealer, *args: Any, **options: Any) -> bytes:
            done.append("open")
            return unseal(self, *args, **options)

        def erasing(self: KeyRing, users: Any) -> int:
            done.append("erase")
            return erase(self, users)

        monkeypatch.setattr(Sealer, "unseal", opening)
        monkeypatch.setattr(KeyRing, "erase", erasing)
        assert store.privacy.erase(NAMES, reason_code="gdpr17").keys == 1
        assert done.count("erase") == 1
        assert done.index("erase") <= 3


def test_an_old_key_file_is_detected(tmp_path: Path) -> None:
    """A copy of the key file still opens what it did: that is what rekey is for."""
    with opened("sealed lmdb", tmp_path, Settings(clock=Clock())) as store:
        address = store.put(belief("lit", **USER))
        shutil.copy(tmp_path / "people.keys", tmp_path / "old.keys")
        (tmp_path / "old.keys").chmod(0o600)
        report = store.privacy.erase(NAMES, reason_code="gdpr17", rekey=bytes(32))
        assert report.rekeyed
        with KeyRing.open(tmp_path / "old.keys", master=bytes(range(32))) as old:
            with GrainStore(LmdbStorage(tmp_path / "memory.omsg"), Settings(keys=old)) as copy:
                assert copy.get(address)["object"] == "lit"
        with pytest.raises(err.KeyMissingError):
            KeyRing.open(tmp_path / "people.keys", master=bytes(range(32)))


def test_a_backup_is_erased_again(tmp_path: Path) -> None:
    with opened("sealed lmdb", tmp_path, Settings(clock=Clock())) as store:
        sealed = store.put(belief("lit", **USER))
        store.put(belief(WORDS[1], author_did=ANN))
        bens = store.put(belief("red", **BEN, subject_did=ANN))
        other = store.put(belief("blue", **BEN))
        store.maintenance.backup(tmp_path / "copy.omsg")
        assert store.privacy.erase(NAMES, reason_code="gdpr17").complete
        back = LmdbStorage(tmp_path / "copy.omsg")
        with GrainStore(
            back, Settings(clock=Clock(), keys=context_of(store).settings.keys)
        ) as copy:
            assert replay_erasures(context_of(copy), context_of(store).storage) == 2
            assert copy.get(other)["object"] == "blue"
            with pytest.raises(err.ErasedError):
                copy.get(sealed)
            with pytest.raises(err.NotFoundError):
                copy.get(bens)
            with back.read() as reader:
                users = {row[:8] for row, _ in reader.rows(BLIND)}
            assert len(users) == 1
            assert copy.audit.verify().ok
            assert replay_erasures(context_of(copy), context_of(store).storage) == 0
