# SPDX-License-Identifier: Apache-2.0
"""Exports over HTTP: of several producers, under a policy, to clients that leave."""

from __future__ import annotations

import base64
import json
import math
import random
import struct
from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

import omsgrain as og
from omsgrain.formats.aimem.document import validate
from omsgrain.interchange.aimem_export import export_bundle
from omsgrain.interchange.export import AimemExportReport
from omsgrain.interchange.mif_import import import_document
from omsgrain.server import export
from omsgrain.server.service import ServerOptions
from support.http_server import (
    ADA,
    BUNDLE,
    EXPORT,
    GRACE,
    IMPORT,
    LINES,
    STREAM,
    TYPED,
    Site,
    bundle,
    by_lines,
    chunk,
    chunks,
    imported,
    lamp,
    site,
)


def test_identifiers_of_several_producers_are_exported_together(served: Site) -> None:
    token = served.token()
    imported(served, token, bundle(chunk(1)))
    imported(served, token, bundle(chunk(1, producer="shop"), producer="shop"))
    assert served.ask("GET", EXPORT + "?producer=lab", token).json()["producer"] == "lab"
    served.ask("POST", "/v1/grains", token, json=lamp())
    answer = served.ask("GET", EXPORT, token)
    assert answer.headers["aimem-producers"] == "lab, omsgrain, shop"
    assert answer.json()["producer"] == "omsgrain"
    verdict = validate(answer.content)
    assert not verdict.total
    assert {one.rule for one in verdict.warnings} == {"foreign_producer"}
    named = sorted(one["id"].split(":")[2] for one in chunks(answer))
    assert named == ["lab", "omsgrain", "shop"]
    lines = served.ask("GET", STREAM, token).content
    assert len(lines.splitlines()) == 4
    for body, media in ((answer.content, BUNDLE), (lines, LINES)):
        told = imported(served, token, body, **{"content-type": media})
        assert (told["chunks_skipped_idempotent"], told["chunks_inserted"]) == (3, 0)
    for name in ("lab", "shop"):
        for path in (EXPORT, STREAM):
            answer = served.ask("GET", f"{path}?producer={name}", token)
            assert answer.headers["aimem-producers"] == name
            assert f"urn:aimem:{name}:c1" in answer.text
            assert json.loads(answer.content.splitlines()[0])["producer"] == name


def test_a_header_counts_what_the_store_keeps_back(served: Site) -> None:
    token = served.token()
    imported(served, token, bundle(chunk(1), chunk(2)))
    assert "aimem-withheld" not in served.ask("GET", EXPORT, token).headers
    with og.open(served.path) as store:
        first = next(one for one in store if one.type != "state")
        store.privacy.restrict(first.address, reason_code="dispute")
    for path in (EXPORT, STREAM):
        answer = served.ask("GET", path, token)
        assert answer.headers["aimem-withheld"] == "1, restricted"
    assert len(chunks(served.ask("GET", EXPORT, token))) == 1


def test_headers_count_what_is_lost_and_what_is_made_up(served: Site) -> None:
    token = served.token()
    imported(served, token, bundle(chunk(1)))
    for path in (EXPORT, STREAM):
        headers = served.ask("GET", path, token).headers
        assert not {"aimem-lost", "aimem-added"} & {*headers}
    with og.open(served.path) as store:
        memories = [
            {"id": str(UUID(int=n)), "content": f"fact {n}", "created_at": "2026-01-15T10:00:00Z"}
            for n in range(1, 4)
        ]
        document = {"mif_version": "2.0", "memories": memories}
        import_document(store, json.dumps(document).encode(), user_id=ADA)
        store.put({"type": "event", "content": "x" * 600_000, "created_at": 5, "user_id": ADA})
        report = AimemExportReport()
        export_bundle(store, ADA, together=True, report=report)
    assert (report.lost, len(report.added)) == (1, 3)
    for path in (EXPORT, STREAM):
        headers = served.ask("GET", path, token).headers
        assert headers["aimem-lost"] == "1, content"
        assert headers["aimem-added"] == "3, memory_type"


def test_a_header_shows_no_name_that_could_end_it() -> None:
    fields = Counter({"a b": 9, "x\r\nSet-Cookie: a": 2, "scope": 3, "y" * 65: 1})
    assert export._counts("aimem-lost", fields) == {"aimem-lost": "3, scope; 12, other"}
    many = Counter({f"f{n}": 1 for n in range(1_000)})
    header = export._counts("aimem-lost", many)["aimem-lost"]
    assert header.count(";") == 20 and header.endswith("; 980, other")
    assert export._counts("aimem-lost", Counter()) == {}


