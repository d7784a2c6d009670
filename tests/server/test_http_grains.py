# SPDX-License-Identifier: Apache-2.0
"""Grains over HTTP: put, found, deleted; and no byte of another tenant."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from time import time_ns
from typing import Any

import pytest

import omsgrain as og
import oracle
from omsgrain import registry
from omsgrain.crypto.keyring import KeyRing
from omsgrain.crypto.seal import seal
from omsgrain.server import grains as finding
from support.http_server import (
    ADA,
    BLOB,
    GRACE,
    IMPORT,
    LINES,
    TYPED,
    Site,
    bundle,
    chunk,
    lamp,
    site,
)
from support.mif_imports import MAKERS


@pytest.fixture(params=["plain", "sealed"])
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    if request.param == "plain":
        with site(tmp_path / "m.omsg") as found:
            yield found
        return
    with KeyRing.create(tmp_path / "k.omsk", master=bytes(range(32))) as ring:
        with site(tmp_path / "m.omsg", ring=ring) as found:
            yield found


def put(served: Site, token: str, *grains: dict[str, object]) -> list[str]:
    answer = served.ask("POST", "/v1/grains", token, json=list(grains))
    assert answer.status_code == 200, answer.text
    found: list[str] = answer.json()["addresses"]
    return found


def test_a_grain_goes_in_and_comes_out(served: Site) -> None:
    token = served.token()
    (address,) = put(served, token, lamp())
    answer = served.ask("GET", f"/v1/grains/{address}", token)
    assert answer.json()["grain"] == lamp() | {"user_id": ADA}
    blob = served.ask("GET", f"/v1/grains/{address}", token, headers={"accept": BLOB})
    assert og.decode(blob.content).to_dict() == lamp() | {"user_id": ADA}
    assert blob.headers["content-type"] == BLOB
    again = served.ask("POST", "/v1/grains", token, json=lamp())
    assert again.json() == {"addresses": [address], "stored": 0, "duplicates": 1}


def test_a_server_without_keys_stores_no_user_in_the_clear(tmp_path: Path) -> None:
    path = tmp_path / "m.omsg"
    with KeyRing.create(tmp_path / "k.omsk", master=bytes(range(32))) as ring:
        with og.open(path, keys=ring) as store:
            store.put(lamp(user_id=ADA))
    with site(path) as served:
        token = served.token()
        for path_of, given in (
            ("/v1/grains", {"json": [lamp("dim")]}),
            (IMPORT, {"content": bundle(chunk(1)), "headers": TYPED}),
        ):
            answer = served.ask("POST", path_of, token, **given)
            assert (answer.status_code, answer.json()["code"]) == (503, "ERR_KEY")
        with og.open(path, readonly=True) as store:
            assert len(store) == 1


def test_bookkeeping_is_found_when_asked_for(served: Site) -> None:
    """The lists and parts of a document are the tenant's grains; no answer has them by itself."""
    token, maker = served.token(), MAKERS[0]
    maker.take(served.service.stores.main, maker.memory(1, "the lamp"), user_id=ADA)

    def found(query: str = "") -> dict[str, Any]:
        answer = served.ask("GET", f"/v1/grains?limit=100&{query}", token)
        assert answer.status_code == 200, answer.text
        return {one["content_address"]: one["grain"] for one in answer.json()["results"]}

    memory, every = found(), found("bookkeeping=true")
    assert [grain["object"] for grain in memory.values()] == ["the lamp"]
    assert found("bookkeeping=false") == found("type=observation") == memory
    assert found("type=state") == {}
    states = found("type=state&bookkeeping=true")
    assert states and {grain["type"] for grain in states.values()} == {"state"}
    assert every == memory | states
    answer = served.ask("GET", "/v1/grains?bookkeeping=yes", token)
    assert (answer.status_code, answer.json()["rule"]) == (422, "invalid_parameter")


def test_lines_and_a_blob(served: Site) -> None:
    token = served.token()
    lines = b"".join(json.dumps(lamp(str(n))).encode() + b"\n" for n in range(3))
    headers = {"content-type": LINES}
    answer = served.ask("POST", "/v1/grains", token, content=lines, headers=headers)
    assert answer.json()["stored"] == 3
    blob = og.encode(lamp("dim", user_id=ADA))
    answer = served.ask("POST", "/v1/grains", token, content=blob, headers={"content-type": BLOB})
    assert answer.json()["stored"] == 1


