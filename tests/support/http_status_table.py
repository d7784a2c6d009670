# SPDX-License-Identifier: Apache-2.0
"""The status table as data: what is asked of a server, and how it is refused."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from omsgrain import _core
from omsgrain.formats.aimem.document import checksum_of
from omsgrain.sync import protocol
from omsgrain.sync.peer import FRAME, ITEMS, START, Batch, GrainState, Hello, Position
from omsgrain.sync.protocol import MEDIA, Changes, Get, Reconcile
from support.http_server import BLOB, BUNDLE, GRACE, LINES, bundle, by_lines, chunk, lamp

LIMIT = 20_000
"""Bytes of a document that the server takes; of lines twice as many."""


@dataclass(frozen=True)
class Row:
    """One request, and how it is refused."""

    name: str
    method: str
    path: str
    status: int
    rule: str
    token: str | None = "all"
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


IMPORT, EXPORT = "/v1/brain/import", "/v1/brain/export"
TYPED = {"content-type": BUNDLE}


def changed(change: Callable[[dict[str, Any]], None]) -> bytes:
    """A valid bundle, with the checksum of its changed content."""
    whole = json.loads(bundle(chunk(1), chunk(2)))
    change(whole)
    whole.pop("checksum", None)
    text = json.dumps(whole).encode()
    return json.dumps(whole | {"checksum": checksum_of(text)}).encode()


def with_chunk(**more: Any) -> bytes:
    return changed(lambda whole: whole["chunks"][0].update(more))


def without(name: str) -> bytes:
    return changed(lambda whole: whole["chunks"][0].pop(name))


def with_envelope(**more: Any) -> bytes:
    return changed(lambda whole: whole.update(more))


def with_edge(**more: Any) -> bytes:
    edge = {
        "source_id": "urn:aimem:lab:c1", "target_id": "urn:aimem:lab:c2", "edge_type": "causal",
        "weight": 0.5, "created_at": "2026-01-15T10:00:00Z",
    }  # fmt: skip
    return with_envelope(edges=[edge | more])


def with_entity(**more: Any) -> bytes:
    entity = {
        "id": "urn:aimem:lab:e1", "name": "lamp", "kind": "concept",
        "created_at": "2026-01-15T10:00:00Z",
    }  # fmt: skip
    return with_envelope(entities=[entity | more])


def with_link(**more: Any) -> bytes:
    link = {"chunk_id": "urn:aimem:lab:c1", "entity_id": "urn:aimem:lab:e1"} | more
    entity = json.loads(with_entity())["entities"]
    return with_envelope(entities=entity, chunk_entities=[link])


def dropped(name: str) -> bytes:
    whole = json.loads(bundle(chunk(1)))
    del whole[name]
    return json.dumps(whole).encode()


def imported(name: str, body: bytes, rule: str, status: int = 422) -> Row:
    return Row(name, "POST", IMPORT, status, rule, body=body, headers=TYPED)


NOTHING = "/v1/grains/" + "0" * 64
MEDIA_JSON = "application/json"


def got(name: str, path: str, status: int, rule: str, token: str | None = "all") -> Row:
    return Row(name, "GET", path, status, rule, token)


def denied(name: str, authorization: str, rule: str) -> Row:
    headers = {"authorization": authorization}
    return Row(name, "GET", EXPORT, 401, rule, None, headers=headers)


def out_of_scope(name: str, method: str, path: str, scope: str) -> Row:
    return Row(name, method, path, 403, "missing_scope", scope, b"{}", TYPED)


def posted(
    name: str, path: str, status: int, rule: str, body: bytes, media: str, encoding: str = ""
) -> Row:
    headers = {"content-type": media} if media else {}
    if encoding:
        headers["content-encoding"] = encoding
    return Row(name, "POST", path, status, rule, body=body, headers=headers)


ACCESS = [
    got("no token", EXPORT, 401, "missing_token", None),
    denied("another scheme", "Basic abc", "malformed_token"),
    denied("an empty bearer", "Bearer ", "malformed_token"),
    got("no form of a token", EXPORT, 401, "invalid_token", "short"),
    got("an unknown token", EXPORT, 401, "invalid_token", "unknown"),
    out_of_scope("export without its scope", "GET", EXPORT, "import"),
    out_of_scope("a stream without its scope", "GET", EXPORT + "/stream", "import"),
    out_of_scope("import without its scope", "POST", IMPORT, "export"),
    out_of_scope("erasure without its scope", "DELETE", "/v1/brain", "import"),
    out_of_scope("deletion without its scope", "DELETE", NOTHING, "export"),
    out_of_scope("put without its scope", "POST", "/v1/grains", "export"),
    out_of_scope("query without its scope", "GET", "/v1/grains", "import"),
]

WRONG, UNTYPED = "invalid_parameter", "unsupported_media_type"
LARGE, PACKED = b" " * (LIMIT + 1), gzip.compress(bundle(chunk(1)))
PARAMETERS = [
    got("an unknown parameter", EXPORT + "?colour=red", 422, "unknown_parameter"),
    got("a parameter twice", EXPORT + "?scope=FULL&scope=FULL", 422, WRONG),
    got("no such scope", EXPORT + "?scope=SOME", 422, "invalid_scope"),
    got("since when", EXPORT + "?scope=SINCE", 422, "since_missing"),
    got("no time", EXPORT + "?scope=SINCE&since=yesterday", 422, "invalid_timestamp"),
    got("a stream of no time", EXPORT + "/stream?scope=SINCE&since=1", 422, "invalid_timestamp"),
    got("no boolean", EXPORT + "?include_embeddings=maybe", 422, WRONG),
    got("a model without embeddings", EXPORT + "?embedding_model=m", 422, WRONG),
    got("no producer", EXPORT + "?producer=Not+One", 422, "invalid_producer"),
    got("a page too large", "/v1/grains?limit=1001", 422, WRONG),
    got("no cursor", "/v1/grains?cursor=zz", 422, WRONG),
    got("no word", "/v1/grains?words=!", 422, WRONG),
    got("no word to search for", "/v1/search?text=!", 422, WRONG),
    got("no UTF-8", "/v1/grains?subject=%ff", 422, WRONG),
    got("another user asked for", f"/v1/grains?user_id={GRACE}", 422, "unknown_parameter"),
    got("nothing to search for", "/v1/search", 422, WRONG),
    got("a number below", "/v1/changes?since=-1", 422, WRONG),
]

REQUESTS = [
    got("no such path", "/v2/brain", 404, "not_found"),
    Row("no such method", "PUT", EXPORT, 405, "method_not_allowed"),
    Row(
        "a page in a browser",
        "POST",
        "/mcp",
        403,
        "other_origin",
        body=b"{}",
        headers={"content-type": "application/json", "origin": "https://page.example"},
    ),
    got("no such grain", NOTHING, 404, "not_found"),
    got("no address", "/v1/grains/zzz", 422, "invalid_grain"),
    got("no signer", "/.well-known/aimem-pubkey", 404, "not_found", None),
    posted("another media type", IMPORT, 415, UNTYPED, b"{}", "text/plain"),
    posted("no media type", IMPORT, 415, UNTYPED, b"{}", ""),
    posted("half a media type", IMPORT, 415, UNTYPED, b"{}", MEDIA_JSON + '; x="y'),
    posted("a long media type", IMPORT, 415, UNTYPED, b"{}", MEDIA_JSON + ";" * 60_000),
    posted("another charset", IMPORT, 415, UNTYPED, b"{}", MEDIA_JSON + "; charset=latin1"),
    posted("version 2", IMPORT, 415, "unsupported_media_version", b"{}", BUNDLE + '; version="2"'),
    posted("another encoding", IMPORT, 415, "unsupported_encoding", b"{}", BUNDLE, "br"),
    posted("no gzip", IMPORT, 422, "invalid_encoding", b"{}", BUNDLE, "gzip"),
    posted("gzip cut short", IMPORT, 422, "invalid_encoding", PACKED[:-12], BUNDLE, "gzip"),
    posted("more than gzip", IMPORT, 422, "invalid_encoding", PACKED + b"more", BUNDLE, "gzip"),
    posted("too large", IMPORT, 413, "body_too_large", LARGE, BUNDLE),
    posted("unpacked", IMPORT, 413, "body_too_large", gzip.compress(LARGE), BUNDLE, "gzip"),
    posted("lines too large", IMPORT, 413, "body_too_large", 2 * LARGE, LINES),
    posted("grains too large", "/v1/grains", 413, "body_too_large", LARGE, LINES),
    posted("no blob", "/v1/grains", 422, "invalid_grain", b"\x01", BLOB),
    posted("a grain that is none", "/v1/grains", 422, "invalid_grain", b"[1]", MEDIA_JSON),
    posted("a member twice", "/v1/grains", 422, "not_json", b'{"a":1,"a":2}', MEDIA_JSON),
    posted("nothing to verify", "/v1/verify", 422, "invalid_type", b"{}", MEDIA_JSON),
    posted(
        "another tenant's grain",
        "/v1/grains",
        403,
        "other_tenant",
        json.dumps(lamp(user_id=GRACE)).encode(),
        MEDIA_JSON,
    ),
]

CUT = by_lines(bundle(chunk(1), chunk(2))).rsplit(b"\n", 2)[0] + b"\n"
SUMMED = bundle(chunk(1)).replace(b'"sha256:', b'"md5:', 1)
BUNDLES = [
    imported("no JSON", b"{", "not_json"),
    imported("nothing", b"", "not_json"),
    imported("no object", b"[]", "not_object"),
    imported("a member twice", b'{"format":1,"format":2}', "not_json"),
    imported("a lone surrogate", bundle(chunk(1)).replace(b"note 1", b"\\ud800"), "not_json"),
    imported("no format", dropped("format"), "bad_format"),
    imported("another format", with_envelope(format="mif"), "bad_format"),
    imported("version as a number", with_envelope(version=1), "unsupported_version"),
    imported("version 1.1", with_envelope(version="1.1"), "unsupported_version"),
    imported("version 2", with_envelope(version="2"), "unsupported_version"),
    imported("no producer", dropped("producer"), "missing_field"),
    imported("no tenant", dropped("tenant_id"), "missing_field"),
    imported("no time of export", dropped("exported_at"), "missing_field"),
    imported("no scope", dropped("scope"), "missing_field"),
    imported("producer", with_envelope(producer="Lab"), "invalid_producer"),
    imported("producer with a line end", with_envelope(producer="lab\n"), "invalid_producer"),
    imported("tenant", with_envelope(tenant_id="me"), "invalid_tenant"),
    imported("scope", with_envelope(scope="SOME"), "invalid_scope"),
    imported("since when", with_envelope(scope="SINCE"), "since_missing"),
    imported("time of export", with_envelope(exported_at="today"), "invalid_timestamp"),
    imported("arrays that are null", with_envelope(chunks=None), "invalid_type"),
    imported("no checksum", dropped("checksum"), "missing_checksum"),
    imported("no form of a checksum", SUMMED, "missing_checksum"),
    imported("checksum", bundle(chunk(1)).replace(b"note 1", b"note 2"), "checksum_mismatch", 409),
    imported("urn", with_chunk(id="c1"), "invalid_urn"),
    imported("urn with a colon", with_chunk(id="urn:aimem:lab:a:b"), "invalid_urn"),
    imported("empty content", with_chunk(content=""), "empty_content"),
    imported("hash", with_chunk(content_hash="sha256:" + "0" * 64), "hash_mismatch"),
    imported("form of a hash", with_chunk(content_hash="md5:0"), "bad_hash_format"),
    imported("type of memory", with_chunk(memory_type="dream"), "invalid_memory_type"),
    imported("zone", with_chunk(zone="red"), "invalid_zone"),
    imported("tag", with_chunk(tags=[""]), "invalid_tag"),
    imported("tags as a text", with_chunk(tags="abc"), "invalid_type"),
    imported("pinned as a number", with_chunk(is_pinned=1), "invalid_type"),
    imported("created", with_chunk(created_at="now"), "invalid_timestamp"),
    imported("no content", without("content"), "missing_field"),
    imported("no id", without("id"), "missing_field"),
    imported("no type of memory", without("memory_type"), "missing_field"),
    imported("content as a number", with_chunk(content=1), "invalid_type"),
    imported("a chunk that is none", with_envelope(chunks=[1]), "invalid_type"),
    imported("a chunk twice", with_chunk(id="urn:aimem:lab:c2"), "duplicate_chunk_id"),
    imported("source of an edge", with_edge(source_id="urn:aimem:lab:c9"), "edge_source_unknown"),
    imported("target of an edge", with_edge(target_id="urn:aimem:lab:c9"), "edge_target_unknown"),
    imported("type of an edge", with_edge(edge_type="x-"), "invalid_edge_type"),
    imported("weight", with_edge(weight=1.5), "edge_weight_out_of_range"),
    imported("weight as a text", with_edge(weight="1"), "invalid_type"),
    imported("name of an entity", with_entity(name=""), "empty_entity_name"),
    imported("kind of an entity", with_entity(kind="robot"), "invalid_entity_kind"),
    imported("chunk of a link", with_link(chunk_id="urn:aimem:lab:c9"), "ce_chunk_unknown"),
    imported("entity of a link", with_link(entity_id="urn:aimem:lab:e9"), "ce_entity_unknown"),
    imported("embedding", with_chunk(embedding="AAAAAA=="), "embedding_envelope_missing"),
    posted("lines cut short", IMPORT, 409, "checksum_mismatch", CUT, LINES),
    posted("a line that is no JSON", IMPORT, 422, "not_json", by_lines(bundle()) + b"{\n", LINES),
]


def asked(
    name: str, question: str, body: bytes, rule: str = "invalid_message", **more: Any
) -> Row:
    """A question of another store."""
    row: dict[str, Any] = {"status": 422, "token": "sync", "headers": {"content-type": MEDIA}}
    row |= more
    return Row(name, "POST", f"/v1/sync/{question}", rule=rule, body=body, **row)


def framed(value: bytes, grains: bytes = bytes(4)) -> bytes:
    return _core.pack_frame(1, len(value).to_bytes(4, "big") + value + grains)


HELLO = protocol.pack(Hello())
BOMB = _core.pack_frame(1, bytes(8 << 20))
KEY = b"k" * 32
EMPTY = b"\x92\xc4\x00\xc0"  # Hello() as a value
SHORT = b"\0\0\0\x0a" + bytes(14)  # a grain of zeros, and the end mark


def compared(message: bytes, hello: Hello = Hello(), limit: int = FRAME) -> bytes:  # noqa: B008
    return protocol.pack(Reconcile("grains", message, hello, False, limit))


def taken(**more: Any) -> bytes:
    return protocol.pack(Batch(b"", **more))


DENIED: list[tuple[str, str, str | None, int, str]] = [
    ("sync without a token", "greet", None, 401, "missing_token"),
    ("sync of a tenant", "greet", "all", 403, "missing_scope"),
    ("taking as a reader", "take", "reader", 403, "missing_scope"),
    ("giving to a writer", "give", "writer", 403, "missing_scope"),
    ("changes for a writer", "changes", "writer", 403, "missing_scope"),
]
MESSAGES: list[tuple[str, str, bytes]] = [
    ("no message", "greet", b""),
    ("no frames", "greet", b"{}"),
    ("a message cut short", "greet", HELLO[:-1]),
    ("more than a message", "greet", HELLO + b"x"),
    ("another message", "greet", protocol.pack(START)),
    ("a message of JSON", "greet", framed(b"{}")),
    ("a message that is shorter than it says", "greet", framed(b"")),
    ("a message without an end", "greet", framed(EMPTY, b"")),
    ("a text for bytes", "greet", framed(b"\x92\xa0\xc0")),
    ("half an id", "greet", protocol.pack(Hello(b"half"))),
    ("grains behind a greeting", "greet", framed(EMPTY, SHORT)),
    ("a bomb", "greet", BOMB * 4),
    ("a bomb of one frame", "greet", _core.pack_frame(1, bytes(9 << 20))),
    ("a long value", "greet", _core.pack_frame(1, b"\xff" * 8)),
    ("a position below", "changes", protocol.pack(Changes(Position(-1, b""), Hello(), 1))),
    ("another version of negentropy", "reconcile", compared(b"\x62")),
    ("half a range", "reconcile", compared(b"a\x00\x00\x01half")),
    ("a message too long", "reconcile", compared(bytes(2 * FRAME + 1))),
    ("a limit too small", "reconcile", compared(b"a", limit=1)),
    ("no namespaces", "reconcile", compared(b"a", hello=Hello(b"", ()))),
    ("a short key", "give", protocol.pack(Get("grains", (b"k",), Hello()))),
    ("too many keys", "give", protocol.pack(Get("grains", (KEY,) * (ITEMS + 1), Hello()))),
    ("too many addresses", "lacking", protocol.pack((KEY,) * (ITEMS + 1))),
    ("a short address", "lacking", protocol.pack((b"k",))),
    (
        "no such space",
        "reconcile",
        framed(b"\x95\xa4keys\xc4\x01a\x92\xc4\x00\xc0\xc3\xcd\x10\x00"),
    ),
    ("half a key", "share", protocol.pack((b"half",))),
    ("a short successor", "take", taken(states=(GrainState(KEY, (b"k",)),))),
    ("grains in the value", "take", framed(protocol.pack_value(Batch(b"", grains=(KEY,))))),
    ("a grain that is none", "take", taken(grains=(b"\xd2" + bytes(20),))),
]
OPEN = protocol.pack(Changes(START, Hello(), 1))
LARGER = bytes(protocol.MOST + 1)
SYNC = [
    *(asked(n, q, b"", rule, status=status, token=who) for n, q, who, status, rule in DENIED),
    *(asked(*row) for row in MESSAGES),
    asked("another namespace", "changes", OPEN, "not_let", status=403, token="hall"),
    asked("a body too large", "take", LARGER, "body_too_large", status=413),
    asked(
        "no message's type", "greet", HELLO, UNTYPED, status=415, headers={"content-type": BLOB}
    ),
]

FRAMES = [
    Row("a length and chunks", "POST", IMPORT, 400, "invalid_request", None, b"{}",
        {"content-length": "2", "transfer-encoding": "chunked"}),
    Row("large headers", "GET", EXPORT, 431, "headers_too_large", None,
        headers={"x-large": "x" * (64 << 10)}),
]  # fmt: skip

ROWS = [*FRAMES, *ACCESS, *PARAMETERS, *REQUESTS, *BUNDLES, *SYNC]
