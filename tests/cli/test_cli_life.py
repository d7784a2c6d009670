# SPDX-License-Identifier: Apache-2.0
"""A grain's life on the command line: supersede, mark, hold, delete, history, audit, search."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain.errors import RangeError
from omsgrain.json_values import time_text
from omsgrain.search.text import TextIndex
from support.shell import TIME, USAGE, Shell, exit_code, lamp

SOFT = {"mode": "soft_locked"}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "memory.omsg"
    with og.open(path) as made:
        made.put(lamp("on"))
    return path


OLD = og.address(og.encode(lamp("on")))


def fields(what: str, at: int = 1, **more: Any) -> bytes:
    return json.dumps(lamp(what, at, **more)).encode()


def supersede(shell: Shell, store: Path, old: str, what: str, at: int = 1, *more: str) -> str:
    said = shell.json("supersede", store, old, "-", *more, stdin=fields(what, at))
    assert said["supersedes"] == old
    return str(said["content_address"])


def test_supersede_and_history(shell: Shell, store: Path, tmp_path: Path) -> None:
    new = supersede(shell, store, OLD, "off", 1, "--actor", "robot-7")
    file = tmp_path / "grain.json"
    file.write_bytes(fields("dim", 2))
    assert shell("supersede", store, new, file) == 0
    last = shell.out.decode().strip()
    versions = shell.json("history", store, OLD)
    assert [version["content_address"] for version in versions] == [OLD, new, last]
    assert [version["superseded_by"] for version in versions] == [new, last, None]
    assert shell("history", store, last) == 0
    assert len(shell.out.splitlines()) == 3
    found = shell.json("query", store, "--subject", "lamp")["results"]
    assert [hit["content_address"] for hit in found] == [last]
    entries = shell.json("audit", store)
    assert [entry["operation"] for entry in entries] == ["put", "supersede", "supersede"]
    assert entries[1]["actor"] == "robot-7"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"{", "ERR_FORMAT"),
        (b"[1]", "ERR_FORMAT"),
        (b"[" * 100_000, "ERR_FORMAT"),
        (b'{"type": "event", "x": NaN}', "ERR_FORMAT"),
        (b'{"type": "event", "content": "a", "content": "b"}', "ERR_CORRUPT"),
        (fields("off", confidence="much"), "ERR_SCHEMA"),
        (fields("on", 0), "ERR_SCHEMA"),
    ],
)
def test_grains_that_cannot_supersede(shell: Shell, store: Path, text: bytes, code: str) -> None:
    status, error = shell.error("supersede", store, OLD, "-", stdin=text)
    assert (status, error["code"]) == (exit_code(code), code)
    assert len(shell.json("query", store, "--all")["results"]) == 1


def test_a_policy_refuses_and_a_justification_helps(shell: Shell, store: Path) -> None:
    with og.open(store) as made:
        old = made.put(lamp("locked", 5, invalidation_policy=SOFT))
    status, error = shell.error("supersede", store, old, "-", stdin=fields("x"))
    assert status == exit_code("ERR_INVALIDATION_DENIED")
    assert error["rule"] == "soft_locked"
    new = supersede(shell, store, old, "open", 6, "--justification", "the key was found")
    (review,) = shell.json("reviews", store)
    assert (review["address"], review["by"]) == (old, new)
    assert shell("reviews", store) == 0
    assert b"the key was found" in shell.out
    assert shell.json("reviews", store, "--done", str(review["number"]))["done"]
    assert shell.json("reviews", store) == []


def test_mark_and_state(shell: Shell, store: Path) -> None:
    assert shell.json("mark", store, OLD, "contested", "--reason", "it flickers") == {
        "content_address": OLD,
        "verification_status": "contested",
    }
    state = shell.json("state", store, OLD)
    assert state["verification_status"] == "contested"
    assert state["holds"] == []
    assert shell("state", store, OLD) == 0
    assert b"contested" in shell.out
    assert shell("mark", store, OLD, "true") == USAGE
    assert shell.error("state", store, "ab" * 32)[0] == exit_code("ERR_NOT_FOUND")


def test_holds_and_deletion(shell: Shell, store: Path) -> None:
    hold = ("--authority", "court", "--reason", "litigation")
    assert shell.json("hold", store, OLD, *hold)["held"]
    assert shell.json("state", store, OLD)["holds"][0]["authority"] == "court"
    status, error = shell.error("delete", store, OLD)
    assert (status, error["rule"]) == (exit_code("ERR_INVALIDATION_DENIED"), "hold")
    assert shell.json("release", store, OLD, *hold)["released"] == "court"
    assert shell.json("delete", store, OLD, "--reason", "a mistake")["deleted"]
    assert shell.error("get", store, OLD)[0] == exit_code("ERR_NOT_FOUND")
    kinds = [entry["operation"] for entry in shell.json("audit", store, "--address", OLD)]
    assert kinds == ["put", "hold", "release", "delete"]


def test_audit_verify_and_checkpoint(shell: Shell, store: Path, tmp_path: Path) -> None:
    supersede(shell, store, OLD, "off")
    kept = tmp_path / "kept.json"
    assert shell("audit", store, "--checkpoint") == 0
    kept.write_bytes(shell.out)
    assert shell.json("audit", store, "--verify", "--against", kept)["ok"]
    assert shell("audit", store) == 0
    assert len(shell.out.splitlines()) == 2
    assert len(shell.json("audit", store, "--after", "1", "--limit", "5")) == 1
    assert len(shell.json("audit", store, "--since", "1h")) == 2
    last = shell.json("audit", store)[-1]["time"]
    assert len(shell.json("audit", store, "--since", f"{last + 1}")) == 0
    assert shell("audit", store, "--verify", "--since", "1h") == USAGE
    assert shell("audit", store, "--against", kept) == USAGE
    other = tmp_path / "other.omsg"
    og.open(other).close()
    report = shell("audit", other, "--verify", "--against", kept)
    assert report == exit_code("ERR_INTEGRITY")


def test_search(shell: Shell, store: Path) -> None:
    with og.open(store) as made:
        made.put(lamp("broken in the kitchen", 3, namespace="home"))
    found = shell.json("search", store, "kitchen")["results"]
    assert [hit["grain"]["object"] for hit in found] == ["broken in the kitchen"]
    assert (store / "text.db").exists()
    assert shell("search", store, "kit*", "--namespace", "home") == 0
    assert shell.out.decode().endswith("  belief  lamp is broken in the [kitchen]\n")
    assert shell.json("search", store, "kitchen", "--namespace", "office")["results"] == []
    assert shell.error("search", store, " ")[0] == exit_code("ERR_SCHEMA")


def test_a_search_that_waits_for_no_index(
    shell: Shell, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with og.open(store) as made:
        made.put_many([lamp("broken", n, namespace="home") for n in range(30)])
        lacks = len(made)
    found = shell.json("search", store, "broken", "--no-wait")
    assert (found["results"], found["behind"]) == ([], lacks)
    assert shell("search", store, "broken", "--no-wait") == 0
    assert f"{lacks} grains are not indexed yet" in shell.err.decode()
    monkeypatch.setattr("omsgrain.cli.query._MANY", lacks)
    assert shell("search", store, "broken") == 0
    assert f"adding {lacks} grains to the text index" in shell.err.decode()
    found = shell.json("search", store, "broken", "--no-wait", "--limit", "100")
    assert len(found["results"]) == 30 and "behind" not in found


def test_ingest_for_searches(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "grains.json").write_text(json.dumps([lamp("broken", 1), lamp("on", 2)]))
    assert shell("ingest", tmp_path / "m.omsg", tmp_path / "grains.json", "--index-text") == 0
    found = shell.json("search", tmp_path / "m.omsg", "broken", "--no-wait")
    assert len(found["results"]) == 1 and "behind" not in found


@pytest.mark.parametrize(
    ("fields", "asked", "says"),
    [
        ({"object": "on", "subject": "lamp"}, "lamp", "[lamp] is on"),
        ({"object": "Straße 3"}, "STRASSE", "lamp is [Straße] 3"),
        ({"object": "ö", "structural_tags": ["blue door"]}, "blue",
         "lamp is ö (structural_tags: [blue] door)"),
        ({"object": "a word " * 99 + "dock " + "b " * 99}, "dock", " a word [dock] b "),
        ({"object": "ö word " * 99, "structural_tags": ["blue"]}, "blue",
         "ö… (structural_tags: [blue])"),
    ],
)  # fmt: skip
def test_results_show_the_text_with_the_matched_words(
    shell: Shell, tmp_path: Path, fields: dict[str, Any], asked: str, says: str
) -> None:
    with og.open(tmp_path / "m.omsg") as made:
        made.put(lamp("on", 3) | fields)
    assert shell("search", tmp_path / "m.omsg", asked) == 0
    (line,) = shell.out.decode().splitlines()
    assert says in line
    assert len(line) < 300


def test_a_search_that_gave_up_says_so(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    defaults = TextIndex.search.__kwdefaults__ or {}
    monkeypatch.setitem(defaults, "most", 3)
    path = tmp_path / "m.omsg"
    with og.open(path) as store:
        store.put_many(lamp(f"violet {n}", n) for n in range(6))
        fewer: dict[str, Any] = {"created_before": TIME + 3}  # the newest are refused
        assert store.search("violet").incomplete is None
        assert store.search("violet", **fewer).incomplete == "refused"
        monkeypatch.setitem(defaults, "most", 4)
        assert store.search("violet", limit=3, **fewer).incomplete is None
        assert store.search("violet", limit=4, **fewer).incomplete is None  # there are no more
        size = len(og.encode(lamp("violet 0")))
        few = store.search("violet", most_bytes=size + 1)
        assert (len(few.results), few.incomplete) == (2, "bytes")
        assert store.search("violet", most_bytes=6 * size).incomplete is None
        with pytest.raises(RangeError):
            store.search("violet", most_bytes=0)
    monkeypatch.setitem(defaults, "most", 3)
    asked = ("search", path, "violet", "--before", time_text(TIME + 3))
    assert shell(*asked) == 0
    assert b"there may be more" in shell.err
    assert shell.json(*asked)["incomplete"] == "refused"
    assert "incomplete" not in shell.json("search", path, "violet")


def test_duplicates_and_provenance(shell: Shell, store: Path) -> None:
    with og.open(store) as made:
        made.put(lamp("on", 9))
        child = made.put(lamp("warm", 10, derived_from=[OLD]))
    (same,) = shell.json("duplicates", store)
    assert same["count"] == 2
    assert OLD in same["addresses"]
    assert shell("duplicates", store) == 0
    graph = shell.json("provenance", store, child)
    assert [node["content_address"] for node in graph["nodes"]] == [child, OLD]
    down = shell.json("provenance", store, OLD, "--down")
    assert [node["content_address"] for node in down["nodes"]] == [OLD, child]
    assert shell("provenance", store, child) == 0
    assert len(shell.out.splitlines()) == 2


def test_policy(shell: Shell, store: Path) -> None:
    rules = shell.json("policy", "gdpr")
    assert all(rule["id"] and rule["reason"] and rule["source"] for rule in rules)
    assert shell("policy", "gdpr", "sox") == 0
    assert shell.json("policy", "gdpr", "--store", store) == []
    with og.open(store) as made:
        address = made.put(lamp("at home", 4, user_id="u1"))
    code = shell("policy", "gdpr", "--store", store, "--json")
    broken = json.loads(shell.out)
    assert code != 0
    assert [item["content_address"] for item in broken] == [address]
    assert broken[0]["rule"].startswith("gdpr.")
    assert shell("policy", "gdpr", "--store", store) == code
    assert shell.error("policy", "no-such")[0] == exit_code("ERR_SCHEMA")


def test_compact_backup_and_restore(shell: Shell, store: Path, tmp_path: Path) -> None:
    with og.open(store) as made:
        for grain in made.put_many(lamp("x" * 500, n) for n in range(500)).addresses:
            made.delete(str(grain))
    report = shell.json("compact", store)
    assert report["after"] < report["before"]
    assert shell("backup", store, tmp_path / "copy.omsg") == 0
    assert shell.json("restore", tmp_path / "copy.omsg", tmp_path / "again.omsg")["restored"]
    with og.open(tmp_path / "again.omsg", readonly=True) as again:
        assert [grain.address for grain in again] == [OLD]
        assert list(again.audit.entries())[-1].operation == "restore"
        assert again.maintenance.check().ok
    status = shell.error("restore", tmp_path / "copy.omsg", tmp_path / "again.omsg")[0]
    assert status == exit_code("ERR_STORE")


@pytest.mark.parametrize(
    "command",
    [
        ("supersede", OLD, "-"),
        ("mark", OLD, "verified"),
        ("delete", OLD),
        ("hold", OLD, "--authority", "a", "--reason", "b"),
        ("compact",),
        ("search", "lamp"),
        ("export", "x.mg"),
    ],
)
def test_no_command_makes_a_store_by_mistake(
    shell: Shell, tmp_path: Path, command: tuple[str, ...]
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    name, *rest = command
    rest = [str(tmp_path / item) if item.endswith(".mg") else item for item in rest]
    code = shell(name, empty, *rest, stdin=fields("x"))
    assert code == exit_code("ERR_STORE")
    assert list(empty.iterdir()) == []
