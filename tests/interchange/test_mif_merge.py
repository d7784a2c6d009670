# SPDX-License-Identifier: Apache-2.0
"""The outcome of a record by strategy and situation; new ids, and targets of references."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

import omsgrain as og
from omsgrain.errors import SchemaError
from omsgrain.formats.table import VERSIONS
from omsgrain.interchange import outcome
from omsgrain.interchange.mif_export import export_document
from omsgrain.interchange.outcome import MifReport
from support.aimem_imports import holdings
from support.mif_imports import MAKERS, USER, Maker, contents, current, fates
from support.origins import find_origins
from support.paths import ROOT

FIRST, SECOND = "tea at four", "coffee at five"
STRATEGIES = ("skip_duplicates", "overwrite", "rename")

#: Situation: what was imported before, one document after the other, what comes, and what becomes
#: of it by strategy. A memory is a number, a text and perhaps tags; "native" was never imported,
#: and "retract" takes back what the number before it stands for.
TABLE: dict[str, tuple[list[Any], tuple[Any, ...], str, str, str]] = {
    "nothing": ([], (1, FIRST), "imported", "imported", "imported"),
    "the text under another id": ([(2, FIRST)], (1, FIRST), "duplicate", "duplicate", "duplicate"),
    "the text under another id, other fields": (
        [(2, FIRST)], (1, FIRST, "new"), "duplicate", "updated", "duplicate",
    ),
    "the text of a native": (["native"], (1, FIRST), "duplicate", "updated", "duplicate"),
    "the same": ([(1, FIRST)], (1, FIRST), "unchanged", "unchanged", "unchanged"),
    "other fields": ([(1, FIRST)], (1, FIRST, "new"), "duplicate", "updated", "duplicate"),
    "another text": ([(1, FIRST)], (1, SECOND), "updated", "updated", "renamed"),
    "another text, stored elsewhere": (
        [(1, FIRST), (2, SECOND)], (1, SECOND), "duplicate", "updated", "duplicate",
    ),
    "an older version": (
        [(1, FIRST), (1, SECOND)], (1, FIRST), "unchanged", "unchanged", "unchanged",
    ),
    "withdrawn": ([(1, FIRST), "retract"], (1, FIRST), "refused", "refused", "refused"),
    "withdrawn, another text": (
        [(1, FIRST), "retract"], (1, SECOND), "refused", "refused", "refused",
    ),
    "withdrawn under another id": (
        [(2, FIRST), "retract"], (1, FIRST), "refused", "refused", "refused",
    ),
}  # fmt: skip


def made(maker: Maker, told: tuple[Any, ...]) -> dict[str, Any]:
    number, content, *tags = told
    return maker.memory(number, content, **({"tags": tags} if tags else {}))


def arrange(store: og.GrainStore, maker: Maker, before: list[Any]) -> None:
    for i, told in enumerate(before):
        if told == "native":
            store.put({"type": "event", "content": FIRST, "user_id": USER, "created_at": 1})
        elif told == "retract":
            grain = current(store, maker.id(before[i - 1][0]))
            store.trust.set_verification(grain.address, "retracted")
        else:
            maker.take(store, made(maker, told))


LATER, LAST = "2026-03-05T00:00:00Z", "2026-03-05T01:30:00+01:00"


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.format)
@pytest.mark.parametrize("kind", ["memory", "todo"])
@pytest.mark.parametrize(
    ("stored", "comes", "older"),
    [
        ({"updated_at": LAST}, {"updated_at": LATER}, True),
        ({"updated_at": LATER}, {"updated_at": LAST}, False),
        ({"version": 3}, {"version": 2}, True),
        ({"version": 2}, {"version": 3}, False),
        ({"updated_at": LATER, "version": 3}, {"updated_at": LATER, "version": 2}, True),
        ({"updated_at": LATER, "version": 3}, {"updated_at": LAST, "version": 2}, False),
        ({"updated_at": LATER}, {"version": 2}, False),
        ({}, {"updated_at": LATER}, False),
    ],
)
def test_an_older_text_joins_the_history(
    store: og.GrainStore,
    maker: Maker,
    kind: str,
    stored: dict[str, Any],
    comes: dict[str, Any],
    older: bool,
) -> None:
    """The newer one stays current, in the store and beside others of the same document."""
    made = getattr(maker, kind)
    if kind == "todo":
        stored, comes = ({"updated_at": None} | one for one in (stored, comes))

    def take(*records: dict[str, Any], **options: Any) -> list[str]:
        memories = records if kind == "memory" else ()
        members = {"todos": list(records)} if kind == "todo" else {}
        return fates(maker.take(store, *memories, **members, **options))

    def now() -> str:
        grain = current(store, maker.id(1, kind))
        return str(grain["object" if kind == "memory" else "description"])

    before, after = made(1, FIRST, **stored), made(1, SECOND, **comes)
    assert take(before) == ["imported"]
    assert take(after, dry_run=True) == take(after) == (["older"] if older else ["updated"])
    assert now() == (FIRST if older else SECOND)
    history = {one.address for one in store.history(current(store, maker.id(1, kind)).address)}
    assert len(history) == 2
    held = holdings(store)
    assert take(after) == ["unchanged"]
    assert holdings(store) == held
    assert store.maintenance.check().ok
    if older:
        more = [made(1, f"text {n}", **comes) for n in range(3)]
        assert take(*more) == ["older"] * 3
        assert now() == FIRST
        assert take(made(1, "over", **comes), merge_strategy="rename") == ["renamed"]
        assert take(made(1, "over", **comes), merge_strategy="overwrite") == ["updated"]
        assert now() == "over"


def test_older_ones_of_one_document(store: og.GrainStore) -> None:
    maker = MAKERS[0]
    versions = [maker.memory(1, f"text {n}", version=n) for n in (2, 5, 4, 1, 6, 3)]
    report = maker.take(store, *versions)
    assert fates(report) == ["imported", "updated", "older", "older", "updated", "older"]
    assert report.to_dict()["memories_older"] == 3
    assert contents(store) == ["text 6"]
    assert kept(store, maker)["memories"] == versions
    assert fates(maker.take(store, *versions)) == ["unchanged"] * 6


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.format)
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("situation", TABLE)
def test_fates(store: og.GrainStore, maker: Maker, strategy: str, situation: str) -> None:
    before, comes, *wanted = TABLE[situation]
    arrange(store, maker, before)
    count = len(store)
    dry = maker.take(store, made(maker, comes), merge_strategy=strategy, dry_run=True)
    assert (len(store), dry.stored) == (count, False)
    report = maker.take(store, made(maker, comes), merge_strategy=strategy)
    assert report.stored
    assert fates(report) == fates(dry) == [wanted[STRATEGIES.index(strategy)]]
    after = holdings(store)
    texts = contents(store)
    again = maker.take(store, made(maker, comes), merge_strategy=strategy)
    assert {*fates(again)} <= {"unchanged", "duplicate", "refused"}
    assert holdings(store) == after
    if fates(report) in (["imported"], ["updated"], ["renamed"]):
        assert comes[1] in texts
    assert store.maintenance.check().ok


def test_no_such_strategy(store: og.GrainStore) -> None:
    with pytest.raises(SchemaError):
        MAKERS[0].take(store, merge_strategy="merge")


def test_superseded_grains_stay_in_the_history(store: og.GrainStore) -> None:
    maker = MAKERS[0]
    for content in (FIRST, SECOND, "water"):
        maker.take(store, maker.memory(1, content))
    grain = current(store, maker.id(1))
    history = [store.get(one.address)["object"] for one in store.history(grain.address)]
    assert sorted(history) == sorted([FIRST, SECOND, "water"])
    assert contents(store) == ["water"]


def test_other_users_have_their_own(store: og.GrainStore) -> None:
    maker = MAKERS[0]
    maker.take(store, maker.memory(1, FIRST))
    report = maker.take(store, maker.memory(1, FIRST), maker.memory(2, SECOND), user_id="grace")
    assert fates(report) == ["imported", "imported"]
    assert contents(store, "grace") == [SECOND, FIRST]
    assert contents(store) == [FIRST]


def test_renaming_takes_all_references_along(store: og.GrainStore) -> None:
    """In every member that is known, under other members, and in the keys of vendors' data."""
    maker = MAKERS[0]
    one, two, three = (maker.id(n) for n in (1, 2, 3))
    maker.take(store, maker.memory(1, "as it was"), todos=[maker.todo(9, "as it was")])
    graph = {
        "entities": [{"id": "tea", "name": "Tea"}, {"id": "four", "name": "Four"}],
        "relationships": [{"id": "r", "source_entity_id": "tea", "target_entity_id": "four",
                           "relation_type": "at"}],
    }  # fmt: skip
    report = maker.take(
        store,
        maker.memory(1, "another", metadata={"x": one}),
        maker.memory(2, "a child", parent_id=one, related_memory_ids=[three, one]),
        maker.memory(3, "no child", x_links={one: [one]}, parent_id=None),
        todos=[maker.todo(9, "another todo", related_memory_ids=[one]),
               maker.todo(8, "a part", parent_id=maker.id(9), blocked_by=[maker.id(9)])],
        knowledge_graph=graph,
        vendor_extensions={"shodh-memory": {"memory_metadata": {one: {"importance": 0.5}}}},
        merge_strategy="rename",
    )  # fmt: skip
    by_id = {record.id: record for record in report.records}
    assert by_id[one].fate == "renamed"
    fresh, task = by_id[one].new_id, by_id[maker.id(9)].new_id
    assert fresh and task and fresh != one and task != maker.id(9)
    document = kept(store, maker)
    assert [memory["id"] for memory in document["memories"]] == [fresh, two, three]
    assert document["memories"][0]["metadata"] == {"x": fresh}
    assert document["memories"][1]["parent_id"] == fresh
    assert document["memories"][1]["related_memory_ids"] == [three, fresh]
    assert document["memories"][2]["x_links"] == {fresh: [fresh]}
    assert [todo["id"] for todo in document["todos"]] == [task, maker.id(8)]
    assert document["todos"][0]["related_memory_ids"] == [fresh]
    assert document["todos"][1]["parent_id"] == task
    assert document["todos"][1]["blocked_by"] == [task]
    assert document["knowledge_graph"] == graph
    assert document["vendor_extensions"]["shodh-memory"]["memory_metadata"].keys() == {fresh}
    assert contents(store) == ["a child", "another", "as it was", "no child"]
    before = current(store, one)
    assert current(store, fresh)["derived_from"] == [before.address]


