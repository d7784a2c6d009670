# SPDX-License-Identifier: Apache-2.0
"""AIMEM, level 2: what a consumer takes and what it refuses. What is tried comes from `http`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from omsgrain.conformance.bench import Bench
from omsgrain.conformance.edits import edited
from omsgrain.conformance.http.faults import FAULTS, TEXTS, Fault
from omsgrain.conformance.http.goods import GOODS
from omsgrain.conformance.http.sample import bundle as sample
from omsgrain.conformance.http.sample import sealed, spelled
from omsgrain.conformance.rule import Check, Table, Tried
from omsgrain.formats.aimem import document
from omsgrain.formats.aimem.check import RULES as CODES

_rule: Final = Table("aimem", 2)
RULES: Final = _rule.rules
_add: Final = _rule.add


def first_rule(text: bytes) -> str:
    """The rule that a bundle is refused by, or ``taken``."""
    found = document.validate(text).problems
    return found[0].rule if found else "taken"


def bad(*chosen: str) -> Check:
    """Bundles with one defect each: those of a rule, or of a rule and a pointer."""
    found = [one for name in chosen for one in _faults(*name.split())]

    def check(_: Bench) -> Iterator[Tried]:
        for one in found:
            own = {k: v for k, v in one.edits.items() if k == "/checksum"}
            rest = {k: v for k, v in one.edits.items() if k != "/checksum"}
            text = spelled(edited(sealed(edited(sample(), rest)), own))
            yield Tried(
                one.name, (one.rule, one.status), (first_rule(text), _status(first_rule(text)))
            )

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
                told = [w.rule for w in document.validate(text).warnings]
                yield Tried(one.name, "taken", first_rule(text))
                if one.warning is not None:
                    yield Tried(f"{one.name}: told", [one.warning], told)

    return check


def _text(*names: str) -> Check:
    """Texts that are no JSON document."""

    def check(_: Bench) -> Iterator[Tried]:
        text = spelled(sealed(sample())).decode()
        for one in TEXTS:
            if one.name in names:
                found = first_rule(text.replace(one.old, one.new, 1).encode())
                yield Tried(one.name, one.rule, found)

    return check


# fmt: off
_add("document", "2", "A bundle is a JSON document in UTF-8", good("nothing changed"),
     _text("cut in the middle", "NaN", "Infinity", "a comma too many"))
_add("document.certain", "2.8",
     "Keys twice, lone surrogates and numbers beyond the doubles are refused",
     _text("a number beyond the doubles", "a key twice", "a lone surrogate"), must=False)
_add("document.depth", "2", "What is nested too deep is refused", _text("nested too deep"),
     must=False)
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
     bad("missing_field /tenant_id", "invalid_tenant", "invalid_type /tenant_id"),
     good("tenant_id"))
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
_add("envelope.unknown", "7", "Members that nobody knows are kept", good("unknown fields"),
     must=False)
_add("envelope.embedding", "2.1",
     "Bundles with an embedding have embedding_dim and embedding_model",
     bad("embedding_envelope_missing", "invalid_embedding_dim", "invalid_type /embedding_"))
# chunks
_add("chunk.object", "2.2", "Each chunk is an object", bad("invalid_type /chunks/2"))
_add("chunk.id", "2.3",
     "id is urn:aimem:<producer>:<local>; local 1 to 256 of printable ASCII, no colon",
     bad("missing_field /chunks/2/id", "invalid_urn /chunks"), good("a local part of 256"))
_add("chunk.id.unique", "2.3", "No id stands twice among chunks", bad("duplicate_chunk_id"))
_add("chunk.id.foreign", "2.3", "A chunk of another producer is taken, and told",
     good("a chunk of another producer"), must=False)
_add("chunk.content", "2.2", "content is there, a string that is not empty",
     bad("missing_field /chunks/2/content", "empty_content", "invalid_type /chunks/2/content"))
_add("chunk.content.length", "2.2", "Contents of 65,536 code points are taken",
     good("65,536 code points"))
_add("chunk.content.longer", "2.2", "Longer ones may be refused", bad("content_too_long"),
     must=False)
_add("chunk.hash", "2.2", "content_hash, if it is there, is sha256: and lower-case hex",
     bad("bad_hash_format"), good("no content_hash"))
_add("chunk.hash.verified", "2.2", "A chunk whose content has another hash is refused with 422",
     bad("hash_mismatch"), good("text that is not composed"))
_add("chunk.type", "2.2", "memory_type is one of eight", bad(
     "missing_field /chunks/2/memory_type", "invalid_memory_type",
                                                             "invalid_type /chunks/2/memory_type"))
_add("chunk.zone", "2.2", "zone, if it is there: critical, important or standard",
     bad("invalid_zone"),
     good("no optional field"))
_add("chunk.pinned", "2.2", "is_pinned, if it is there, is a boolean",
     bad("invalid_type /chunks/2/is_pinned"))
_add("chunk.created", "2.2", "created_at is there, an ISO 8601 time in UTC",
     bad("missing_field /chunks/2/created_at", "invalid_timestamp /chunks",
         "invalid_type /chunks/2/created"),
     good("created_at"))
_add("chunk.tags", "2.2", "tags, if they are there: strings of 1 to 64 code points",
     bad("invalid_tag", "invalid_type /chunks/2/tags"), good("a tag of 64"))
# fmt: on


@_rule("chunk.types", "2.2", "Each of the eight types of memory is taken")
def _types(_: Bench) -> Iterator[Tried]:
    for name in "fact preference decision identity pitfall procedure episodic goal".split():
        text = spelled(sealed(edited(sample(), {"/chunks/2/memory_type": name})))
        yield Tried(name, "taken", first_rule(text))


@_rule("chunk.zones", "2.2", "Each of the three zones is taken")
def _zones(_: Bench) -> Iterator[Tried]:
    for name in "critical important standard".split():
        yield Tried(
            name, "taken", first_rule(spelled(sealed(edited(sample(), {"/chunks/2/zone": name}))))
        )


# fmt: off
# embeddings
_add("embedding.base64", "2.7", "An embedding is base64 of RFC 4648, in its one spelling",
     bad("embedding_invalid", "invalid_type /chunks/1/embedding"), good("no embedding"))
_add("embedding.length", "2.7", "It has embedding_dim floats of 32 bits",
     bad("embedding_dim_mismatch"),
     good("the length of embeddings"))
# fmt: on


@_rule("embedding.floats", "2.7", "The floats are of 32 bits, little-endian")
def _floats(_: Bench) -> Iterator[Tried]:
    from omsgrain.formats.aimem.format import AIMEM

    found = AIMEM.load(spelled(sealed(sample())))
    yield Tried(
        "AACAPwAAAEA= is 1.0, 2.0",
        ["0000803f00000040"],
        [one.data.hex() for one in found.vectors.values()],
    )


# fmt: off
# edges, entities, links
_add("edge.object", "2.4", "Each edge is an object with its five members",
     bad("invalid_type /edges/0", "missing_field /edges"))
_add("edge.ends", "2.4", "Both ends are chunks of the bundle, or it is refused with 422",
     bad("edge_source_unknown", "edge_target_unknown", "invalid_urn /edges"),
     good("an edge to itself"))
_add("edge.type", "2.4", "edge_type: hebbian, semantic, temporal, causal, or x- and a name",
     bad("invalid_edge_type"), good("own types"))
_add("edge.weight", "2.4", "weight is a number from 0 to 1", bad(
     "edge_weight_out_of_range", "invalid_type /edges/0/weight"), good("weight"))
_add("edge.created", "2.4", "created_at is an ISO 8601 time in UTC",
     bad("invalid_timestamp /edges"))
_add("entity.members", "2.5", "Each entity has id, name, kind and created_at",
     bad("missing_field /entities", "invalid_timestamp /entities"))
_add("entity.kind", "2.5",
     "kind: person, organization, place, technology, concept, or x- and a name",
     bad("invalid_entity_kind"), good("own types"))
_add("entity.name", "2.5", "A name is not empty", bad("empty_entity_name"), must=False)
_add("entity.unique", "2.5", "No id stands twice among entities", bad("duplicate_entity_id"),
     must=False)
_add("entity.shared", "2.3", "A chunk and an entity of one name are taken, and told",
     good("a chunk and an entity"), must=False)
_add("link.ends", "2.5", "A link joins a chunk and an entity of the bundle",
     bad("missing_field /chunk_entities", "ce_chunk_unknown", "ce_entity_unknown"))
_add("scope.told", "2.1", "A chunk that the scope leaves out is taken, and told",
     good("DNA_ONLY with", "SINCE with"), must=False)
# the checksum
_add("checksum.verified", "2.8", "A bundle with another checksum is refused with 409",
     bad("checksum_mismatch"))
# fmt: on
