# SPDX-License-Identifier: Apache-2.0
"""GrainStore: what users hold."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import omsgrain as og
from omsgrain import errors as err
from omsgrain.storage.lmdb.storage import LmdbStorage
from omsgrain.storage.tables import BLOBS
from omsgrain.store import Change
from omsgrain.store.context import context_of
from omsgrain.store.write import Item
from support.shell import USAGE, Shell
from support.store_kinds import POSTGRES, made

TIME = 1_700_000_000_000
ABSENT = "ab" * 32


def belief(number: int, **fields: Any) -> dict[str, Any]:
    return {
        "type": "belief",
        "subject": f"room {number}",
        "relation": "has",
        "object": "light",
        "confidence": 0.5,
        "created_at": TIME + number,
        **fields,
    }


BAD = {"type": "belief", "subject": "room", "relation": "has", "created_at": TIME}


@pytest.fixture(params=["memory", "lmdb", POSTGRES])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[og.GrainStore]:
    with og.GrainStore(made(request.param, tmp_path / "memory.omsg")) as store:
        yield store


def test_put_and_get(store: og.GrainStore) -> None:
    fields = belief(1)
    address = store.put(fields)
    assert address == og.address(og.encode(fields))
    grain = store.get(address)
    assert grain.to_dict() == fields
    assert grain.address == address
    assert len(store) == 1


def test_dicts_grains_and_blobs_are_the_same(store: og.GrainStore) -> None:
    blob = og.encode(belief(1))
    given: list[Item] = [belief(1), og.Grain(blob), blob, bytearray(blob), memoryview(blob)]
    assert {store.put(item) for item in given} == {og.address(blob)}
    assert len(store) == 1
    report = store.put_many([*given, belief(2)])
    assert (report.stored, report.duplicates) == (1, 5)


def test_older_names_and_encodings_keep_their_bytes(store: og.GrainStore) -> None:
    fields = {**belief(1), "type": "fact"}
    for blob in (
        og.encode(fields, keep_type_name=True),
        og.encode(fields, encoding="cbor"),
        og.encode(fields, compress=True),
        og.encode({"x_any": 1}, type_byte=0xF3),
    ):
        assert store.get(store.put(blob)).blob == blob


def test_membership(store: og.GrainStore) -> None:
    address = store.put(belief(1))
    assert store.exists(address)
    assert address in store
    assert store.get(address) in store
    assert not store.exists(ABSENT)
    assert ABSENT not in store
    assert og.Grain(og.encode(belief(2))) not in store
    assert 7 not in store


def test_what_is_not_there(store: og.GrainStore) -> None:
    with pytest.raises(err.NotFoundError):
        store.get(ABSENT)
    with pytest.raises(KeyError):
        store.get_many([store.put(belief(1)), ABSENT])


@pytest.mark.parametrize(
    ("address", "error"),
    [
        (ABSENT.upper(), err.HashFormatError),
        ("zz" * 32, err.HashFormatError),
        (ABSENT[:-1], err.HashLengthError),
        ("", err.HashLengthError),
    ],
)
def test_malformed_addresses(
    store: og.GrainStore, address: str, error: type[err.OmsError]
) -> None:
    for call in (store.get, store.exists, lambda a: store.get_many([a]), store.__contains__):
        with pytest.raises(error):
            call(address)


def test_get_many_keeps_the_order_asked(store: og.GrainStore) -> None:
    addresses = store.put_many([belief(n) for n in range(2_500)]).addresses
    asked = [address for address in addresses if address]
    Random(1).shuffle(asked)
    asked += asked[:3]
    assert [grain.address for grain in store.get_many(asked)] == asked
    assert store.get_many([]) == []


# --- refusals ------------------------------------------------------------------------------------


def test_bad_grains_are_refused(store: og.GrainStore) -> None:
    blob = og.encode(belief(1))
    wrong_time = blob[:8] + bytes([blob[8] ^ 1]) + blob[9:]
    lenient = og.decode(wrong_time, strict=False)
    for item, code in (
        (BAD, "ERR_SCHEMA"),
        (5, "ERR_NOT_MAP"),
        (b"", "ERR_TOO_SHORT"),
        (blob[:-1], "ERR_CORRUPT"),
        (lenient, "ERR_CORRUPT"),
    ):
        with pytest.raises(err.OmsError) as caught:
            store.put(item)  # type: ignore[arg-type]
        assert caught.value.code == code
        report = store.put_many([item], errors="collect")  # type: ignore[list-item]
        assert [bad.error.code for bad in report.errors] == [code]
    assert len(store) == 0


SUPERSEDING = {
    "invalidation_type": "superseded",
    "invalidation_reason": "it was wrong",
    "invalidation_initiator": "did:web:example.org",
    "supersession_justification": "a better reading",
    "supersession_auth": [b"signature"],
}


@pytest.mark.parametrize("name", SUPERSEDING)
def test_only_supersede_takes_superseding_grains(store: og.GrainStore, name: str) -> None:
    fields = belief(1, **{name: SUPERSEDING[name]})
    for item in (
        fields,
        og.encode(fields),
        og.encode(fields, encoding="cbor"),
        og.encode(fields, compress=True),
        og.Grain(og.encode(fields)),
        og.encode({"type": "lab:note", name: SUPERSEDING[name]}, type_byte=0xF0),
    ):
        with pytest.raises(err.SchemaError) as caught:
            store.put(item)
        assert caught.value.code == "ERR_SCHEMA"
        assert caught.value.field == f"/{name}"
    batch = og.encode_many([belief(2), fields, belief(3)])
    report = store.put_many(batch, errors="collect")
    assert [(bad.index, bad.error.field) for bad in report.errors] == [(1, f"/{name}")]
    assert report.stored == 2


def test_grains_that_only_look_like_superseding_are_stored(store: og.GrainStore) -> None:
    store.put(belief(1, invalidation_reason=None))
    store.put(belief(2, object="\u00a2sj itype: invalidation_type"))
    store.put(belief(3, x_map={"sj": 1, "itype": "superseded"}, x_bytes=b"\xa5itype\x62sa"))
    assert len(store) == 3


# --- many ----------------------------------------------------------------------------------------


def mixture(count: int) -> list[Any]:
    """Every third item bad, the others dicts, blobs and grains."""
    items: list[Any] = []
    for n in range(count):
        blob = og.encode(belief(n))
        items.append([belief(n), BAD, blob, og.Grain(blob), blob[:-1], bytearray(blob)][n % 6])
    return items


def test_collect_reports_each_bad_item(store: og.GrainStore) -> None:
    items = mixture(600)
    report = store.put_many(items, errors="collect", batch_size=50)
    bad = [n for n in range(600) if n % 3 == 1]
    assert [item.index for item in report.errors] == bad
    assert {item.error.code for item in report.errors} == {"ERR_SCHEMA", "ERR_CORRUPT"}
    assert [n for n, address in enumerate(report.addresses) if address is None] == bad
    assert (report.stored, report.duplicates) == (400, 0)
    good = [og.encode(belief(n)) for n in range(600) if n % 3 != 1]
    assert [grain.blob for grain in store] == good
    assert [a for a in report.addresses if a] == og.address_many(good)


def test_raise_stores_nothing_at_all(store: og.GrainStore) -> None:
    store.put(belief(0))
    items = [*(belief(n) for n in range(3_000)), BAD]
    with pytest.raises(err.SchemaError):
        store.put_many(items)
    with pytest.raises(err.SchemaError):
        store.put_many(iter(items))
    assert len(store) == 1
    assert store.put_many(items[:-1]).stored == 2_999


def test_raise_gives_the_first_refusal(store: og.GrainStore) -> None:
    blob = og.encode(belief(1))
    with pytest.raises(err.TooShortError) as caught:
        store.put_many([blob, b"", BAD])
    assert caught.value.field == "/1"
    with pytest.raises(err.SchemaError) as refused:
        store.put_many([blob, BAD, b""])
    with pytest.raises(err.SchemaError) as alone:
        store.put(BAD)
    assert refused.value.field == f"/1{alone.value.field or ''}"
    with pytest.raises(err.SchemaError) as encoded:
        og.encode_many([belief(1), BAD])
    assert encoded.value.field == refused.value.field


def test_an_iterator_that_fails(store: og.GrainStore) -> None:
    def items() -> Iterator[dict[str, Any]]:
        yield from (belief(n) for n in range(25))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.put_many(items())
    assert len(store) == 0
    with pytest.raises(ZeroDivisionError):
        store.put_many(items(), errors="collect", batch_size=10)
    assert len(store) == 20


def test_collect_takes_an_iterator_as_it_comes(store: og.GrainStore) -> None:
    seen: list[int] = []

    def items() -> Iterator[dict[str, Any]]:
        for n in range(30):
            seen.append(len(store))
            yield belief(n)

    store.put_many(items(), errors="collect", batch_size=10)
    assert seen == [0] * 10 + [10] * 10 + [20] * 10


def test_batches_of_the_core(store: og.GrainStore) -> None:
    batch = og.encode_many([belief(1), BAD, belief(2)], errors="collect")
    report = store.put_many(batch)
    assert report.addresses == batch.addresses
    assert report.stored == 2
    lines = b'{"type":"belief"}\n' + og.Grain(og.encode(belief(3))).to_json().encode()
    assert store.put_many(og.encode_jsonl(lines, errors="collect")).stored == 1


def test_duplicates_in_one_call(store: og.GrainStore) -> None:
    report = store.put_many([belief(1), belief(2), belief(1)])
    assert (report.stored, report.duplicates) == (2, 1)
    assert report.addresses[0] == report.addresses[2]
    assert store.put_many([]).addresses == []


def test_warnings_reach_the_caller(store: og.GrainStore) -> None:
    odd = belief(1, confidense=0.5)
    with pytest.warns(og.errors.OmsWarning):
        store.put(odd)
    report = store.put_many([belief(2), odd])
    assert [note.index for note in report.warnings] == [1]


@pytest.mark.parametrize("options", [{"errors": "ignore"}, {"batch_size": 0}])
def test_unknown_options(store: og.GrainStore, options: dict[str, Any]) -> None:
    with pytest.raises(err.SchemaError):
        store.put_many([belief(1)], **options)


# --- walking -------------------------------------------------------------------------------------


def test_iteration_and_changes_follow_the_order_of_arrival(store: og.GrainStore) -> None:
    addresses = [store.put(belief(n)) for n in (5, 3, 9, 1)]
    store.put(belief(3))
    assert [grain.address for grain in store] == addresses
    changes = list(store.changes())
    assert changes == [Change(seq, "put", a) for seq, a in enumerate(addresses, start=1)]
    assert list(store.changes(since=2)) == changes[2:]
    assert list(store.changes(since=4)) == []
    assert list(store.changes(since=-1)) == changes
    store.put(belief(7))
    assert [change.seq for change in store.changes(since=changes[-1].seq)] == [5]


def test_a_walk_leaves_out_what_arrives_meanwhile(store: og.GrainStore) -> None:
    store.put_many([belief(n) for n in range(1_500)])
    met = 0
    for met, grain in enumerate(store, start=1):
        if met % 500 == 0:
            store.put({**grain.to_dict(), "created_at": TIME - met})
    assert met == 1_500
    assert len(store) == 1_503


def test_stats(store: og.GrainStore) -> None:
    store.put_many([belief(n) for n in range(10)])
    stats = store.stats()
    assert (stats.grains, stats.last_seq) == (10, 10)
    assert stats.blob_bytes == sum(len(grain.blob) for grain in store)


# --- damage --------------------------------------------------------------------------------------


def test_verify_of_a_good_store(store: og.GrainStore) -> None:
    store.put_many([belief(n) for n in range(1_200)])
    report = store.verify()
    assert (report.verified, report.errors) == (1_200, [])


def test_damaged_bytes_are_found_and_never_given_out(tmp_path: Path) -> None:
    path = tmp_path / "memory.omsg"
    with og.open(path) as store:
        addresses = [store.put(belief(n)) for n in range(5)]
        inner = context_of(store).storage
        assert isinstance(inner, LmdbStorage)
        # A valid grain, but not the one that was put: only the address can tell.
        changed = og.encode(belief(2, object="night"))
        key, mark = (3).to_bytes(8, "big"), bytes.fromhex(addresses[2])[:8]
        inner.write(lambda writer: writer.set_row(BLOBS, key, mark + changed))

        with pytest.raises(err.IntegrityError):
            store.get(addresses[2])
        with pytest.raises(err.IntegrityError):
            list(store)
        with pytest.raises(err.IntegrityError):
            list(store.changes())
        assert [change.seq for change in store.changes(since=3)] == [4, 5]
        with pytest.raises(err.IntegrityError):
            store.verify()
        report = store.verify(errors="collect")
        assert report.verified == 4
        assert [(bad.index, bad.error.code) for bad in report.errors] == [(3, "ERR_INTEGRITY")]


# --- opening -------------------------------------------------------------------------------------


def test_open_reopen_readonly(tmp_path: Path) -> None:
    path = tmp_path / "memory.omsg"
    with og.open(str(path)) as store:
        address = store.put(belief(1))
    with pytest.raises(err.StoreError):
        store.get(address)
    store.close()
    with og.open(path, readonly=True) as store:
        assert store.get(address)["subject"] == "room 1"
        with pytest.raises(err.StoreError):
            store.put(belief(2))
        assert store.stats().file_bytes > 0
    with og.open(path, durability="relaxed") as store:
        store.put(belief(2))
        store.flush()
        assert len(store) == 2


def test_open_refuses(tmp_path: Path) -> None:
    path = tmp_path / "memory.omsg"
    with pytest.raises(err.StoreError):
        og.open(path, readonly=True)
    for wrong in ({"keys": "ring"}, {"require_signatures": {"type": ["no such type"]}}):
        with pytest.raises(err.SchemaError):
            og.open(path, **wrong)
    with pytest.raises(err.SchemaError):
        og.open(path, durability="never")  # type: ignore[arg-type]
    assert not path.exists()


def test_a_store_in_memory(tmp_path: Path, shell: Shell) -> None:
    with og.open(":memory:") as store, og.open(":memory:") as other:
        address = store.put(belief(1))
        assert store.get(address)["subject"] == "room 1"
        assert (len(store.search("room").results), len(store), len(other)) == (1, 1, 0)
        assert store.maintenance.check().ok
        with pytest.raises(err.UnsupportedError):
            store.maintenance.backup(tmp_path / "copy.omsg")
    with pytest.raises(err.StoreError):
        og.open(":memory:", readonly=True)
    with pytest.raises(err.UnsupportedError):
        og.open(":memory:", memory_limit="64MB")
    with pytest.raises(err.UnsupportedError):
        og.restore(tmp_path / "copy.omsg", ":memory:")
    for command in (["ingest", ":memory:", "x.jsonl"], ["query", ":memory:", "--type", "event"]):
        assert shell(*command) == USAGE
    assert list(tmp_path.iterdir()) == []
    with og.open(Path(":memory:")) as store:
        store.put(belief(1))
    assert [path.name for path in tmp_path.iterdir()] == [":memory:"]


def test_an_iterator_outlives_its_store_with_a_clear_error(store: og.GrainStore) -> None:
    store.put_many([belief(n) for n in range(1_500)])
    grains = iter(store)
    next(grains)
    store.close()
    with pytest.raises(err.StoreError):
        list(grains)


def test_a_report_of_many_prints_counts(tmp_path: Path) -> None:
    fields = {"type": "event", "content": "it rained", "created_at": 10**12}
    with og.open(tmp_path / "m.omsg") as store:
        report = store.put_many([fields, fields, {"type": "event"}], errors="collect")
    shown = "<PutReport addresses: 3, stored=1, duplicates=1, errors: 1, warnings: 0>"
    assert repr(report) == shown