@pytest.mark.parametrize("related", [False, True])
def test_rename_leaves_todos_as_they_were(store: og.GrainStore, related: bool) -> None:
    maker = MAKERS[0]

    def circle(*more: dict[str, Any]) -> list[dict[str, Any]]:
        """Todos that wait for one another; the first of them may be about a memory."""
        about = {"related_memory_ids": [maker.id(1)]} if related else {}
        waits = [maker.id(n, "todo") for n in (7, 8)]
        return [
            maker.todo(8, "brew", blocked_by=waits[:1], **about),
            maker.todo(7, "fetch", blocked_by=waits[1:]),
            *more,
        ]

    def snapshot() -> set[str]:
        return {grain.address for grain in store if not store.status(grain.address).successors}

    maker.take(store, maker.memory(1, FIRST), todos=circle())
    before = snapshot()
    for text in (SECOND, "water"):
        comes = circle(maker.todo(6, f"drink {text}", parent_id=maker.id(8, "todo")))
        options: dict[str, Any] = {"merge_strategy": "rename"}
        report = maker.take(store, maker.memory(1, text), todos=comes, **options)
        fates_ = [one.fate for one in report.records if one.kind == "todo"]
        assert set(fates_[:2]) == ({"renamed"} if related else {"unchanged"})
        assert before <= snapshot()
        before, held = snapshot(), holdings(store)
        again = maker.take(store, maker.memory(1, text), todos=comes, **options)
        assert {one.fate for one in again.records} <= {"unchanged", "duplicate"}
        assert holdings(store) == held