def test_a_blob_of_another_engine(served: Site) -> None:
    """It is taken as a conforming grain, on demand, under the rules of every other blob."""
    token, headers = served.token(), {"content-type": BLOB}

    def foreign(**more: str) -> bytes:
        fields = {"c": 1.0, "ca": 1_768_471_200_000, "t": "fact", "s": "a", "r": "b", "o": "c"}
        packed = oracle.pack_msgpack({**fields, **more})
        return bytes([1, 32, 1, 0, 0]) + (1_768_471_200).to_bytes(4, "big") + packed

    user = next(field.short for field in registry.FIELDS if field.name == "user_id")
    blob = foreign(**{user: ADA})
    path = "/v1/grains?adapt=true"
    refused = served.ask("POST", "/v1/grains", token, content=blob, headers=headers)
    assert refused.status_code == 422
    answer = served.ask("POST", path, token, content=blob, headers=headers)
    (address,) = answer.json()["addresses"]
    kept = served.service.stores.main.get(address)
    assert kept.fields == og.Grain.adapt(blob).fields
    assert (kept["x_original"], kept["derived_from"]) == (blob, [og.address(blob)])
    for data, rule in (
        (foreign(**{user: GRACE}), "other_tenant"),
        (foreign(**{user: ADA, "df": "ab" * 32}), "unknown_reference"),
    ):
        answer = served.ask("POST", path, token, content=data, headers=headers)
        assert answer.json()["rule"] == rule
    whole = og.encode(lamp("dim", user_id=ADA))
    answer = served.ask("POST", path, token, content=whole, headers=headers)
    (address,) = answer.json()["addresses"]
    assert served.service.stores.main.get(address).fields == og.decode(whole).fields
    answer = served.ask("POST", path, token, json=lamp())
    assert (answer.status_code, answer.json()["rule"]) == (422, "invalid_parameter")


def test_all_of_a_list_or_nothing(served: Site) -> None:
    token = served.token()
    answer = served.ask(
        "POST", "/v1/grains", token, json=[lamp(), {"type": "belief"}, lamp("off")]
    )
    assert (answer.status_code, answer.json()["pointer"][:3]) == (422, "/1/")
    assert answer.json()["total"] == 1
    assert served.ask("GET", "/v1/grains", token).json()["results"] == []


@pytest.mark.parametrize("bad", [b"{", b'{"type": "belief"}'], ids=["no JSON", "no grain"])
def test_blank_lines_are_not_counted(served: Site, bad: bytes) -> None:
    headers = {"content-type": LINES}
    lines = b"\n" + json.dumps(lamp()).encode() + b"\n\n" + bad + b"\n"
    answer = served.ask("POST", "/v1/grains", served.token(), content=lines, headers=headers)
    assert (answer.status_code, answer.json()["pointer"][:2]) == (422, "/1")


def test_a_grain_of_somebody_else_is_not_taken(served: Site) -> None:
    token = served.token()
    for fields in (lamp(user_id=GRACE), lamp(user_id="")):
        answer = served.ask("POST", "/v1/grains", token, json=fields)
        assert answer.status_code in (403, 422)
        assert GRACE not in answer.text
    for user in ({"user_id": GRACE}, {}):
        blob = og.encode(lamp(**user))
        answer = served.ask(
            "POST", "/v1/grains", token, content=blob, headers={"content-type": BLOB}
        )
        assert (answer.status_code, answer.json()["rule"]) == (403, "other_tenant")
    assert served.ask("GET", "/v1/grains", token).json()["results"] == []


def test_a_sealed_blob_does_not_show_its_user(served: Site) -> None:
    """The refusal is final, without a hint to retry."""
    sealed = seal(og.encode(lamp() | {"user_id": ADA}), bytes(32), whole=True)
    answer = served.ask(
        "POST", "/v1/grains", served.token(), content=sealed, headers={"content-type": BLOB}
    )
    assert (answer.status_code, answer.json()["rule"]) == (422, "invalid_grain")
    assert "retry-after" not in answer.headers


