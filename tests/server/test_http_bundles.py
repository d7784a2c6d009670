# SPDX-License-Identifier: Apache-2.0
"""Bundles over HTTP: in, out, the same again, signed, erased."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cbor2
import pytest

import omsgrain as og
from omsgrain.crypto import signers
from omsgrain.crypto import trust as trusted
from omsgrain.crypto.signers import SIGNERS, KeySigner
from omsgrain.formats.aimem import signature
from omsgrain.formats.aimem.document import validate
from omsgrain.memory.removal import erase_tenant
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
    site,
)

ED25519 = SIGNERS["ed25519"]


@pytest.mark.parametrize(
    "media",
    [BUNDLE, f'{BUNDLE}; version="1"', "application/json", f"{BUNDLE};version=1;charset=utf-8"],
)
def test_in_and_out(served: Site, media: str) -> None:
    token = served.token()
    given = [chunk(1), chunk(2, is_pinned=True, extra=[1.0, None])]
    told = imported(served, token, bundle(*given), **{"content-type": media})
    assert (told["chunks_inserted"], told["chunks_updated"], told["conflicts"]) == (2, 0, [])
    answer = served.ask("GET", EXPORT, token, headers={"accept-encoding": "identity"})
    assert answer.headers["content-type"] == BUNDLE
    assert int(answer.headers["content-length"]) == len(answer.content)
    assert not validate(answer.content).total
    assert sorted(chunks(answer), key=lambda c: c["id"]) == given
    assert answer.json()["tenant_id"] == ADA


def test_the_second_time_nothing_happens(served: Site) -> None:
    token = served.token()
    imported(served, token, bundle(chunk(1), chunk(2)))
    exported = served.ask("GET", EXPORT, token).content
    told = imported(served, token, exported)
    assert (told["chunks_inserted"], told["chunks_skipped_idempotent"]) == (0, 2)


def test_a_conflict_fails_nothing_else(served: Site) -> None:
    token = served.token()
    imported(served, token, bundle(chunk(1)))
    told = imported(served, token, bundle(chunk(1, "other"), chunk(2)))
    assert told["chunks_rejected_conflict"] == ["urn:aimem:lab:c1"]
    assert told["conflicts"][0]["reason"] == "created_at_conflict"
    assert told["chunks_inserted"] == 1


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("media", [BUNDLE, LINES])
def test_a_byte_order_mark_is_skipped(served: Site, media: str, packed: bool) -> None:
    body = bundle(chunk(1))
    body = b"\xef\xbb\xbf" + (by_lines(body) if media == LINES else body)
    headers = {"content-type": media}
    if packed:
        body, headers = gzip.compress(body), headers | {"content-encoding": "gzip"}
    assert imported(served, served.token(), body, **headers)["chunks_inserted"] == 1


@pytest.mark.parametrize("packed", [False, True])
def test_by_lines(served: Site, packed: bool) -> None:
    token = served.token()
    body = by_lines(bundle(*(chunk(n) for n in range(50))))
    headers = {"content-type": LINES}
    if packed:
        body, headers = gzip.compress(body), headers | {"content-encoding": "gzip"}
    assert imported(served, token, body, **headers)["chunks_inserted"] == 50
    answer = served.ask("GET", STREAM, token)
    assert answer.headers["content-type"] == LINES
    envelope, *lines = map(json.loads, answer.content.splitlines())
    assert [line["_kind"] for line in lines] == ["chunk"] * 50
    document = served.ask("GET", EXPORT, token).json()
    assert (
        document["checksum"] == envelope["checksum"]
        or document["exported_at"] != envelope["exported_at"]
    )
    told = imported(served, token, answer.content, **{"content-type": LINES})
    assert told["chunks_skipped_idempotent"] == 50


def test_documents_are_made_of_lines_with_all_kinds(served: Site) -> None:
    token = served.token()
    one = {
        "source_id": "urn:aimem:lab:c1",
        "target_id": "urn:aimem:lab:c1",
        "edge_type": "x-a",
        "weight": 1,
    }
    whole = json.loads(bundle(chunk(1, 'a \\u2028 " } ] _kind'), tenant_id=ADA))
    time = "2026-01-15T10:00:00Z"
    entity = {"id": "urn:aimem:lab:e1", "name": "lamp", "kind": "concept"}
    more = {
        "edges": [one | {"created_at": time}],
        "entities": [entity | {"created_at": time}],
        "chunk_entities": [{"chunk_id": "urn:aimem:lab:c1", "entity_id": "urn:aimem:lab:e1"}],
    }  # fmt: skip
    from omsgrain.formats.aimem.document import Bundle, write_bundle

    records = {
        "chunk": whole["chunks"],
        "edge": more["edges"],
        "entity": more["entities"],
        "chunk_entity": more["chunk_entities"],
    }
    envelope = {k: v for k, v in whole.items() if not isinstance(v, list)}
    imported(served, token, write_bundle(Bundle(envelope, records)))  # type: ignore[arg-type]
    answer = served.ask("GET", EXPORT, token)
    assert not validate(answer.content).total
    assert {name: answer.json()[name] for name in more} == more
    assert answer.json()["chunks"] == whole["chunks"]


def test_an_empty_memory_is_a_bundle(served: Site) -> None:
    token = served.token()
    answer = served.ask("GET", EXPORT, token)
    assert not validate(answer.content).total
    assert (chunks(answer), answer.json()["producer"]) == ([], "omsgrain")
    lines = served.ask("GET", STREAM, token).content.splitlines()
    assert len(lines) == 1


def test_scopes(served: Site) -> None:
    token = served.token()
    new = chunk(3, created_at="2026-03-01T00:00:00Z")
    imported(served, token, bundle(chunk(1), chunk(2, memory_type="preference"), new))
    ids = {c["id"][-2:] for c in chunks(served.ask("GET", EXPORT + "?scope=DNA_ONLY", token))}
    assert ids == {"c2"}
    path = EXPORT + "?scope=SINCE&since=2026-03-01T00:00:00Z"
    assert {c["id"][-2:] for c in chunks(served.ask("GET", path, token))} == {"c3"}


def test_tenants_are_kept_apart(served: Site) -> None:
    ada, grace = served.token(), served.token("grace", GRACE)
    imported(served, ada, bundle(chunk(1, "of Ada"), tenant_id=GRACE))  # whatever it says
    assert chunks(served.ask("GET", EXPORT, grace)) == []
    assert b"of Ada" not in served.ask("GET", STREAM, grace).content
    told = imported(served, grace, bundle(chunk(1, "of Grace")))
    assert (told["chunks_inserted"], told["conflicts"]) == (1, [])
    assert [c["content"] for c in chunks(served.ask("GET", EXPORT, ada))] == ["of Ada"]
    served.ask("DELETE", "/v1/brain", ada)
    assert [c["content"] for c in chunks(served.ask("GET", EXPORT, grace))] == ["of Grace"]


def test_erasing_a_tenant(served: Site) -> None:
    token = served.token()
    imported(served, token, bundle(chunk(1), chunk(2)))
    answer = served.ask("DELETE", "/v1/brain", token)
    assert (answer.status_code, answer.json()["complete"]) == (200, True)
    assert answer.json()["tokens"] == 1
    assert answer.json()["erased"] >= 2
    assert chunks(served.ask("GET", EXPORT, token)) == []
    told = imported(served, token, bundle(chunk(1)))
    assert [c["reason"] for c in told["conflicts"]] == ["erased"]
    assert served.ask("DELETE", "/v1/brain", token).status_code == 200


def erased_elsewhere(served: Site) -> None:
    """Erase the tenant as another process would, without the server."""
    store = served.service.stores.of("another")
    erase_tenant(store, ADA, reason_code="tenant_request", scrub="queued")


@pytest.mark.parametrize("path", [EXPORT, STREAM])
def test_an_export_that_runs_while_the_tenant_is_erased_is_cut_short(
    served: Site, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = served.token()
    imported(served, token, bundle(chunk(1)))
    real = served.service.quick

    async def erasing(function: Callable[[], Any]) -> Any:
        piece = await real(function)
        if getattr(getattr(function, "func", None), "__name__", "") == "read":  # about to go out
            erased_elsewhere(served)
        return piece

    monkeypatch.setattr(served.service, "quick", erasing)
    with pytest.raises(AssertionError):  # of the transport: the answer never ended
        served.ask("GET", path, token)
    assert "aborted" in str(served.lines()[-1]["status"])
    assert served.lines()[-1]["bytes"] == 0


def test_embeddings_leave_only_when_asked_for(served: Site) -> None:
    token = served.token()
    vector = {"embedding": "AACAPwAAAEA="}
    imported(served, token, bundle(chunk(1, **vector), embedding_dim=2, embedding_model="m"))
    assert "embedding" not in served.ask("GET", EXPORT, token).text
    asked = served.ask("GET", EXPORT + "?include_embeddings=true&embedding_model=m", token)
    assert asked.json()["chunks"][0]["embedding"] == vector["embedding"]
    assert asked.json()["embedding_dim"] == 2


def test_head_and_options(served: Site) -> None:
    token = served.token()
    for path in (EXPORT, STREAM, "/v1/grains"):
        answer = served.ask("HEAD", path, token)
        assert (answer.status_code, answer.content) == (200, b"")
        answer = served.ask("OPTIONS", path)
        assert answer.status_code == 204
        assert {"GET", "HEAD", "OPTIONS"} <= set(answer.headers["allow"].split(", "))


# -- signatures ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["ed25519", "p256"])
def test_exports_are_signed(tmp_path: Path, kind: str) -> None:
    signer = SIGNERS[kind].generate()  # type: ignore[index]
    with site(tmp_path / "m.omsg", ServerOptions(signer=signer)) as served:
        token = served.token()
        imported(served, token, bundle(chunk(1)))
        shown = served.ask("GET", "/.well-known/aimem-pubkey")
        assert shown.headers["content-type"] == "application/cose-key"
        assert cbor2.loads(shown.content)[1] in (1, 2)
        trust = trusted.Trust(tuple(signers.loads_public(shown.content)))
        answer = served.ask("GET", EXPORT, token)
        made = signature.from_header(answer.headers["aimem-signature"])
        text = signature.canonical(answer.content)
        proof = trusted.check(made, text, trust, required=True)
        assert proof is not None
        assert proof.signer == signer.did
        lines = served.ask("GET", STREAM, token)
        import io

        text = signature.canonical_of_lines(io.BytesIO(lines.content))
        made = signature.from_header(lines.headers["aimem-signature"])
        assert trusted.check(made, text, trust, required=True) is not None


def test_what_is_too_large_to_sign_says_so(tmp_path: Path) -> None:
    options = ServerOptions(signer=ED25519.generate(), signed=2_000)
    with site(tmp_path / "m.omsg", options) as served:
        token = served.token()
        imported(served, token, bundle(*(chunk(n) for n in range(600))))
        for path in (EXPORT, STREAM):
            answer = served.ask("GET", path, token)
            assert answer.headers["aimem-signature-omitted"] == "too-large"
            assert "aimem-signature" not in answer.headers
            assert len(answer.content) > 100_000


def signed(body: bytes, signer: Any) -> str:
    return signature.to_header(signature.sign_bundle(signature.canonical(body), signer))


@pytest.mark.parametrize("lines", [False, True])
def test_signatures_of_imports(tmp_path: Path, lines: bool) -> None:
    ours, other = ED25519.generate(), ED25519.generate()
    trust = trusted.Trust(tuple(signers.loads_public(ours.did.encode())))
    body, second = bundle(chunk(1)), bundle(chunk(2))
    send = by_lines if lines else bytes
    media = LINES if lines else BUNDLE
    with site(tmp_path / "m.omsg", ServerOptions(trust=trust, require_signature=True)) as served:
        token = served.token()

        def refused(data: bytes, value: str | None) -> tuple[int, str]:
            headers = {"content-type": media} | (
                {} if value is None else {"aimem-signature": value}
            )
            answer = served.ask("POST", IMPORT, token, content=send(data), headers=headers)
            return answer.status_code, answer.json().get("rule", "")

        assert refused(body, None) == (422, "signature_missing")
        assert refused(body, signed(second, ours)) == (422, "signature_invalid")
        assert refused(body, "!!") == (422, "signature_invalid")
        assert refused(body, signed(body, other)) == (422, "signature_untrusted")
        assert len(served.service.stores.main) == 0
        assert refused(body, signed(body, ours)) == (200, "")
    assert noted(served.path) == ["verified"]


@pytest.mark.parametrize("given", ["missing", "skipped"])
def test_unchecked_signatures_are_audited(served: Site, given: str) -> None:
    token, body = served.token(), bundle(chunk(1))
    headers = {} if given == "missing" else {"aimem-signature": signed(body, ED25519.generate())}
    imported(served, token, body, **headers)
    assert noted(served.path) == [given]


@pytest.mark.parametrize("lines", [False, True])
def test_a_signature_that_is_none_or_false_is_refused_by_every_server(
    tmp_path: Path, lines: bool
) -> None:
    """Also by a server without trusted keys: a did:key proves that the bytes differ."""
    body, send = bundle(chunk(1)), by_lines if lines else bytes
    other = signature.sign_bundle(signature.canonical(bundle(chunk(2))), ED25519.generate())
    forged = bytearray(signature.sign_bundle(signature.canonical(body), ED25519.generate()))
    forged[-1] ^= 1
    with site(tmp_path / "m.omsg") as served:
        token = served.token()
        for value in ("garbage", "!!", "", *map(signature.to_header, (other, bytes(forged), b""))):
            headers = {"content-type": LINES if lines else BUNDLE, "aimem-signature": value}
            answer = served.ask("POST", IMPORT, token, content=send(body), headers=headers)
            assert (answer.status_code, answer.json()["rule"]) == (422, "signature_invalid"), value
        assert len(served.service.stores.main) == 0


@pytest.mark.parametrize("made", SIGNERS.values(), ids=SIGNERS)
@pytest.mark.parametrize("lines", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_a_signature_is_looked_at_however_large_the_bundle_is(
    tmp_path: Path, made: type[KeySigner], lines: bool, known: bool
) -> None:
    """A server that signs none so large checks it, in pieces."""
    signer = made.generate()
    body, send = bundle(*(chunk(n) for n in range(2_000))), by_lines if lines else bytes
    other = bundle(*(chunk(n) for n in range(1_999)))
    good = signed(body, signer)
    bent = bytearray(signature.from_header(good))
    bent[-1] ^= 1
    trust = trusted.Trust(tuple(signers.loads_public(signer.did.encode()))) if known else None
    with site(tmp_path / "m.omsg", ServerOptions(signed=1_000, trust=trust)) as served:
        token = served.token()
        for value in ("garbage", signed(other, signer), signature.to_header(bytes(bent))):
            headers = {"content-type": LINES if lines else BUNDLE, "aimem-signature": value}
            answer = served.ask("POST", IMPORT, token, content=send(body), headers=headers)
            assert (answer.status_code, answer.json()["rule"]) == (422, "signature_invalid")
        assert len(served.service.stores.main) == 0
        headers["aimem-signature"] = good
        answer = served.ask("POST", IMPORT, token, content=send(body), headers=headers)
        assert answer.status_code == 200
    assert noted(served.path) == ["verified" if known else "skipped"]


def noted(path: Path) -> list[object]:
    with og.open(path, readonly=True) as store:
        entries = [e for e in store.audit.entries() if "signature" in e.details]
    assert all(e.actor == "token:ada" for e in entries)
    return [e.details["signature"] for e in entries]


def test_many_at_once(served: Site) -> None:
    tokens = {t: served.token(t[0], t) for t in (ADA, GRACE)}

    async def one(n: int) -> None:
        tenant = (ADA, GRACE)[n % 2]
        headers = TYPED | {"authorization": f"Bearer {tokens[tenant]}"}
        body = bundle(chunk(n, f"{tenant} {n}"))
        answer = await served.client.post(IMPORT, content=body, headers=headers)
        assert answer.json()["chunks_inserted"] == 1
        answer = await served.client.get(EXPORT, headers=headers)
        assert all(c["content"].startswith(tenant) for c in answer.json()["chunks"])

    async def all_of_them() -> None:
        await asyncio.gather(*(one(n) for n in range(60)))

    served.loop.run_until_complete(all_of_them())
    assert len(served.service.stores.main) == 60


def test_an_export_that_was_overtaken_by_an_erasure_is_refused(
    served: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = served.token()
    imported(served, token, bundle(chunk(1)))
    real = served.service.step

    async def erasing(*given: Any) -> Any:
        made = await real(*given)
        erased_elsewhere(served)
        return made

    monkeypatch.setattr(served.service, "step", erasing)
    for path in (EXPORT, STREAM):
        answer = served.ask("GET", path, token)
        assert (answer.status_code, answer.json()["rule"]) == (409, "erased")
    assert served.service.work._free == served.service.options.at_work