def kept(store: og.GrainStore, maker: Maker) -> dict[str, Any]:
    """The newest document that is kept whole."""
    by_address = {grain.address: grain for grain in store}
    by_address |= {og.Grain(grain.blob).address: grain for grain in by_address.values()}
    whole = [grain for grain in store if "x_pages" in grain][-1]
    from omsgrain.formats.document import open_manifest
    from omsgrain.formats.source import Source

    manifest = open_manifest(whole, by_address.__getitem__)
    assert manifest is not None
    named = [address for listed in manifest.arrays.values() for address in listed]
    found = [og.Grain(by_address[address].blob) for address in named]
    parts = [
        og.Grain(by_address[part].blob)
        for grain in found
        if (source := Source.of(grain))
        for part in source.parts
    ]
    pages = [og.Grain(grain.blob) for grain in store if "x_addresses" in grain]
    return maker.dump([*found, *parts, *pages, og.Grain(whole.blob)])


def test_references_to_a_text_that_is_here_lead_to_it(store: og.GrainStore) -> None:
    maker = MAKERS[0]
    one, two, three, four = (maker.id(n) for n in (1, 2, 3, 4))
    maker.take(store, maker.memory(1, FIRST))
    report = maker.take(
        store,
        maker.memory(2, FIRST),  # stored as 1
        maker.memory(3, SECOND),
        maker.memory(4, SECOND),  # the same as 3
        maker.memory(5, "water", related_memory_ids=[one, two, three, four]),
        merge_strategy="rename",
    )
    assert fates(report) == ["duplicate", "imported", "duplicate", "imported"]
    document = kept(store, maker)
    assert document["memories"][3]["related_memory_ids"] == [one, one, three, three]
    assert contents(store) == [SECOND, FIRST, "water"]


