# SPDX-License-Identifier: Apache-2.0
"""The audit trail: entries, refusals, and reading."""

from __future__ import annotations

import hmac
import json
import tracemalloc
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgpack
import pytest

from omsgrain.errors import (
    FormatError,
    HashFormatError,
    HashLengthError,
    OmsError,
    SchemaError,
    StoreError,
)
from omsgrain.storage import audit
from omsgrain.storage.audit import AuditLog, AuditReport, Checkpoint, trail
from omsgrain.storage.base import Storage, Writer
from omsgrain.storage.tables import HELD, META, NOTES
from support.audit_trails import (
    HEAD,
    KEY,
    PAIRS,
    TIME,
    key,
    lived,
    named,
    note,
    put,
    remove,
    rows,
    verify,
)
from support.scale import Scale
from support.store_contract import make_pairs, pair
from support.store_kinds import POSTGRES, made


@pytest.fixture(params=["memory", "lmdb", POSTGRES])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    store = made(request.param, tmp_path / "memory.omsg")
    yield store
    store.close()


def test_a_life_verifies(store: Storage) -> None:
    operations = lived(store)
    assert operations == ("put put put supersede contest hold export delete erase compact".split())
    assert verify(store, AuditLog(store).checkpoint(), grains=True) == AuditReport(
        ok=True, entries=10, problems=(), notes=1
    )


def test_entries_say_what_was_done(store: Storage) -> None:
    lived(store)
    entries = list(AuditLog(store).entries())
    assert [entry.number for entry in entries] == list(range(1, 11))
    assert [entry.count for entry in entries] == [1, 1, 20, 2, 1, 1, 2, 1, 2, 0]
    assert [entry.grains for entry in entries] == [1, 2, 22, 23, 23, 23, 23, 22, 20, 20]
    assert {entry.time for entry in entries} == {TIME}
    contest, hold, export = entries[4:7]
    assert (contest.actor, contest.reason_code) == ("did:web:robot.example", "doubt")
    assert (contest.note, contest.note_erased) == ("Somebody saw it otherwise.", False)
    assert hold.details == {"authority": "did:web:c"}
    assert export.details == {"codec": "zstd", "bytes": 1_234}
    assert [e.number for e in AuditLog(store).entries(8)] == [9, 10]
    assert [e.number for e in AuditLog(store).entries(operation="put")] == [1, 2, 3]


def test_the_chain_is_what_it_says(store: Storage) -> None:
    lived(store)
    hash = bytes(32)
    for row in rows(store).values():
        hash = sha256(hash + row[32:]).digest()
        assert row[:32] == hash
    with store.read() as reader:
        assert reader.row(META, HEAD) == key(10) + hash
        tag_key = reader.row(META, KEY) or b""
        for digest, _ in PAIRS:
            tag = hmac.digest(tag_key, digest, "sha256")[:16]
            assert audit.tag(reader, digest.hex()) == tag
    first = msgpack.unpackb(rows(store)[1][32:])
    assert first["g"] == hmac.digest(tag_key, PAIRS[0][0], "sha256")[:16]
    batch = msgpack.unpackb(rows(store)[3][32:])
    addresses = b"".join(digest for digest, _ in PAIRS[2:22])
    assert batch["h"] == hmac.digest(tag_key, addresses, "sha256")


def test_the_chain_has_no_address_and_no_note(store: Storage) -> None:
    lived(store)
    chain = b"".join(rows(store).values())
    assert b"Somebody" not in chain
    for digest, blob in PAIRS:
        assert digest[:8] not in chain
        assert digest.hex()[:16].encode() not in chain
        assert blob not in chain


@pytest.mark.parametrize(
    ("which", "numbers"),
    [
        (0, [1, 4]),
        (1, [2, 5, 6]),
        (22, [4]),
        (2, [3]),
        (3, [3, 7]),
        (5, [3, 8]),
        (6, [3, 9]),
        (29, []),
    ],
)
def test_entries_of_an_address(store: Storage, which: int, numbers: list[int]) -> None:
    lived(store)
    address = PAIRS[which][0].hex()
    assert [e.number for e in AuditLog(store).entries(address=address)] == numbers
    later = [number for number in numbers if number > 2]
    assert [e.number for e in AuditLog(store).entries(2, address=address)] == later


def test_an_address_that_came_twice(store: Storage) -> None:
    put(store, *PAIRS[:20])
    remove(store, PAIRS[5])
    put(store, *PAIRS[:25])
    numbers = [e.number for e in AuditLog(store).entries(address=PAIRS[5][0].hex())]
    assert numbers == [1, 2, 3]