def test_one_producer_keeps_its_bundle(served: Site) -> None:
    token = served.token()
    imported(served, token, bundle(chunk(1)))
    answer = served.ask("GET", EXPORT, token)
    assert answer.json()["producer"] == answer.headers["aimem-producers"] == "lab"
    assert not validate(answer.content).warnings


@pytest.mark.parametrize("purpose", ["transfer", "access"])
def test_a_policy_says_what_leaves(tmp_path: Path, purpose: Any) -> None:
    with site(tmp_path / "m.omsg") as served:
        token = served.token()
        imported(served, token, bundle(chunk(1)))
    with site(tmp_path / "m.omsg", ServerOptions(purpose=purpose), policy="gdpr") as served:
        told = imported(served, token, bundle(chunk(2)))  # without a basis, so it stays out
        assert [one["reason"] for one in told["conflicts"]] == ["refused"]
        for path in (EXPORT, STREAM):
            answer = served.ask("GET", path, token)
            if purpose == "access":
                assert answer.status_code == 200 and "note 1" in answer.text
            else:
                assert (answer.status_code, answer.json()["rule"]) == (409, "refused_by_policy")
                assert "transfer-basis" in answer.json()["detail"]
                assert ADA not in answer.text


def test_embeddings_of_several_models(served: Site) -> None:
    token = served.token()
    for n, model in enumerate("ab"):
        vector = {"embedding": "AACAPwAAAEA="}
        body = bundle(chunk(n, **vector), embedding_dim=2, embedding_model=model)
        imported(served, token, body)
    answer = served.ask("GET", EXPORT + "?include_embeddings=true", token)
    assert (answer.status_code, answer.json()["rule"]) == (422, "invalid_parameter")
    for model in "ab":
        path = f"{EXPORT}?include_embeddings=true&embedding_model={model}"
        found = [c.get("embedding") for c in chunks(served.ask("GET", path, token))]
        assert sorted(one is None for one in found) == [False, True]


def test_a_tenant_does_not_fix_the_dimension_of_a_model(served: Site) -> None:
    """A vector of one value under a well-known name made all others' vectors vanish."""
    name, longer = "text-embedding-3-small", "AACAPwAAAEA="
    given = {"embedding": "AACAPw=="}
    early = bundle(chunk(1, **given), embedding_dim=1, embedding_model=name)
    imported(served, served.token("eve", GRACE), early)
    token = served.token()
    late = bundle(chunk(1, embedding=longer), embedding_dim=2, embedding_model=name)
    assert imported(served, token, late)["warnings"] == []
    answer = served.ask("GET", EXPORT + "?include_embeddings=true", token)
    assert [one["embedding"] for one in chunks(answer)] == [longer]
    assert answer.json()["embedding_dim"] == 2