@pytest.mark.parametrize("strategy", ["skip_duplicates", "overwrite"])
def test_references_lead_to_what_is_stored(store: og.GrainStore, strategy: str) -> None:
    maker = MAKERS[0]
    one, two, three, four = (maker.id(n) for n in (1, 2, 3, 4))
    maker.take(store, maker.memory(1, FIRST))
    memories = [
        # What they name comes later in the document, and in another batch.
        maker.memory(5, "water", related_memory_ids=[one, two, three, four], parent_id=four),
        maker.memory(2, FIRST, tags=["new"]),  # stored as 1
        maker.memory(3, SECOND),
        maker.memory(4, SECOND, parent_id=three),  # the same as 3
    ]
    todo = maker.todo(6, "brew", related_memory_ids=[four], notes=four)

    def imported() -> MifReport:
        return maker.take(store, *memories, todos=[todo], merge_strategy=strategy, batch_size=2)

    first = imported()
    assert "unknown_reference" not in {one.rule for one in first.warnings}
    data, _ = export_document(store, USER, strict=True)
    written = json.loads(data.data)
    (water,) = [each for each in written["memories"] if each["content"] == "water"]
    (tea,) = [each for each in written["memories"] if each["content"] == FIRST]
    assert (tea["id"], tea.get("tags")) == (one, ["new"] if strategy == "overwrite" else None)
    assert water["related_memory_ids"] == [one, one, three, three]
    assert water["parent_id"] == three
    assert written["todos"][0]["related_memory_ids"] == [three]
    assert written["todos"][0]["notes"] == four
    # The document comes back as it was, and nothing is stored twice.
    kept_ = kept(store, maker)
    assert kept_["memories"] == memories
    assert kept_["todos"] == [todo]
    before = holdings(store)
    assert {*fates(imported())} == {"unchanged", "duplicate"}
    assert holdings(store) == before
    assert store.maintenance.check().ok


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.format)
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("first", [True, False])
def test_one_id_twice_and_its_text_under_another_id(
    store: og.GrainStore, maker: Maker, strategy: str, first: bool
) -> None:
    """Stored records keep id and text, and the report names the place of each record."""
    maker.take(store, maker.memory(1, FIRST))
    twins = [maker.memory(2, FIRST, tags=["new"]), maker.memory(2, SECOND)]
    twins = twins if first else twins[::-1]
    edge = maker.todo(5, "brew", related_memory_ids=[maker.id(2)])

    def taken(**options: Any) -> MifReport:
        return maker.take(store, *twins, todos=[edge], merge_strategy=strategy, **options)

    dry, report = taken(dry_run=True), taken(batch_size=1)
    assert fates(dry) == fates(report)
    assert contents(store) == [SECOND, FIRST]
    by_text = dict(zip([one["content"] for one in twins], report.records, strict=False))
    same, other = by_text[FIRST], by_text[SECOND]
    assert same.fate == ("updated" if strategy == "overwrite" else "duplicate")
    assert same.new_id == (None if strategy == "skip_duplicates" else maker.id(1))
    renamed = strategy == "rename" and first
    assert other.fate == ("renamed" if renamed else "imported")
    for one in (same, other):
        if one.new_id is not None or one is other:
            assert current(store, one.new_id or maker.id(2))
    assert current(store, maker.id(1))["object"] == FIRST
    data, _ = export_document(store, USER, format=maker.format, strict=True)
    (todo,) = json.loads(data.data)["todos"]
    assert todo["related_memory_ids"] == [maker.id(1 if renamed else 2)]
    before = holdings(store)
    assert {*fates(taken())} <= {"unchanged", "duplicate"}
    assert holdings(store) == before
    assert store.maintenance.check().ok


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_references_to_the_text_of_a_native(store: og.GrainStore, strategy: str) -> None:
    maker = MAKERS[0]
    store.put({"type": "event", "content": FIRST, "user_id": USER, "created_at": 1})
    related = maker.memory(3, "water", related_memory_ids=[maker.id(2)])
    report = maker.take(store, maker.memory(2, FIRST), related, merge_strategy=strategy)
    assert "unknown_reference" not in {one.rule for one in report.warnings}
    data, _ = export_document(store, USER, strict=True)
    ids = {each["content"]: each["id"] for each in json.loads(data.data)["memories"]}
    (water,) = [one for one in json.loads(data.data)["memories"] if one["id"] == maker.id(3)]
    assert water["related_memory_ids"] == [ids[FIRST]]
    assert report.records[0].new_id in (None, ids[FIRST])


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_references_to_what_an_earlier_import_skipped(store: og.GrainStore, strategy: str) -> None:
    """The store keeps a skipped record beside what has its text, and so knows its id."""
    maker = MAKERS[0]
    one, two, three, four, nine = (maker.id(n) for n in (1, 2, 3, 4, 9))
    maker.take(store, maker.memory(1, FIRST), maker.memory(3, SECOND))
    maker.take(store, maker.memory(2, FIRST))  # stored as 1
    maker.take(store, maker.memory(3, SECOND), maker.memory(4, SECOND))  # stored as 3
    memory = maker.memory(5, "water", related_memory_ids=[two, four, nine], parent_id=two)

    def taken() -> MifReport:
        return maker.take(store, memory, merge_strategy=strategy)

    report = taken()
    dangling = [each.pointer for each in report.warnings if each.rule == "unknown_reference"]
    assert dangling == ["/memories/0/related_memory_ids/2"]
    data, _ = export_document(store, USER, strict=True)
    (water,) = [m for m in json.loads(data.data)["memories"] if m["content"] == "water"]
    assert water["related_memory_ids"] == [one, three, nine] and water["parent_id"] == one
    before = holdings(store)
    assert {*fates(taken())} <= {"unchanged", "duplicate"}
    assert holdings(store) == before


