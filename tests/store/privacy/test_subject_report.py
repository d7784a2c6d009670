# SPDX-License-Identifier: Apache-2.0
"""Which grains are about a person, against a plain reading of them; and the report of it all."""

from __future__ import annotations

import io
import json
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import omsgrain as og
from omsgrain import errors as err
from omsgrain.crypto import sign
from omsgrain.privacy import load
from omsgrain.storage.encrypted import EncryptedStorage
from omsgrain.storage.memory import MemoryStorage
from omsgrain.store.context import Settings, context_of
from omsgrain.store.privacy.identity import FIELDS, MOST, OWN, Identities, select
from support.invented_people import (
    ANN,
    DAY,
    EVERYWHERE,
    NAMES,
    NOW,
    SHOP,
    Clock,
    belief,
    consent,
    opened,
)
from support.signers import ALICE, CAROL

pytestmark = pytest.mark.filterwarnings("ignore::omsgrain.errors.OmsWarning")


@pytest.fixture(params=EVERYWHERE)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[og.GrainStore]:
    with opened(request.param, tmp_path, Settings(clock=Clock())) as made:
        yield made


# The selector

_NAMES = st.sampled_from(
    [
        "ann",
        "an",
        "anna",
        "Ann",
        "u-1",
        "u-10",
        "\u00e9",
        "e\u0301",
        "x" * 30,
        "y" * 300,
        "ann@example.org",
    ]
)
_DIDS = st.sampled_from(["did:a:1", "did:a:10", "did:web:e"])
_ALL = _NAMES | _DIDS
_KEYS = st.sampled_from(["a", "ann", "e\u0301", "name"])
_NESTED = st.recursive(
    _NAMES | st.integers(0, 9) | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=6,
)
_MAPS = st.dictionaries(_KEYS, _NESTED, max_size=3)
_GRAINS = st.fixed_dictionaries(
    {"subject": _NAMES, "relation": _NAMES, "object": _ALL | _MAPS},
    optional={
        "user_id": _NAMES,
        "subject_did": _DIDS,
        "author_did": _DIDS,
        "observer_id": _ALL,
        "entity_id": _NAMES,
        "owner": _MAPS,
        "witness_dids": st.lists(_DIDS, max_size=3),
        "session_id": _NAMES,
        "x_note": _NESTED,
    },
)


def _says(value: Any, names: set[str]) -> bool:
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value) in names
    if isinstance(value, dict):
        return any(_says(item, names) for pair in value.items() for item in pair)
    return isinstance(value, list) and any(_says(item, names) for item in value)


@given(
    grains=st.lists(st.tuples(_GRAINS, st.sampled_from(["msgpack", "cbor"]), st.booleans())),
    wanted=st.sets(_ALL, min_size=1, max_size=4),
)
def test_the_selector_finds_what_a_plain_reading_finds(
    grains: list[tuple[dict[str, Any], Any, bool]], wanted: set[str]
) -> None:
    names = {unicodedata.normalize("NFC", name) for name in wanted}
    expected = {}
    with og.GrainStore(MemoryStorage()) as store:
        for number, (fields, encoding, compress) in enumerate(grains):
            told = belief("", **fields) | {"created_at": NOW + number}
            address = store.put(og.encode(told, encoding=encoding, compress=compress))
            if found := tuple(f for f in FIELDS if f in told and _says(told[f], names)):
                expected[address] = (found, not OWN.isdisjoint(found))
        selection = select(context_of(store).storage, wanted)
        assert {f.address: (f.fields, f.own) for f in selection} == expected
        assert (selection.unopened, selection.destroyed) == (0, 0)


def test_every_field_of_the_list_counts_and_no_other() -> None:
    with og.GrainStore(MemoryStorage()) as store:
        expected = {}
        for name in FIELDS:
            value: Any = {
                "owner": {"name": "Shelf Inc.", "legal": [ANN]},
                "witness_dids": [ANN],
            }.get(name, ANN)
            expected[store.put(belief("on", x_field=name) | {name: value})] = (name,)
        store.put(belief("on", session_id=ANN, x_name=ANN, origin_did=ANN, context={"of": ANN}))
        assert {f.address: f.fields for f in select(context_of(store).storage, [ANN])} == expected


