# SPDX-License-Identifier: Apache-2.0
"""Records of a bundle as grains, and back to the last null.

References stay URNs. An embedding is no part of a grain: the store keeps vectors beside it.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import Any, Final, cast

from omsgrain import _core
from omsgrain.errors import NotFoundError, OmsError, StoreError
from omsgrain.formats import source, times
from omsgrain.formats.aimem.check import AimemChecker
from omsgrain.formats.aimem.fields import DNA, LIMITS, TAG, AimemLimits, Kind, parse_urn, urn
from omsgrain.formats.document import Added, Loss
from omsgrain.formats.json_text import of_bytes
from omsgrain.formats.mif2.records import CONTENT
from omsgrain.formats.records import (
    Fields,
    Record,
    RecordShape,
    RecordTable,
    belief_fields,
    grain_fields,
    id_of,
    text_hash,
)
from omsgrain.formats.source import RECORD, Source
from omsgrain.grain import Grain

FORMAT: Final = "aimem"
NAMESPACE: Final = "aimem"

RELATIONS: Final = {
    "fact": "mg:knows",
    "preference": "mg:prefers",
    "decision": "aimem:decided",
    "identity": "aimem:identity",
    "pitfall": "mg:avoids",
}
"""Kinds of memory that are beliefs about the tenant."""
_TYPES = {relation: name for name, relation in RELATIONS.items()}
_PROCEDURE = "aimem:procedure"
_ENTITY = "aimem:entity"
_MENTIONS = "aimem:mentions"
_EDGE = "aimem:"
PRIORITIES: Final = {"critical": "hot", "important": "warm", "standard": "cold"}
_ZONES = {priority: zone for zone, priority in PRIORITIES.items()}


def bare(kind: str, record: Record) -> Record:
    """A record without its embedding, as the table of records takes it."""
    if kind != "chunk" or not isinstance(record.get("embedding"), str):
        return record
    return {name: value for name, value in record.items() if name != "embedding"}


def checked(
    grain: Grain, get: source.Get, limits: AimemLimits = LIMITS
) -> tuple[Kind, Record] | None:
    """The record that a grain was; None if that is no good one, or a part of it is gone.

    Anyone who may put grains can mark one as a record. An invalid record does not count as one,
    or it would spoil every later bundle.
    """
    try:
        found = cast("tuple[Kind, Record] | None", TABLE.from_grain(grain, get))
    except NotFoundError:
        return None
    except StoreError:
        raise
    except OmsError:
        return None
    if found is None:
        return None
    checker = AimemChecker(limits)
    checker.record(*found, "", ends=False)
    return None if checker.problems else found


# -- records to fields --------------------------------------------------------------------------


_base = partial(grain_fields, namespace=NAMESPACE)
_belief = partial(belief_fields, namespace=NAMESPACE)


def _of_chunk(record: Record, tenant: str | None) -> Fields:
    what, content = record["memory_type"], record["content"]
    if what in RELATIONS:
        fields = _belief(record, tenant, tenant, RELATIONS[what], content)
    elif what == "procedure":
        fields = _base("workflow", record, tenant)
        fields["steps"], fields["trigger"] = [content], _PROCEDURE
    elif what == "goal":
        fields = _base("goal", record, tenant)
        fields["description"], fields["goal_state"] = content, "active"
    else:
        fields = _base("event", record, tenant)
        fields["content"] = content
    if tags := record.get("tags"):
        fields["structural_tags"] = tags
    if (zone := record.get("zone")) in PRIORITIES:
        fields["recall_priority"] = PRIORITIES[zone]
    if what in DNA or record.get("is_pinned") is True:
        fields["invalidation_policy"] = {"mode": "soft_locked"}
    return fields


def _of_edge(record: Record, tenant: str | None) -> Fields:
    relation = _EDGE + record["edge_type"]
    fields = _belief(record, tenant, record["source_id"], relation, record["target_id"])
    # Canonical JSON has no -0.0.
    return fields | {"confidence": float(record["weight"]) + 0.0}


def _of_entity(record: Record, tenant: str | None) -> Fields:
    about = {"name": record["name"], "kind": record["kind"]}
    return _belief(record, tenant, record["id"], _ENTITY, about)


def _of_link(record: Record, tenant: str | None) -> Fields:
    return _belief(record, tenant, record["chunk_id"], _MENTIONS, record["entity_id"])


# -- fields to records --------------------------------------------------------------------------


def _to_chunk(fields: Mapping[str, Any], name: str) -> Record:
    kind = fields["type"]
    what = _TYPES[fields["relation"]] if kind == "belief" else _KINDS[kind]
    content = fields[_CONTENT[kind]]
    if kind == "workflow":
        content = content[0]
    record: Record = {"id": name, "content": content}
    record["content_hash"] = of_bytes(content.encode())
    record["memory_type"] = what
    if "recall_priority" in fields:
        record["zone"] = _ZONES[fields["recall_priority"]]
    if "invalidation_policy" in fields and what not in DNA:
        record["is_pinned"] = True
    record["created_at"] = times.spell(fields["created_at"])
    if "structural_tags" in fields:
        record["tags"] = fields["structural_tags"]
    return record


_KINDS = {"workflow": "procedure", "goal": "goal", "event": "episodic"}
_CONTENT = {
    "belief": "object",
    "workflow": "steps",
    "goal": "description",
    "event": "content",
}


def _to_edge(fields: Mapping[str, Any], name: str) -> Record:
    return {
        "source_id": fields["subject"],
        "target_id": fields["object"],
        "edge_type": fields["relation"].removeprefix(_EDGE),
        "weight": fields["confidence"],
        "created_at": times.spell(fields["created_at"]),
    }


def _to_entity(fields: Mapping[str, Any], name: str) -> Record:
    about = fields["object"]
    created = times.spell(fields["created_at"])
    return {"id": name, "name": about["name"], "kind": about["kind"], "created_at": created}


def _to_link(fields: Mapping[str, Any], name: str) -> Record:
    return {"chunk_id": fields["subject"], "entity_id": fields["object"]}


def _ends(record: Record) -> str:
    return f"{record['source_id']} {record['target_id']} {record['edge_type']}"


def _pair(record: Record) -> str:
    return f"{record['chunk_id']} {record['entity_id']}"


_SHAPES: dict[Kind, RecordShape] = {
    "chunk": RecordShape(_of_chunk, _to_chunk, id_of),
    "edge": RecordShape(_of_edge, _to_edge, _ends),
    "entity": RecordShape(_of_entity, _to_entity, id_of),
    "chunk_entity": RecordShape(_of_link, _to_link, _pair),
}
# A bundle's checksum is of sorted keys, so their order says nothing.
TABLE: Final = RecordTable(FORMAT, cast("dict[str, RecordShape]", _SHAPES), ordered=False)


MEMBER: Final = "x_omsgrain"
"""The member of a chunk that carries the whole grain: its address and its blob in base64."""
NO_TEXT: Final = "the grain has no text"
"""Why nothing is said of a grain."""
MADE_UP: Final = "AIMEM requires it, and the source has none"
"""Why a chunk has a value that its grain has not."""
_LOCAL = 32  # hex digits of the address

PLAIN: Final = frozenset(
    ("type", "created_at", "user_id", "namespace", "structural_tags", "recall_priority")
)
"""Fields of a grain that are said by members of a chunk or of its bundle."""
_VERBS: Final = {
    "aimem:decided": "decided",
    "mif:decided": "decided",
    "aimem:identity": "is",
}
_OURS: Final = "mg:"  # mg:agrees_with: agrees with
_LONGEST_CONTENT = {
    "goal": ("description",),
    "workflow": ("trigger", "steps"),
    "state": ("context", "plan"),
    "action": ("tool_name", "input", "content"),
    "observation": ("subject", "object"),
    "reasoning": ("premises", "conclusion"),
    "consensus": ("agreed_content",),
    "consent": ("subject_did", "grantee_did", "scope"),
}


def native(
    grain: Grain, *, producer: str, owner: str | None, strict: bool = False
) -> tuple[dict[str, Any] | None, list[Loss]]:
    """Say a grain as a chunk."""
    # A sealed grain stands under an address of its own. A chunk that carries the grain goes by
    # what is in it, the same in every store; one that does not, by where it is found again.
    name = grain.address if strict else _core.address(grain.blob)
    content, said = text_of(grain, owner, _TYPES.keys())
    if not content:
        return None, [Loss(name, "content", NO_TEXT)]
    if len(content) > LIMITS.content:
        why = f"the content of a chunk has 1 to {LIMITS.content} code points"
        return None, [Loss(name, "content", f"{why}; this one has {len(content)}")]
    tags = [tag for tag in grain.get("structural_tags", ()) if 1 <= len(tag) <= TAG]
    kind = _kind(grain)
    chunk: dict[str, Any] = {
        "id": urn(producer, name[:_LOCAL]),
        "content": content,
        "content_hash": of_bytes(content.encode()),
        "memory_type": kind,
    }
    if (zone := _ZONES.get(grain.get("recall_priority", ""))) is not None:
        chunk["zone"] = zone
    if _locked(grain) and kind not in DNA:
        chunk["is_pinned"] = True
    chunk["created_at"] = times.spell(grain["created_at"])
    if tags:
        chunk["tags"] = tags
    made_up: list[Loss] = [Added(name, field, MADE_UP) for field in _made_up(grain)]
    if not strict:
        blob = base64.b64encode(grain.blob).decode("ascii")
        return chunk | {MEMBER: {"address": name, "blob": blob}}, made_up
    lost = [field for field in grain if field not in PLAIN and field not in said]
    return chunk, [*(Loss(name, field, "a chunk has no place for it") for field in lost), *made_up]


def carried(chunk: Mapping[str, Any]) -> Grain | None:
    """The grain that a chunk carries whole; None if there is none that this chunk is made of."""
    member = chunk.get(MEMBER)
    named = parse_urn(str(chunk.get("id")))
    if not isinstance(member, dict) or not isinstance(member.get("blob"), str) or named is None:
        return None
    try:
        grain = Grain(base64.b64decode(member["blob"], validate=True))
    except (OmsError, binascii.Error):
        return None
    # A chunk that was changed on its way is what it says, not what it was.
    known = {name: value for name, value in chunk.items() if name != "embedding"}
    for owner in (grain.get("user_id"), None):
        if native(grain, producer=named.producer, owner=owner)[0] == known:
            return grain
    return None


def _made_up(grain: Grain) -> Iterator[str]:
    """The members of a chunk that a memory of MIF does not say: it may lack a type and a time."""
    if grain["type"] != "observation" and grain["created_at"]:
        return
    source = Source.of(grain)
    if source is None or source.kind != "memory" or source.residual is None:
        return
    if "memory_type" in source.residual.get("-", ()):
        yield "memory_type"
    said = _in_residual(source.residual, "created_at")
    if not grain["created_at"] and said is not None and times.parse(said, floating=True) is None:
        yield "created_at"


def _kind(grain: Grain) -> str:
    if grain["type"] == "belief":
        return _TYPES.get(grain.get("relation", ""), "fact")
    return _KINDS.get(grain["type"], "fact")


def _locked(grain: Grain) -> bool:
    policy = grain.get("invalidation_policy")
    return isinstance(policy, Mapping) and policy.get("mode", "open") != "open"


def text_of(
    grain: Grain, owner: str | None, by_type: Collection[str]
) -> tuple[str, frozenset[str]]:
    """The text of a grain, and the fields that it says.

    A belief says who and what: two people who prefer tea are two memories.
    """
    if (told := _content(grain)) is not None:
        return told
    kind = grain["type"]
    if kind == "belief":
        return _sentence(grain, owner, by_type)
    if kind == "event":
        return _event(grain)
    fields = [name for name in _LONGEST_CONTENT.get(kind, ()) if name in grain]
    return "\n".join(_text(grain[name]) for name in fields), frozenset(fields)


def _sentence(
    grain: Grain, owner: str | None, by_type: Collection[str]
) -> tuple[str, frozenset[str]]:
    subject, relation = grain.get("subject", ""), grain.get("relation", "")
    object_ = _text(grain.get("object", ""))
    said = frozenset(("subject", "relation", "object"))
    if relation in by_type and owner is not None and subject in (owner, f"user:{owner}"):
        return object_, said
    verb = _VERBS.get(relation)
    if verb is None and relation.startswith(_OURS):
        verb = relation.removeprefix(_OURS).replace("_", " ")
    return f"{subject} {verb or relation} {object_}".strip(), said


def _event(grain: Grain) -> tuple[str, frozenset[str]]:
    """The content, else the text blocks, else the sentence that it is."""
    if content := grain.get("content"):
        return content, frozenset(("content",))
    if (blocks := grain.get("content_blocks")) is None:
        return _sentence(grain, None, ()) if "relation" in grain else ("", frozenset())
    texts = [one["text"] for one in blocks if one["type"] == "text" and one.get("text")]
    whole = len(texts) == len(blocks) and all(one.keys() == {"type", "text"} for one in blocks)
    return "\n\n".join(texts), frozenset(("content_blocks",) if whole else ())


def _content(grain: Grain) -> tuple[str, frozenset[str]] | None:
    """The content of a grain that was a memory of MIF; None if it was none.

    A grain's fields have the beginning of a long one, and other code points of one that they
    compose. It is empty if the whole text is not known.
    """
    source, context = Source.of(grain), grain.get("context")
    if source is None:
        return None
    if isinstance(context, Mapping) and context.get("kind") == RECORD:
        return "", frozenset()
    if source.kind != "memory":
        return None
    from omsgrain.formats.table import VERSIONS

    of = VERSIONS.get(source.format)
    if of is None or not of.says_content:
        return None
    name = CONTENT.get(grain["type"], "")
    said = grain.get(name)
    if isinstance(said, Mapping):
        said = said.get("text")
    if not isinstance(said, str):
        return None  # anyone who puts a grain can mark it as a memory
    digest = text_hash(said)
    found = (
        said if source.hash in (None, digest) else _in_residual(source.residual, "content") or ""
    )
    return found, frozenset((name, "subject", "relation"))


def _in_residual(residual: Mapping[str, Any] | None, member: str) -> str | None:
    """A text that the side channel of a grain holds; None if it does not."""
    found: Any = residual
    for name in ("~", member, "="):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, str) else None


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return "\n".join(value)
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def is_record(grain: Grain, kind: Kind) -> bool:
    source = Source.of(grain)
    return source is not None and (source.format, source.kind) == (FORMAT, kind)