def test_references_lead_to_what_another_format_brought(store: og.GrainStore) -> None:
    two, one = MAKERS
    one.take(store, one.memory(1, FIRST), one.memory(7, SECOND))
    two.take(
        store,
        two.memory(2, FIRST),
        two.memory(3, "water", related_memory_ids=[two.id(2)]),
        keep_document=False,
    )
    edge = {"source": one.id(8), "target": one.id(7), "weight": 0.5, "type": "semantic"}
    one.take(store, one.memory(8, "water"), graph={"edges": [edge]})
    data, _ = export_document(store, USER, strict=True)
    memories = {each["content"]: each for each in json.loads(data.data)["memories"]}
    assert memories["water"]["related_memory_ids"] == [memories[FIRST]["id"]]
    data, _ = export_document(store, USER, format="mif1", strict=True)
    written = json.loads(data.data)
    (found,) = written["graph"]["edges"]
    ids = {each["content"]: each["id"] for each in written["memories"]}
    assert (found["source"], found["target"]) == (ids["water"], ids[SECOND])


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.format)
def test_references_to_nothing_are_warned_of(store: og.GrainStore, maker: Maker) -> None:
    name = "related_memory_ids"
    maker.take(store, maker.memory(1, FIRST))
    todo = maker.todo(5, "brew", **{name: [maker.id(1), maker.id(2), maker.id(3)]})
    report = maker.take(store, maker.memory(2, SECOND), todos=[todo])
    found = [one.pointer for one in report.warnings if one.rule == "unknown_reference"]
    assert found == [f"/todos/0/{name}/2"]
    data = json.dumps(maker.document(maker.memory(2, SECOND), todos=[todo])).encode()
    warnings = VERSIONS[maker.format].validate(data, None).warnings
    found = [one.pointer for one in warnings if one.rule == "unknown_reference"]
    assert found == [f"/todos/0/{name}/0", f"/todos/0/{name}/2"]


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.format)
def test_a_reference_that_no_grain_can_be_called_is_to_nothing(
    store: og.GrainStore, maker: Maker
) -> None:
    maker.take(store, maker.memory(1, FIRST))
    todo = maker.todo(5, "brew", related_memory_ids=[maker.id(2), "\ufeffx"])
    report = maker.take(store, maker.memory(2, FIRST), todos=[todo])
    found = [one.pointer for one in report.warnings if one.rule == "unknown_reference"]
    assert "/todos/0/related_memory_ids/1" in found
    assert find_origins(store, ["\ufeffx"], user_id=USER) == {}