@pytest.mark.parametrize("encoding", ["msgpack", "cbor"])
def test_grains_of_unknown_types_are_searched(encoding: Any) -> None:
    fields = {"type": "x:thing", "created_at": NOW, "user_id": "ann-17", "subject": ["ann-17"]}
    with og.GrainStore(MemoryStorage()) as store:
        address = store.put(og.encode(fields, type_byte=0xF0, encoding=encoding))
        (found,) = select(context_of(store).storage, NAMES)
        assert (found.address, found.fields) == (address, ("user_id", "subject"))


@pytest.mark.parametrize("size", [1, 23, 24, 31, 32, 255, 256, 65_535, 65_536])
@pytest.mark.parametrize("encoding", ["msgpack", "cbor"])
def test_names_of_every_length_are_found(size: int, encoding: Any) -> None:
    name = "n" * size
    with og.GrainStore(MemoryStorage()) as store:
        address = store.put(og.encode(belief("on", entity_id=name), encoding=encoding))
        store.put(belief("on", entity_id=name + "n"))
        store.put(belief("on", entity_id=name[1:] or "m"))
        assert [found.address for found in select(context_of(store).storage, [name])] == [address]


def test_a_thousand_names_on_pages_of_grains(store: og.GrainStore) -> None:
    rng = Random(4)
    store.put_many([belief(f"{n}", entity_id=f"e-{n}") for n in range(2_500)])
    wanted = rng.sample(range(5_000), MOST)
    found = [f.seq for f in select(context_of(store).storage, [f"e-{n}" for n in wanted])]
    assert found == sorted(n + 1 for n in wanted if n < 2_500)


def test_grains_that_arrive_during_a_walk_are_left_out(store: og.GrainStore) -> None:
    store.put(belief("on", subject_did=ANN))
    for found in select(context_of(store).storage, NAMES):
        store.put(belief(f"after {found.seq}", subject_did=ANN))
    assert len(list(select(context_of(store).storage, NAMES))) == 2


@pytest.mark.parametrize(
    "names", ["ann", b"ann", [], [""], ["ann", 7], ["a"] * (MOST + 1), ["\ud800"]]
)
def test_invalid_lists_of_names_are_refused(names: Any) -> None:
    with pytest.raises(err.SchemaError) as refused:
        Identities(names)
    assert "ann" not in str(refused.value)


def test_names_are_not_shown() -> None:
    assert "ann" not in repr(Identities(["ann-17"])) + repr(select(MemoryStorage(), ["ann-17"]))


def test_sealed_grains_are_opened_or_counted(tmp_path: Path) -> None:
    with opened("sealed memory", tmp_path, Settings(clock=Clock())) as store:
        own = store.put(belief("on", user_id="ann-17"))
        store.put(belief("off", user_id="bob-3"))
        storage = context_of(store).storage
        assert isinstance(storage, EncryptedStorage)
        (found,) = select(context_of(store).storage, NAMES)
        assert (found.address, found.own) == (own, True)
        assert found.number is not None
        closed = select(storage.inner, NAMES)
        assert (list(closed), closed.unopened) == ([], 2)
        storage.ring.erase(["ann-17"])
        after = select(context_of(store).storage, NAMES)
        assert (list(after), after.unopened, after.destroyed) == ([], 0, 1)


# The report


def test_a_report_has_all_that_is_about_a_person(store: og.GrainStore) -> None:
    given = store.put(consent(user_id="ann-17"))
    own = store.put(belief("on", user_id="ann-17", processing_basis=given))
    later = store.supersede(own, belief("off", user_id="ann-17", valid_from=0))
    named = store.put(belief("dim", subject="ann-17"))
    store.put(belief("dim", subject="ann-170"))
    store.holds.add(later, authority="court", reason_code="litigation")
    store.privacy.restrict(named, reason_code="disputed")
    report = store.privacy.report(NAMES)
    assert (report.complete, report.incomplete, report.own, report.named) == (True, (), 3, 1)
    found = {one.grain.address: one for one in report.grains()}
    assert list(found) == [given, own, later, named]
    assert [one.own for one in found.values()] == [True, True, True, False]
    assert found[own].state.superseded_by == later
    assert [hold.authority for hold in found[later].holds] == ["court"]
    told = report.to_dict()
    assert told["made_at"] == "2023-11-14T22:13:20.000Z"
    assert told["grains"][2]["times"]["valid_from"] == "1970-01-01T00:00:00.000Z"
    assert told["grains"][0]["grain"]["scope"] == ["store", "process"]
    assert told["restricted"] == [named]
    assert [hold["address"] for hold in told["holds"]] == [later]
    assert [(one["address"], one["withdrawn"]) for one in told["consents"]] == [(given, False)]
    written = io.StringIO()
    report.write_json(written)
    assert json.loads(written.getvalue()) == told
    assert "ann" not in repr(report)