def test_no_byte_of_another_tenant(served: Site) -> None:
    ada, grace = served.token(), served.token("grace", GRACE)
    (mine,) = put(served, ada, lamp("violet"))
    (hers,) = put(served, grace, lamp("green"))
    for method, path in (
        ("GET", f"/v1/grains/{mine}"),
        ("DELETE", f"/v1/grains/{mine}"),
    ):
        nothing = path.replace(mine, "0" * 64)
        theirs, none = served.ask(method, path, grace), served.ask(method, nothing, grace)
        assert theirs.status_code == none.status_code == 404
        assert theirs.content == none.content  # not even that it is there
    body = {"address": mine}
    assert served.ask("POST", "/v1/verify", grace, json=body).status_code == 404
    for path in ("/v1/grains", "/v1/search?text=violet", "/v1/changes", "/v1/grains?count=true"):
        answer = served.ask("GET", path, grace)
        assert answer.status_code == 200
        assert mine not in answer.text and "violet" not in answer.text and ADA not in answer.text
    assert [
        c["content_address"] for c in served.ask("GET", "/v1/changes", ada).json()["changes"]
    ] == [mine]
    assert served.ask("GET", f"/v1/grains/{hers}", grace).status_code == 200


@pytest.mark.parametrize("name", ["derived_from", "prior_consent"])
def test_references_to_grains_of_others_are_refused(served: Site, name: str) -> None:
    ada, grace = served.token(), served.token("grace", GRACE)
    (mine,) = put(served, ada, lamp())
    value = [mine] if name == "derived_from" else mine
    answers = [
        served.ask("POST", "/v1/grains", grace, json=lamp() | {name: v})
        for v in (value, ["0" * 64] if name == "derived_from" else "0" * 64)
    ]
    assert [a.json()["rule"] for a in answers] == ["unknown_reference"] * 2
    assert answers[0].content == answers[1].content
    assert (
        served.ask("POST", "/v1/grains", ada, json=lamp("off") | {name: value}).status_code == 200
    )


def test_pages(served: Site) -> None:
    token = served.token()
    put(served, token, *(lamp(str(n), created_at=1_768_471_200_000 + n) for n in range(5)))
    found, cursor = [], ""
    while cursor is not None:
        path = f"/v1/grains?subject=lamp&limit=2&order=oldest{cursor and '&cursor=' + cursor}"
        page = served.ask("GET", path, token).json()
        found += [hit["grain"]["object"] for hit in page["results"]]
        cursor = page["next_cursor"]
    assert found == ["0", "1", "2", "3", "4"]
    counted = served.ask("GET", "/v1/grains?relation=is&limit=1&count=true", token).json()
    assert counted["total"] == 5