def test_one_id_twice_in_a_document(store: og.GrainStore) -> None:
    maker = MAKERS[0]
    twice = [maker.memory(1, FIRST), maker.memory(1, SECOND), maker.memory(1, "water")]
    assert fates(maker.take(store, *twice, dry_run=True, batch_size=2)) == [
        "imported", "updated", "updated",
    ]  # fmt: skip
    report = maker.take(store, *twice)
    assert fates(report) == ["imported", "updated", "updated"]
    assert contents(store) == ["water"]
    before = holdings(store)
    assert fates(maker.take(store, *twice)) == ["unchanged"] * 3
    assert holdings(store) == before


def versions(maker: Maker, told: str) -> list[dict[str, Any]]:
    """Todos of one id; of two that differ only in how a number is spelled one is a capital."""
    numbers = {"a": 1, "A": 1.0, "b": 2, "B": 2.0, "c": 3}
    return [maker.todo(1, "brew", x_cups=numbers[one]) for one in told]


@pytest.mark.parametrize("strategy", ["skip_duplicates", "overwrite"])
@pytest.mark.parametrize(
    ("told", "wanted", "now"),
    [
        ("aba", ["imported", "updated", "unchanged"], 2),
        ("abab", ["imported", "updated", "unchanged", "unchanged"], 2),
        ("abcac", ["imported", "updated", "updated", "unchanged", "unchanged"], 3),
        ("aAbAB", ["imported", "unchanged", "updated", "unchanged", "unchanged"], 2),
    ],
)
def test_versions_of_one_id_in_a_document(
    store: og.GrainStore, strategy: str, told: str, wanted: list[str], now: int
) -> None:
    """It is as if they came one after another: what was superseded does not come back."""
    maker = MAKERS[0]
    for number, size in enumerate((100, 1, 2)):
        user, given = f"user {number}", {"todos": versions(maker, told)}
        options: dict[str, Any] = {"user_id": user, "merge_strategy": strategy}
        dry = maker.take(store, batch_size=size, dry_run=True, **options, **given)
        report = maker.take(store, batch_size=size, **options, **given)
        assert fates(dry) == fates(report) == wanted
        reasons = [one.reason for one in report.records if one.fate == "unchanged"]
        assert reasons[-1] in ("newer_here", None) and "newer_here" in reasons
        assert current(store, maker.id(1, "todo"), user)["x_src"].count(b"x_cups") == 1
        written = json.loads(export_document(store, user)[0].data)
        assert [one["x_cups"] for one in written["todos"]] == [now]
        kept = json.loads(export_document(store, user, document="exp_a1b2")[0].data)
        assert json.dumps(kept) == json.dumps(maker.document(**given))
        before = holdings(store)
        assert {*fates(maker.take(store, **options, **given))} == {"unchanged"}
        assert holdings(store) == before