def test_a_large_operation_that_puts_nothing_is_tagged_up_to_a_limit(store: Storage) -> None:
    digests = [digest for digest, _ in make_pairs(audit.MOST_TAGS + 1, longest=12)]
    note(store, "export", *digests[1:])
    note(store, "export", *digests)
    some, all_of_them = AuditLog(store).entries()
    assert (some.count, len(some.tags), some.batch_tag) == (1_000, 1_000, None)
    assert (all_of_them.count, all_of_them.tags) == (1_001, ())
    assert all_of_them.batch_tag is not None
    found = AuditLog(store).entries(address=digests[7].hex())
    assert [entry.number for entry in found] == [1]


def test_checkpoint_as_json(store: Storage) -> None:
    assert AuditLog(store).checkpoint() == Checkpoint(0, "00" * 32, 0)
    assert verify(store, AuditLog(store).checkpoint()).ok
    lived(store)
    checkpoint = AuditLog(store).checkpoint()
    assert (checkpoint.number, checkpoint.time) == (10, TIME)
    assert Checkpoint.from_json(checkpoint.to_json()) == checkpoint
    assert Checkpoint.from_json(checkpoint.to_json().encode()) == checkpoint
    assert verify(store, checkpoint).ok


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"number": -1}, "/number"),
        ({"number": True}, "/number"),
        ({"time": 2**64}, "/time"),
        ({"time": "noon"}, "/time"),
        ({"hash": "00"}, "/hash"),
        ({"hash": "AB" * 32}, "/hash"),
        ({"hash": None}, "/hash"),
        ({"kind": "omsgrain audit checkpoint 2"}, "/kind"),
        ({"more": 1}, None),
    ],
)
def test_invalid_checkpoints(change: dict[str, Any], field: str | None) -> None:
    good = json.loads(Checkpoint(7, "0a" * 32, TIME).to_json())
    with pytest.raises(FormatError) as refused:
        Checkpoint.from_json(json.dumps(good | change))
    assert refused.value.field == field


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "[" * 2_000, b"\xff", "{}" + " " * 2_000])
def test_what_is_not_even_json(text: str | bytes) -> None:
    with pytest.raises(FormatError):
        Checkpoint.from_json(text)


# Notes


def test_an_erased_note_leaves_the_chain_whole(store: Storage) -> None:
    lived(store)
    put(store, PAIRS[25], note="Anna Berger said so.")
    gone = store.write(
        lambda w: audit.erase_notes(
            w, [11, 5, 5, 9, -1], actor=None, time=TIME, reason_code="art-17"
        )
    )
    assert gone == 2
    report = verify(store)
    assert (report.ok, report.notes, report.notes_gone) == (True, 0, 2)
    entries = {entry.number: entry for entry in AuditLog(store).entries()}
    assert (entries[5].note, entries[5].note_erased) == (None, True)
    assert (entries[9].note, entries[9].note_erased) == (None, False)
    last = entries[12]
    assert (last.operation, last.notes_erased, last.reason_code) == ("erase", 2, "art-17")
    assert store.write(lambda w: audit.erase_notes(w, [5], actor=None, time=TIME)) == 0
    assert len(rows(store)) == 12


@pytest.mark.parametrize(
    ("number", "change", "named_for_it"),
    [
        (5, lambda row: row + b"!", [5]),
        (5, lambda row: bytes(16) + row[16:], [5]),
        (5, lambda row: b"", [5]),
        (5, lambda row: None, [None]),
        (6, lambda row: bytes(20), [None]),
    ],
)
def test_a_note_that_was_changed(
    store: Storage,
    number: int,
    change: Callable[[bytes], bytes | None],
    named_for_it: list[int | None],
) -> None:
    lived(store)

    def work(writer: Writer) -> None:
        row = writer.row(NOTES, key(number)) or b""
        writer.set_row(NOTES, key(number), change(row))

    store.write(work)
    assert named(verify(store), "note") == named_for_it
    assert named(verify(store), "chain") == []


# What the trail says of the store


def test_grains_that_came_without_an_entry(store: Storage) -> None:
    lived(store)
    store.write(lambda writer: writer.put([PAIRS[25]]))
    assert named(verify(store), "store") == [None]
    put(store, PAIRS[26])
    assert named(verify(store), "store") == [11]
    note(store, "compact")
    assert named(verify(store), "store") == [11]
    assert named(verify(store), "chain") == []


def test_grains_that_went_without_an_entry(store: Storage) -> None:
    lived(store)
    remove(store, PAIRS[8], noted=False)
    assert named(verify(store), "store") == [None]
    note(store, "restore", details={"grains": -1})
    assert named(verify(store), "store") == []