def test_a_client_that_leaves_ends_the_work_before_the_first_byte(
    served: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading all for the checksum takes most of the time of an export."""
    token = served.token()
    imported(served, token, bundle(*(chunk(n) for n in range(300))))
    flags: list[Any] = []
    real = export.lines_of

    def leaving(*given: Any) -> Any:
        flags.append(given[-1])
        given[-1].set()
        return real(*given)

    monkeypatch.setattr(export, "lines_of", leaving)
    for path in (EXPORT, STREAM):
        with pytest.raises(AssertionError):  # of the transport: there was no answer
            served.ask("GET", path, token)
    assert len(flags) == 2
    with og.open(served.path, readonly=True) as store:
        assert not [e for e in store.audit.entries() if e.operation == "export"]


def packed_floats(*values: float) -> str:
    return base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode()


def test_the_length_of_embeddings_may_be_said(served: Site) -> None:
    token = served.token()
    body = bundle(chunk(1, embedding=packed_floats(1, 2)), embedding_dim=2, embedding_model="m")
    imported(served, token, body)
    for path in (EXPORT, STREAM):
        asked = f"{path}?include_embeddings=true&embedding_model=m&embedding_dim="
        assert served.ask("GET", asked + "2", token).status_code == 200
        answer = served.ask("GET", asked + "3", token)
        assert (answer.status_code, answer.json()["rule"]) == (422, "invalid_parameter")
        assert served.ask("GET", path + "?embedding_dim=3", token).status_code == 200


def test_a_time_that_no_scope_asks_for_is_passed_over(served: Site) -> None:
    token = served.token()
    imported(served, token, bundle(chunk(1)))
    for scope in ("FULL", "DNA_ONLY"):
        path = f"{EXPORT}?scope={scope}&since=2030-01-01T00:00:00Z"
        answer = served.ask("GET", path, token)
        assert (answer.status_code, answer.headers["aimem-ignored"]) == (200, "since")
        assert len(answer.json()["chunks"]) == (scope == "FULL")
        assert "since" not in answer.json()
    asked = "?scope=SINCE&since=2030-01-01T00:00:00Z"
    assert "aimem-ignored" not in served.ask("GET", EXPORT + asked, token).headers


@pytest.mark.parametrize("path", [EXPORT, STREAM])
def test_exports_are_packed_on_request(served: Site, path: str) -> None:
    token = served.token()
    imported(served, token, bundle(*(chunk(n, "x" * 500 + str(n)) for n in range(50))))
    plain, *others = (
        served.ask("GET", path, token, headers={"accept-encoding": asked})
        for asked in ("identity", "gzip;q=0", "br, gzip", "*")
    )
    assert "content-encoding" not in plain.headers
    assert plain.headers["vary"] == "accept-encoding"
    for answer, packed in zip(others, (False, True, True), strict=True):
        assert (answer.headers.get("content-encoding") == "gzip") == packed
    (first, second) = (answer.text.splitlines() for answer in (plain, others[1]))
    assert len(first) == len(second)
    assert (first[-1][-200:], first[1:]) == (second[-1][-200:], second[1:])


@pytest.mark.parametrize("path", [EXPORT, STREAM])
@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_complete_answers_have_a_digest(served: Site, path: str, encoding: str) -> None:
    """The hash and the length are those of the bytes on the wire, packed ones too."""
    token = served.token()
    imported(served, token, bundle(chunk(1)))
    headers, sent = served.wire(path, token, encoding)
    assert headers.get("content-encoding", "identity") == encoding
    assert headers["content-digest"] == f"sha-256=:{b64(sha256(sent).digest())}:"
    assert int(headers["content-length"]) == len(sent)


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_only_lines_that_are_sent_as_they_are_made_bear_none(served: Site, encoding: str) -> None:
    token = served.token()
    texts = (random.Random(n).randbytes(4_000).hex() for n in range(50))
    imported(served, token, bundle(*(chunk(n, text) for n, text in enumerate(texts))))
    headers, sent = served.wire(STREAM, token, encoding)
    assert headers.get("content-encoding", "identity") == encoding
    assert not {"content-length", "content-digest"} & headers.keys()
    headers, sent = served.wire(EXPORT, token, encoding)
    assert headers["content-digest"] == f"sha-256=:{b64(sha256(sent).digest())}:"
    assert int(headers["content-length"]) == len(sent)


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_a_document_that_would_be_refused_says_so(tmp_path: Path) -> None:
    with site(tmp_path / "m.omsg", ServerOptions(document=2_000)) as served:
        token = served.token()
        lines = by_lines(bundle(*(chunk(n, "x" * 300) for n in range(10))))
        given = {"content-type": LINES}
        assert served.ask("POST", IMPORT, token, content=lines, headers=given).status_code == 200
        answer = served.ask("GET", EXPORT, token)
        assert answer.headers["aimem-document-limit"] == "2000"
        again = served.ask("POST", IMPORT, token, content=answer.content, headers=TYPED)
        assert again.status_code == 413
        assert LINES in again.json()["detail"]
        assert again.json()["type"].startswith("https://github.com/omsgrain/")
        assert "aimem-document-limit" not in served.ask("GET", STREAM, token).headers


@pytest.mark.parametrize("values", [(0.0, 0.0), (0.0, -0.0)])
def test_embeddings_of_zeros_have_their_own_words(
    served: Site, values: tuple[float, float]
) -> None:
    token, zeros = served.token(), packed_floats(*values)
    body = bundle(chunk(1, embedding=zeros), embedding_dim=2, embedding_model="m")
    told = imported(served, token, body)
    assert [one["rule"] for one in told["warnings"]] == ["zero_embedding"]
    endless = packed_floats(1.0, math.nan)
    body = bundle(chunk(2, embedding=endless), embedding_dim=2, embedding_model="m")
    answer = served.ask("POST", IMPORT, token, content=body, headers=TYPED)
    (problem,) = answer.json()["problems"]
    assert (problem["rule"], problem["found"]) == ("embedding_invalid", "NaN or infinity")
    tiny = packed_floats(1.1754943508222875e-38, 0.0)
    body = bundle(chunk(3, embedding=tiny), embedding_dim=2, embedding_model="m")
    assert imported(served, token, body)["warnings"] == []