def test_an_older_version_among_several_of_its_text(store: og.GrainStore) -> None:
    maker = MAKERS[0]
    older = [maker.memory(1, FIRST, tags=[str(n)]) for n in range(4)]
    for one in older:
        maker.take(store, one, merge_strategy="overwrite")
    maker.take(store, maker.memory(1, SECOND))
    before = holdings(store)
    for one in older:
        report = maker.take(store, one, merge_strategy="overwrite")
        (told,) = report.records
        assert (told.fate, told.reason) == ("unchanged", "newer_here")
    assert holdings(store) == before
    assert contents(store) == [SECOND]


def test_refused_records_do_not_count_as_stored(store: og.GrainStore) -> None:
    maker = MAKERS[0]
    one, two = versions(maker, "ab")
    maker.take(store, todos=[one], keep_document=False)
    held = current(store, maker.id(1, "todo"))
    store.holds.add(held.address, authority="court", reason_code="case")
    report = maker.take(store, todos=[two, two, one])
    assert fates(report) == ["refused", "refused", "unchanged"]
    assert json.loads(export_document(store, USER, document="exp_a1b2")[0].data)["todos"] == [one]


def test_versions_of_one_id_with_new_ids(store: og.GrainStore) -> None:
    maker = MAKERS[0]
    report = maker.take(store, todos=versions(maker, "abab"), merge_strategy="rename")
    assert fates(report) == ["imported", "renamed", "unchanged", "unchanged"]
    written = json.loads(export_document(store, USER)[0].data)
    assert sorted(one["x_cups"] for one in written["todos"]) == [1, 2]
    assert [one["x_cups"] for one in kept(store, maker)["todos"]] == [1, 2, 1, 2]


def test_one_that_is_renamed_twice_alike_is_one(store: og.GrainStore) -> None:
    maker = MAKERS[0]
    maker.take(store, todos=versions(maker, "a"), keep_document=False)
    report = maker.take(store, todos=versions(maker, "bb"), merge_strategy="rename")
    assert fates(report) == ["renamed", "unchanged"]
    assert [one["x_cups"] for one in kept(store, maker)["todos"]] == [2, 2]


def test_the_table_of_the_docs_is_that_of_the_code() -> None:
    text = (ROOT / "docs" / "mif.md").read_text("utf-8")
    rows = re.findall(
        r"^\| ([a-z]+) \| (yes|no|) \| ([a-z]+) \| ([a-z]+) \| ([a-z]+) \|$", text, re.M
    )
    told = {(own, twin == "yes"): tuple(fates) for own, twin, *fates in rows}
    assert told == {
        key: tuple(one.fate for one in decisions) for key, decisions in outcome._TABLE.items()
    }
