# SPDX-License-Identifier: Apache-2.0
"""AIMEM, level 2: what a consumer takes and what it refuses. What is tried comes from `http`."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Final

from omsgrain.conformance.bench import Bench
from omsgrain.conformance.edits import edited
from omsgrain.conformance.http.faults import FAULTS, TEXTS, Fault
from omsgrain.conformance.http.goods import GOODS
from omsgrain.conformance.http.sample import bundle as sample
from omsgrain.conformance.http.sample import sealed, spelled
from omsgrain.conformance.rule import Check, Table, Tried
from omsgrain.conformance.rules.vectors import data
from omsgrain.formats.aimem import bundle, checksum, stream
from omsgrain.formats.aimem.rules import RULES as CODES
from omsgrain.formats.problems import DocumentError

__all__ = ["RULES"]

_rule: Final = Table("aimem", 2)
RULES: Final = _rule.rules
_add: Final = _rule.add


def _first(text: bytes) -> str:
    found = bundle.validate(text).problems
    return found[0].rule if found else "taken"


def bad(*chosen: str) -> Check:
    """Bundles with one defect each: those of a rule, or of a rule and a pointer."""

    found = [one for name in chosen for one in _faults(*name.split())]

    def check(_: Bench) -> Iterator[Tried]:
        for one in found:
            own = {k: v for k, v in one.edits.items() if k == "/checksum"}
            rest = {k: v for k, v in one.edits.items() if k != "/checksum"}
            text = spelled(edited(sealed(edited(sample(), rest)), own))
            yield Tried(one.name, (one.rule, one.status), (_first(text), _status(_first(text))))

    return check


def _faults(rule: str, place: str = "/") -> list[Fault]:
    found = [one for one in FAULTS if one.rule == rule and one.pointer.startswith(place)]
    if not found:
        raise KeyError(f"{rule} {place}")
    return found


def _status(rule: str) -> int:
    return CODES[rule].status if rule in CODES else 200


def good(*names: str) -> Check:
    """Bundles that are as good as before, by the beginning of their names."""

    for name in names:
        if not any(one.name.startswith(name) for one in GOODS):
            raise KeyError(name)

    def check(_: Bench) -> Iterator[Tried]:
        for one in GOODS:
            if one.name.startswith(names):
                text = spelled(sealed(edited(sample(), one.edits)))
                told = [w.rule for w in bundle.validate(text).warnings]
                yield Tried(one.name, "taken", _first(text))
                if one.warning is not None:
                    yield Tried(f"{one.name}: told", [one.warning], told)

    return check


def _text(*names: str) -> Check:
    """Texts that are no JSON document."""

    def check(_: Bench) -> Iterator[Tried]:
        text = spelled(sealed(sample())).decode()
        for one in TEXTS:
            if one.name in names:
                found = _first(text.replace(one.old, one.new, 1).encode())
                yield Tried(one.name, one.rule, found)

    return check


_add("document", "2", "A bundle is a JSON document in UTF-8", good("nothing changed"),
     _text("cut in the middle", "NaN", "Infinity", "a comma too many"))
_add("document.certain", "2.8",
     "Keys twice, lone surrogates and numbers beyond the doubles are refused",
     _text("a number beyond the doubles", "a key twice", "a lone surrogate"), must=False)
_add("document.depth", "2", "What is nested too deep is refused", _text("nested too deep"), must=False)
# the envelope
_add("envelope.format", "2.1", "format is \"aimem-bundle\"", bad("bad_format"))
_add("envelope.format.legacy", "2.1", "format may be \"memoryai-bundle\"",
     good("the older format name"), must=False)
_add("envelope.version", "2.1", "version is \"1\", a string", bad("unsupported_version"))
_add("envelope.version.later", "7", "A bundle of version 2 is refused with 422",
     bad("unsupported_version"))
_add("envelope.producer", "2.1", "producer is there, and is a namespace: [a-z0-9-], 1 to 63",
     bad("missing_field /producer", "invalid_producer"))
_add("envelope.tenant", "2.1", "tenant_id is there, and is a UUID or a URI",
     bad("missing_field /tenant_id", "invalid_tenant", "invalid_type /tenant_id"), good("tenant_id"))
_add("envelope.exported", "2.1", "exported_at is there, and is an ISO 8601 time in UTC",
     bad("missing_field /exported_at", "invalid_timestamp /exported_at"))
_add("envelope.scope", "2.1", "scope is there: FULL, DNA_ONLY or SINCE",
     bad("missing_field /scope", "invalid_scope", "invalid_type /scope"))
_add("envelope.since", "2.1", "scope SINCE says since when",
     bad("since_missing", "invalid_timestamp /since"), good("scope SINCE"))
_add("envelope.checksum", "2.1", "checksum is there: sha256: and hex", bad("missing_checksum"))
_add("envelope.arrays", "2.1", "chunks, edges, entities and chunk_entities are arrays",
     bad("invalid_type /chunk_entities", "invalid_type /edges"), good("no records"))
_add("envelope.arrays.absent", "2.4", "Arrays that are absent are empty", good("arrays that are"))
_add("envelope.null", "2.1", "null stands for absent where a member may be absent",
     good("null for absent", "null in the envelope"), must=False)
_add("envelope.unknown", "7", "Members that nobody knows are kept", good("unknown fields"), must=False)
_add("envelope.embedding", "2.1", "Bundles with an embedding have embedding_dim and embedding_model",
     bad("embedding_envelope_missing", "invalid_embedding_dim", "invalid_type /embedding_"))
# chunks
_add("chunk.object", "2.2", "Each chunk is an object", bad("invalid_type /chunks/2"))
_add("chunk.id", "2.3", "id is urn:aimem:<producer>:<local>; local 1 to 256 of printable ASCII, no colon",
     bad("missing_field /chunks/2/id", "invalid_urn /chunks"), good("a local part of 256"))
_add("chunk.id.unique", "2.3", "No id stands twice among chunks", bad("duplicate_chunk_id"))
_add("chunk.id.foreign", "2.3", "A chunk of another producer is taken, and told",
     good("a chunk of another producer"), must=False)
_add("chunk.content", "2.2", "content is there, a string that is not empty",
     bad("missing_field /chunks/2/content", "empty_content", "invalid_type /chunks/2/content"))
_add("chunk.content.length", "2.2", "Contents of 65,536 code points are taken",
     good("65,536 code points"))
_add("chunk.content.longer", "2.2", "Longer ones may be refused", bad("content_too_long"), must=False)
_add("chunk.hash", "2.2", "content_hash, if it is there, is sha256: and lower-case hex",
     bad("bad_hash_format"), good("no content_hash"))
_add("chunk.hash.verified", "2.2", "A chunk whose content has another hash is refused with 422",
     bad("hash_mismatch"), good("text that is not composed"))
_add("chunk.type", "2.2", "memory_type is one of eight", bad(
     "missing_field /chunks/2/memory_type", "invalid_memory_type", "invalid_type /chunks/2/memory_type"))
_add("chunk.zone", "2.2", "zone, if it is there: critical, important or standard", bad("invalid_zone"),
     good("no optional field"))
_add("chunk.pinned", "2.2", "is_pinned, if it is there, is a boolean",
     bad("invalid_type /chunks/2/is_pinned"))
_add("chunk.created", "2.2", "created_at is there, an ISO 8601 time in UTC",
     bad("missing_field /chunks/2/created_at", "invalid_timestamp /chunks", "invalid_type /chunks/2/created"),
     good("created_at"))
_add("chunk.tags", "2.2", "tags, if they are there: strings of 1 to 64 code points",
     bad("invalid_tag", "invalid_type /chunks/2/tags"), good("a tag of 64"))


@_rule("chunk.types", "2.2", "Each of the eight types of memory is taken")
def _types(_: Bench) -> Iterator[Tried]:
    for name in "fact preference decision identity pitfall procedure episodic goal".split():
        text = spelled(sealed(edited(sample(), {"/chunks/2/memory_type": name})))
        yield Tried(name, "taken", _first(text))


@_rule("chunk.zones", "2.2", "Each of the three zones is taken")
def _zones(_: Bench) -> Iterator[Tried]:
    for name in "critical important standard".split():
        yield Tried(name, "taken", _first(spelled(sealed(edited(sample(), {"/chunks/2/zone": name})))))


# embeddings
_add("embedding.base64", "2.7", "An embedding is base64 of RFC 4648, in its one spelling",
     bad("embedding_invalid", "invalid_type /chunks/1/embedding"), good("no embedding"))
_add("embedding.length", "2.7", "It has embedding_dim floats of 32 bits", bad("embedding_dim_mismatch"),
     good("the length of embeddings"))


@_rule("embedding.floats", "2.7", "The floats are of 32 bits, little-endian")
def _floats(_: Bench) -> Iterator[Tried]:
    from omsgrain.formats.aimem import convert

    found = convert.load(spelled(sealed(sample())))
    yield Tried("AACAPwAAAEA= is 1.0, 2.0", ["0000803f00000040"],
                [one.data.hex() for one in found.vectors.values()])


# edges, entities, links
_add("edge.object", "2.4", "Each edge is an object with its five members",
     bad("invalid_type /edges/0", "missing_field /edges"))
_add("edge.ends", "2.4", "Both ends are chunks of the bundle, or it is refused with 422",
     bad("edge_source_unknown", "edge_target_unknown", "invalid_urn /edges"), good("an edge to itself"))
_add("edge.type", "2.4", "edge_type: hebbian, semantic, temporal, causal, or x- and a name",
     bad("invalid_edge_type"), good("own types"))
_add("edge.weight", "2.4", "weight is a number from 0 to 1", bad(
     "edge_weight_out_of_range", "invalid_type /edges/0/weight"), good("weight"))
_add("edge.created", "2.4", "created_at is an ISO 8601 time in UTC", bad("invalid_timestamp /edges"))
_add("entity.members", "2.5", "Each entity has id, name, kind and created_at",
     bad("missing_field /entities", "invalid_timestamp /entities"))
_add("entity.kind", "2.5", "kind: person, organization, place, technology, concept, or x- and a name",
     bad("invalid_entity_kind"), good("own types"))
_add("entity.name", "2.5", "A name is not empty", bad("empty_entity_name"), must=False)
_add("entity.unique", "2.5", "No id stands twice among entities", bad("duplicate_entity_id"), must=False)
_add("entity.shared", "2.3", "A chunk and an entity of one name are taken, and told",
     good("a chunk and an entity"), must=False)
_add("link.ends", "2.5", "A link joins a chunk and an entity of the bundle",
     bad("missing_field /chunk_entities", "ce_chunk_unknown", "ce_entity_unknown"))
_add("scope.told", "2.1", "A chunk that the scope leaves out is taken, and told",
     good("DNA_ONLY with", "SINCE with"), must=False)
# the checksum
_add("checksum.verified", "2.8", "A bundle with another checksum is refused with 409",
     bad("checksum_mismatch"))


@_rule("checksum.made", "2.8", "SHA-256 of the canonical text (RFC 8785) without the checksum")
def _checksums(_: Bench) -> Iterator[Tried]:
    for one in data("bundles"):
        yield Tried(one["description"], one["checksum"], checksum.of_document(one["bundle"].encode()))
        yield Tried("taken with it", "taken", _first(one["bundle"].encode()))


@_rule("checksum.canonical", "2.8", "Numbers, strings and keys stand as RFC 8785 has them")
def _canonical(_: Bench) -> Iterator[Tried]:
    given = (r'{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],'
             r'"string":"\u20ac$\u000F\u000aA' r"'" r'\u0042\u0022\u005c\\\"\/",'
             r'"literals":[null,true,false]}')  # fmt: skip
    text = ('{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
            '"string":"\u20ac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}')  # fmt: skip
    yield Tried("the example of RFC 8785 §3.2.2", _sum(text), checksum.of_document(given.encode()))
    keys = '{"\\u20ac":1,"\\r":2,"\\ufb33":3,"1":4,"\\ud83d\\ude00":5,"\\u0080":6,"\\u00f6":7}'
    ordered = '{"\\r":2,"1":4,"\x80":6,"\xf6":7,"\u20ac":1,"\U0001f600":5,"\ufb33":3}'
    yield Tried("keys by their UTF-16 units, §3.2.3", _sum(ordered), checksum.of_document(keys.encode()))
    for number, spelling in (("1e-7", "1e-7"), ("0.000001", "0.000001"), ("1e21", "1e+21"),
                             ("1e20", "100000000000000000000"), ("-0", "0"), ("1.0", "1"),
                             ("5e-324", "5e-324"), ("9007199254740993", "9007199254740992")):
        yield Tried(f"{number} as {spelling}", _sum(f'{{"n":{spelling}}}'),
                    checksum.of_document(f'{{"n":{number}}}'.encode()))
    yield Tried("the checksum itself left out", _sum('{"a":1}'),
                checksum.of_document(b'{"checksum":"x","a":1}'))


def _sum(text: str) -> str:
    return "sha256:" + sha256(text.encode()).hexdigest()


@_rule("order", "3.2", "Envelope before checksum, checksum before records", must=False)
def _order(_: Bench) -> Iterator[Tried]:
    wrong = {"checksum": "sha256:" + "0" * 64}
    both = edited(sample(), {"/version": "2", "/chunks/0/zone": "x"}) | wrong
    yield Tried("all three wrong", "unsupported_version", _first(spelled(both)))
    yield Tried("two wrong", "checksum_mismatch",
                _first(spelled(edited(sample(), {"/chunks/0/zone": "x"}) | wrong)))


# by lines
_KINDS = {"chunks": "chunk", "edges": "edge", "entities": "entity", "chunk_entities": "chunk_entity"}


def _lines(document: dict[str, Any]) -> bytes:
    envelope = {k: v for k, v in document.items() if k not in _KINDS}
    records = [{"_kind": kind} | one for name, kind in _KINDS.items() for one in document[name]]
    return b"".join(json.dumps(one).encode() + b"\n" for one in (envelope, *records))


def _scanned(text: bytes) -> str:
    try:
        stream.scan(io.BytesIO(text))
    except DocumentError as error:
        return str(error.rule)
    return "taken"


@_rule("lines", "3.1", "By lines: the envelope without arrays, then records with their _kind")
def _by_lines(_: Bench) -> Iterator[Tried]:
    for one in data("bundles"):
        document = json.loads(one["bundle"])
        if set(_KINDS) <= set(document):
            yield Tried(one["description"], "taken", _scanned(_lines(document)))
    whole = _lines(json.loads(data("bundles")[0]["bundle"]))
    yield Tried("a _kind that is none", "unknown_kind",
                _scanned(whole.replace(b'"_kind": "chunk"', b'"_kind": "note"', 1)))
    yield Tried("no _kind", "unknown_kind", _scanned(whole.replace(b'"_kind": "chunk", ', b"", 1)))


@_rule("lines.checksum", "2.8", "The checksum by lines is that of the whole: a cut is found",
       must=False)
def _cut(_: Bench) -> Iterator[Tried]:
    whole = _lines(json.loads(data("bundles")[0]["bundle"]))
    lines = whole.splitlines(keepends=True)
    yield Tried("the last line left out", "checksum_mismatch", _scanned(b"".join(lines[:-1])))
    yield Tried("two lines swapped", "checksum_mismatch",
                _scanned(b"".join([lines[0], lines[2], lines[1], *lines[3:]])))