def test_ages_in_queries(served: Site) -> None:
    token, now = served.token(), time_ns() // 1_000_000
    put(served, token, *(lamp(str(n)) | {"created_at": now - n * 3_600_000} for n in (0, 2, 4)))

    def found(query: str) -> list[str]:
        answer = served.ask("GET", f"/v1/grains?{query}", token)
        assert answer.status_code == 200, answer.text
        return [one["grain"]["object"] for one in answer.json()["results"]]

    assert found("created_after=1h") == found(f"created_after={now}") == ["0"]
    assert found("created_after=3h&created_before=@" + str(now // 1000 - 3600)) == ["2"]
    assert found("created_before=2026-01-15") == []
    first = served.ask("GET", "/v1/grains?created_after=1d&limit=2", token).json()
    assert found(f"created_after=1d&limit=2&cursor={first['next_cursor']}") == ["4"]
    for wrong in ("yesterday", "1768471200", "2026"):
        answer = served.ask("GET", f"/v1/grains?created_after={wrong}", token)
        assert answer.status_code == 422, answer.text


def test_a_page_of_large_grains_ends_before_they_fill_the_memory(
    served: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = served.token()
    put(served, token, *(lamp(str(n), created_at=1_768_471_200_000 + n) for n in range(7)))
    whole = served.ask("GET", "/v1/grains?limit=7&order=oldest", token).json()["results"]
    monkeypatch.setattr(finding, "_TOGETHER", 2)
    asked = "/v1/grains?limit=7&order=oldest&count=true"
    told = served.ask("GET", asked, token).json()
    assert told == {"results": whole, "total": 7, "next_cursor": None}
    size = len(og.encode(lamp("0", user_id=ADA)))
    monkeypatch.setattr(finding, "_BYTES", 3 * size)
    first = served.ask("GET", asked, token).json()
    assert (first["results"], first["total"]) == (whole[:4], 7)
    rest = served.ask("GET", f"{asked}&cursor={first['next_cursor']}", token).json()
    assert (rest["results"], rest["next_cursor"]) == (whole[4:], None)


def test_search(served: Site) -> None:
    token = served.token()
    put(served, token, lamp("violet light"), lamp("green light"))
    answer = served.ask("GET", "/v1/search?text=violet", token).json()
    assert [hit["grain"]["object"] for hit in answer["results"]] == ["violet light"]
    assert "score" not in answer["results"][0]
    assert answer["incomplete"] is None


@pytest.mark.parametrize("served", ["plain"], indirect=True)
def test_a_search_that_waits_for_no_index(served: Site) -> None:
    """It says that there may be more, and not how many grains all tenants have."""
    token = served.token()
    put(served, token, lamp("violet light"))
    answer = served.ask("GET", "/v1/search?text=violet&wait=false", token).json()
    assert (answer["results"], answer["incomplete"]) == ([], "behind")
    assert "behind" not in answer
    assert len(served.ask("GET", "/v1/search?text=violet", token).json()["results"]) == 1
    answer = served.ask("GET", "/v1/search?text=violet&wait=false", token).json()
    assert (len(answer["results"]), answer["incomplete"]) == (1, None)


def test_a_search_of_large_grains_ends_before_they_fill_the_memory(
    served: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = served.token()
    put(served, token, *(lamp(f"violet {n}") for n in range(5)))
    whole = served.ask("GET", "/v1/search?text=violet&limit=5", token).json()
    assert (len(whole["results"]), whole["incomplete"]) == (5, None)
    size = len(og.encode(lamp("violet 0", user_id=ADA)))
    monkeypatch.setattr(finding, "_TOGETHER", 1)
    monkeypatch.setattr(finding, "_BYTES", 2 * size + 1)
    answer = served.ask("GET", "/v1/search?text=violet&limit=5", token).json()
    assert answer["results"] == whole["results"][:3]
    assert answer["incomplete"] == "bytes"
    exact = served.ask("GET", "/v1/search?text=violet&limit=3", token).json()
    assert (exact["results"], exact["incomplete"]) == (whole["results"][:3], None)


def test_verify(served: Site) -> None:
    token = served.token()
    (address,) = put(served, token, lamp())
    answer = served.ask("POST", "/v1/verify", token, json={"address": address}).json()
    assert answer["ok"] is True
    blob = og.encode(lamp())
    headers = {"content-type": BLOB}
    answer = served.ask("POST", "/v1/verify", token, content=blob, headers=headers).json()
    assert answer == {"ok": True, "content_address": og.address(blob), "problems": []}
    answer = served.ask("POST", "/v1/verify", token, content=blob[:-1], headers=headers).json()
    assert (answer["ok"], answer["problems"][0]["code"]) == (False, "ERR_CORRUPT")


def test_changes_by_steps(served: Site) -> None:
    token = served.token()
    addresses = put(served, token, lamp("a"), lamp("b"))
    first = served.ask("GET", "/v1/changes", token).json()
    assert [(c["kind"], c["content_address"]) for c in first["changes"]] == [
        ("put", address) for address in addresses
    ]
    assert not first["more"]
    rest = served.ask("GET", f"/v1/changes?since={first['next']}", token).json()
    assert (rest["changes"], rest["next"]) == ([], first["next"])


def test_deleted_grains_are_gone(served: Site) -> None:
    token = served.token()
    (address,) = put(served, token, lamp())
    assert served.ask("DELETE", f"/v1/grains/{address}", token).json() == {"deleted": address}
    assert served.ask("GET", f"/v1/grains/{address}", token).status_code == 404
    with og.open(served.path, readonly=True) as store:
        entry = list(store.audit.entries())[-1]
    assert (entry.operation, entry.actor) == ("delete", "token:ada")