def test_an_empty_report_is_one_too(store: og.GrainStore) -> None:
    report = store.privacy.report(NAMES)
    assert report.complete
    assert report.to_dict()["grains"] == []


def test_a_report_is_written_as_a_file_that_anyone_can_read(
    store: og.GrainStore, tmp_path: Path
) -> None:
    old = og.encode(belief("on", user_id="ann-17"), compress=True)
    first = store.put(old)
    store.supersede(first, belief("off", user_id="ann-17"))
    store.put(belief("dim", user_id="bob-3"))
    written = store.privacy.report(NAMES).write_mg(tmp_path / "ann.mg")
    assert written.grains == 2
    with og.GrainStore(MemoryStorage()) as other:
        assert other.import_mg(tmp_path / "ann.mg").stored == 2
        assert other.get(og.address(old)).blob == old
        assert other.status(og.address(old)).superseded_by is not None


def test_signed_grains_go_with_their_envelopes(store: og.GrainStore, tmp_path: Path) -> None:
    for user in ({}, {"user_id": "ann-17"}):
        grain = og.Grain(og.encode(belief("on", subject_did=ANN, author_did=ALICE.did, **user)))
        store.put(sign(grain, ALICE))
    report = store.privacy.report(NAMES)
    assert report.own == 2
    report.write_mg(tmp_path / "ann.mg")
    with og.GrainStore(MemoryStorage()) as other:
        assert other.import_mg(tmp_path / "ann.mg").stored == 2


def test_a_report_reads_again_what_is_there(store: og.GrainStore) -> None:
    kept, gone = (store.put(belief(what, user_id="ann-17")) for what in ("on", "off"))
    report = store.privacy.report(NAMES)
    store.delete(gone)
    assert [one.grain.address for one in report.grains()] == [kept]


def test_withheld_grains_make_a_report_incomplete(tmp_path: Path) -> None:
    settings = Settings(clock=Clock(), preset=load(()))
    with opened("memory", tmp_path, settings) as store:
        store.put(belief("on", user_id="ann-17"))
        legal = {"structural_tags": ["profile:legal"], "legal:privilege": "attorney_client"}
        store.put(belief("off", user_id="ann-17", **legal))
        report = store.privacy.report(NAMES)
        assert (report.complete, report.own) == (False, 1)
        assert len(report.incomplete) == 1


def test_unopened_grains_make_a_report_incomplete(tmp_path: Path) -> None:
    with opened("sealed memory", tmp_path, Settings(clock=Clock())) as store:
        store.put(belief("on", user_id="ann-17"))
        storage = context_of(store).storage
        assert isinstance(storage, EncryptedStorage)
        closed = og.GrainStore(storage.inner, Settings(clock=Clock()))
        report = closed.privacy.report(NAMES)
        assert (report.complete, report.own) == (False, 0)


def test_a_report_is_in_the_audit_trail_without_names(store: og.GrainStore) -> None:
    store.put(belief("on", subject_did=SHOP, author_did=CAROL.did))
    store.privacy.report([SHOP])
    *_, last = store.audit.entries()
    assert last.operation == "export"
    assert (last.details["purpose"], last.details["grains"]) == ("access", 1)
    assert SHOP not in str(last)


def test_times_beyond_the_calendar_are_left_as_numbers(store: og.GrainStore) -> None:
    store.put(belief("on", user_id="ann-17", valid_to=2**62, valid_from=NOW + DAY))
    (told,) = store.privacy.report(NAMES).to_dict()["grains"]
    assert told["grain"]["valid_to"] == 2**62
    assert set(told["times"]) == {"created_at", "valid_from"}
