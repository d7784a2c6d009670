# SPDX-License-Identifier: Apache-2.0
"""The tables of the pages about store, policies, search and security are those of the code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import omsgrain as og
from omsgrain import _core
from omsgrain.crypto import seal
from omsgrain.policy import modes, presets, rules
from omsgrain.query.filters import FILTERS
from omsgrain.search import vectors
from omsgrain.search import words as searched
from omsgrain.storage import audit, blind_index, mentions, tables, tombstones
from omsgrain.storage import records as state
from omsgrain.storage.audit import gaps, log
from omsgrain.storage.lmdb import data_file
from omsgrain.store import read
from omsgrain.store.privacy.erasure import ErasureReport
from support.markdown_page import fences, table
from support.paths import TESTS

DOCS = TESTS.parent / "docs"
OPERATIONS, POLICIES, QUERIES, SEARCH, SECURITY = (
    DOCS / f"{name}.md" for name in ("operations", "policies", "queries", "search", "security")
)
LAYOUT = DOCS / "store-layout.md"
FIELDS = {"type": "belief", "subject": "a", "relation": "b", "object": "c", "confidence": 1}
BELIEF: dict[str, Any] = FIELDS | {"created_at": 1768471200123}


def test_tables_of_the_store() -> None:
    rows = [row[:2] for row in table(LAYOUT, "table", "life", "key", "value")]
    assert rows == [[each.name.decode(), each.life.name] for each in tables.TABLES]
    found = {row[0]: int(row[1]) for row in table(LAYOUT, "record of `meta-0", "size", "value")}
    assert found == {
        tables.FORMAT_RECORD.decode(): tables.FORMAT_VALUE.size,
        tables.HEAD_RECORD.decode(): tables.HEAD.size,
        log.HEAD_RECORD.decode(): log.HEAD_VALUE.size,
        log.KEY_RECORD.decode(): log.KEY_BYTES,
        gaps.GAPS_RECORD.decode(): gaps.GAPS_VALUE.size,
        tombstones.KEY_RECORD.decode(): 32,
        mentions.NAMED_RECORD.decode(): tables.SEQUENCE.size,
        blind_index.SEALS_RECORD.decode(): 1,
        state.REMOVED_RECORD.decode(): tables.SEQUENCE.size,
        f"{read.POSITION_PREFIX.decode()}NAME": tables.SEQUENCE.size,
    }
    assert f"format of the store, now {tables.FORMAT};" in LAYOUT.read_text("utf-8")
    lives = {each.life.name for each in tables.TABLES}
    assert (
        set(re.findall(r"^- \*\*([A-Z]+)\*\*", LAYOUT.read_text("utf-8"), re.MULTILINE)) == lives
    )


def test_files_of_the_store() -> None:
    drawn = next(fences(LAYOUT)).text
    names = {"text.db", f"vectors-{1}.usearch"}
    names |= {getattr(data_file, n) for n in dir(data_file) if n.endswith(("_FILE", "_DIRECTORY"))}
    assert set(re.findall(r"^        ([\w.-]+)  ", drawn, re.MULTILINE)) == names


def test_events_and_states() -> None:
    kinds = {
        row[0].encode(): row[1]
        for row in table(LAYOUT, "kind", "in `changes()", "what happened to the grain")
    }
    assert kinds == {k: read._KINDS.get(k, "other") for k in get_args(tables.Kind)}
    named = {
        "superseded": state.SUPERSEDED, "retracted": state.RETRACTED,
        "restricted": state.RESTRICTED, "contested": state.CONTESTED, "verified": state.VERIFIED,
    }  # fmt: skip
    rows = table(LAYOUT, "bit", "set when", "the grain is")
    assert {says.split()[-1]: int(bit) for bit, says, _ in rows} == named
    assert sum(int(bit) for bit, _, becomes in rows if becomes == "past") == state.PAST


def test_audit_entries() -> None:
    keys = {
        key: holds
        for names, holds in table(LAYOUT, "key", "holds")
        for key in re.findall(r"\w", names)
    }
    assert keys.keys() == log._KINDS.keys()
    assert set(re.findall(r"\w+", keys["o"])) - {"operation"} == audit.OPERATIONS


def test_modes_and_presets() -> None:
    rows = table(POLICIES, "mode", "lets a grain be superseded, contested, retracted, deleted")
    named = {re.findall(r"\w+", row[0])[0] for row in rows} - {"anything"}
    assert named == {*get_args(modes.Mode), "timed"}
    scopes = [
        re.findall(r"\w+", row[0])[0]
        for row in table(POLICIES, "scope", "the policy also reaches")
    ]
    assert set(scopes) - {"anything"} == modes._SCOPES.keys()
    kinds = {row[0] for row in table(POLICIES, "kind", "asks", "checked at", "refusal")}
    loaded = presets.load(presets.BUILT_IN)
    assert {rule.kind for rule in loaded.rules} <= kinds
    page = POLICIES.read_text("utf-8")
    assert all(f"`{purpose}` (" in page for purpose in rules.PURPOSES)
    header = ("preset", "encrypted", "must be there", "kept at least", "may leave", "looked at")
    assert sorted(row[0] for row in table(OPERATIONS, *header)) == list(presets.BUILT_IN)


def test_a_file_of_rules(tmp_path: Path) -> None:
    shown = [fence.text for fence in fences(OPERATIONS) if fence.language == "toml"]
    file = tmp_path / "house.toml"
    file.write_text(*shown)
    assert {rule.id for rule in presets.load(file).rules} >= {"house.room", "house.events"}


def test_filters_that_no_index_answers() -> None:
    rows = table(QUERIES, "filter", "matches a grain if")
    named = [re.findall(r"\w+", row[0])[0] for row in rows]
    assert [name for name in dict.fromkeys(named) if name != "current"] == sorted(
        (name for name, one in FILTERS.items() if not one.indexed), key=named.index
    )


def test_what_is_searched() -> None:
    rows = table(SEARCH, "column", "weight", "fields")
    assert [(name, float(weight)) for name, weight, _ in rows] == list(
        zip(searched.COLUMNS, searched.WEIGHTS, strict=True)
    )
    named = [set(re.findall(r"\w+", listed)) for _, _, listed in rows]
    assert named[:2] == [searched.SAYS, searched.ABOUT]
    assert f"at most {vectors.DIMENSIONS:,}" in SEARCH.read_text("utf-8")


def test_keys_and_places_of_the_index() -> None:
    """Of a grain with every term: the kinds are those of the table, and no others."""
    terms = {
        "namespace": "n", "user_id": "u", "session_id": "i", "run_id": "r", "subject": "a",
        "relation": "b", "object": "c", "processing_basis": "consent", "tag": "x",
        "derived_from": "ab" * 32, "link": "cd" * 32, "origin": "urn:example:7",
    }  # fmt: skip
    lists = {"structural_tags": ["x"], "derived_from": ["ab" * 32], "depends_on": ["cd" * 32]}
    named = {name: terms[name] for name in terms if name not in ("tag", "link", "origin")}
    fields: dict[str, Any] = named | lists
    fields["x_src"] = b'{"f":"example","k":"note","id":"urn:example:7"}'
    blob = og.encode(BELIEF | fields)
    made_of: dict[str, Any] = terms | {"fingerprint": _core.fingerprint(blob)}
    digest = bytes.fromhex(og.address(blob))
    tail = _core.Tail()
    tail.add([7], [blob], [digest])
    made = {key for key, _ in tail.rows_after(None, 100)}
    keys = {name: _core.term(name, value) for name, value in made_of.items()}
    keys |= {"all": _core.term("all", None), "type": _core.term("type", 1)}
    keys |= {"subject relation": _core.term("subject relation", "a", "b")}
    kinds = {row[0]: row[1].encode() for row in table(LAYOUT, "filter", "kind", "term")}
    assert kinds == {name: key[:1] for name, key in keys.items()}
    assert made == set(keys.values())
    assert keys["subject relation"] == b"q\x01ab"
    stored = _core.Tail(buckets=True)
    stored.add([7], [blob], [digest])
    key, part = _core.bucket(keys["fingerprint"]) or (b"", b"")
    assert key[1:] == bytes([made_of["fingerprint"][0], made_of["fingerprint"][1] & 0xC0])
    assert part == made_of["fingerprint"][2:8]
    assert {key for key, _ in stored.rows_after(None, 100)} == made - {keys["fingerprint"]} | {key}
    (place,) = tail.page(keys["all"], None, True, 10)
    parts = {
        "created_at": BELIEF["created_at"],
        "address": int.from_bytes(bytes(~byte & 0xFF for byte in digest[:6]), "big"),
        "sequence": 7,
    }
    end = 0
    for offset, size, name, _ in table(LAYOUT, "offset", "size", "part of a place", "holds"):
        assert int(offset) == end
        end += int(size)
        assert int.from_bytes(place[int(offset) : end], "big") == parts.pop(name), name
    assert (end, parts) == (len(place), {})


def test_each_claim_about_security_names_tests_that_there_are() -> None:
    texts = [file.read_text("utf-8") for file in TESTS.rglob("test_*.py")]
    there = {name for text in texts for name in re.findall(r"^ *def (test_\w+)\(", text, re.M)}
    for who, _, shown in table(SECURITY, "attacker", "cannot", "shown by"):
        named = set(re.findall(r"test_\w+", shown))
        assert named, who
        assert named <= there, who


def test_what_each_table_shows() -> None:
    rows = table(
        DOCS / "security-reference.md",
        "table of `data.mdb",
        "what it shows of sealed grains without keys",
    )
    named = [name for names, _ in rows for name in re.findall(r"[a-z-]+-\d", names)]
    assert sorted(named) == sorted(each.name.decode() for each in tables.TABLES)


def test_keys_of_a_user() -> None:
    drawn = next(fence.text for fence in fences(SECURITY) if "user key" in fence.text)
    assert tuple(re.findall(r"\+-- (\w+)", drawn)) == seal._NAMES


def test_reasons_for_an_incomplete_erasure() -> None:
    told = re.sub(r".*incomplete:", "", ErasureReport.__doc__ or "", flags=re.DOTALL)
    rows = table(DOCS / "erasure.md", "in `incomplete", "why")
    assert {row[0] for row in rows} == set(re.findall(r"``(\w+)``", told))