def test_an_event_without_an_entry(store: Storage) -> None:
    lived(store)
    store.write(lambda writer: writer.event(HELD, 2, PAIRS[1][0]))
    assert named(verify(store), "store") == [None]


def test_a_trail_that_begins_late(store: Storage) -> None:
    store.write(lambda writer: writer.put(PAIRS[:10]))
    assert verify(store) == AuditReport(ok=True, entries=0, problems=())
    put(store, PAIRS[10])
    put(store, PAIRS[11])
    assert verify(store, grains=True).ok


@pytest.mark.parametrize("count", [1, 3, 20])
def test_other_grains_than_those_named(store: Storage, count: int) -> None:
    """A grain that was changed together with its address and all rows that lead to it."""
    put(store, PAIRS[25])

    def work(writer: Writer) -> None:
        digests = [digest for digest, _ in PAIRS[:count]]
        writer.put([*PAIRS[: count - 1], pair(b"something else")])
        audit.append(writer, operation="put", actor=None, digests=digests, time=TIME)

    store.write(work)
    put(store, PAIRS[26])
    assert verify(store).ok
    assert named(verify(store, grains=True), "store") == [2]


def test_a_batch_of_which_some_is_gone_is_not_doubted(store: Storage) -> None:
    put(store, *PAIRS)
    remove(store, PAIRS[3])
    assert verify(store, grains=True).ok


# What is refused


@pytest.mark.parametrize(
    ("operation", "more", "field"),
    [
        ("forget", {}, "/operation"),
        ("put", {"actor": ""}, "/actor"),
        ("put", {"actor": "one\ntwo"}, "/actor"),
        ("put", {"actor": "\ud800"}, "/actor"),
        ("put", {"actor": "x" * 257}, "/actor"),
        ("put", {"reason_code": "in plain words"}, "/reason_code"),
        ("put", {"reason_code": ""}, "/reason_code"),
        ("put", {"note": "x" * (1 << 16)}, "/note"),
        ("put", {"details": {"codec": "a b"}}, "/details/codec"),
        ("put", {"details": {"bytes": 2**64}}, "/details/bytes"),
        ("put", {"details": {"Codec": 1}}, "/details"),
        ("put", {"details": {f"d{i}": i for i in range(17)}}, "/details"),
    ],
)
def test_refused(store: Storage, operation: str, more: dict[str, Any], field: str) -> None:
    with pytest.raises(SchemaError) as refused:
        note(store, operation, PAIRS[0][0], **more)
    assert refused.value.field == field
    assert rows(store) == {}


@pytest.mark.parametrize("name", [HEAD, KEY])
@pytest.mark.parametrize("value", [None, b"", bytes(12)])
def test_nothing_is_added_to_a_trail_without_its_end(
    store: Storage, name: bytes, value: bytes | None
) -> None:
    lived(store)
    store.write(lambda writer: writer.set_row(META, name, value))
    before = rows(store)
    with pytest.raises(StoreError):
        put(store, PAIRS[25])
    assert rows(store) == before
    with store.read() as reader:
        assert reader.find([PAIRS[25][0]]) == [None]


@pytest.mark.parametrize(
    ("filters", "error"),
    [
        ({"operation": "forget"}, SchemaError),
        ({"address": "x" * 64}, HashFormatError),
        ({"address": "abc"}, HashLengthError),
    ],
)
def test_filters_that_cannot_be(
    store: Storage, filters: dict[str, Any], error: type[OmsError]
) -> None:
    with pytest.raises(error):
        list(AuditLog(store).entries(**filters))


def test_numbers_that_cannot_be(store: Storage) -> None:
    lived(store)
    assert len(list(AuditLog(store).entries(-5))) == 10
    assert list(AuditLog(store).entries(2**70)) == []


# Size


def test_a_walk_goes_by_pages_and_sees_what_arrives(
    store: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trail, "_PAGE", 3)
    lived(store)
    seen = []
    for entry in AuditLog(store).entries():
        seen.append(entry.number)
        if entry.number == 4:
            note(store, "compact")
    assert seen == list(range(1, 12))


def test_a_large_trail_is_verified_in_little_memory(store: Storage, scale: Scale) -> None:
    pairs = make_pairs(scale.grains, longest=12)

    def work(writer: Writer) -> None:
        for one in pairs:
            writer.put([one])
            audit.append(writer, operation="put", actor=None, digests=[one[0]], time=TIME)

    store.write(work)
    with store.read() as reader:
        audit.verify(reader)  # what is made once is not counted
        tracemalloc.start()
        report = audit.verify(reader)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert (report.ok, report.entries) == (True, len(pairs))
    assert peak < 200_000
