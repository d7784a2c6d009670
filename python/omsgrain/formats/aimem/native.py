# SPDX-License-Identifier: Apache-2.0
"""Grains that never were AIMEM, as chunks: what a chunk can say, and what is lost.

A chunk has one text, one kind of memory and tags. The whole grain can go along as a member of its
own, which other readers may drop and omsgrain reads back.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Collection, Iterator, Mapping
from hashlib import sha256
from typing import Any, Final

from omsgrain import _core
from omsgrain.errors import OmsError
from omsgrain.formats.aimem import times, urn
from omsgrain.formats.aimem.fields import DNA
from omsgrain.formats.aimem.limits import LIMITS, TAG
from omsgrain.formats.aimem.records import PRIORITIES, RELATIONS
from omsgrain.formats.checksums import of_bytes
from omsgrain.formats.document import Added, Loss
from omsgrain.formats.mif2.memories import CONTENT
from omsgrain.formats.raw import RECORD
from omsgrain.formats.source import Source
from omsgrain.formats.times import parse
from omsgrain.grain import Grain

__all__ = ["MEMBER", "NO_TEXT", "PLAIN", "carried", "native", "text_of"]

MEMBER: Final = "x_omsgrain"
"""The member of a chunk that carries the whole grain: its address and its blob in base64."""
NO_TEXT: Final = "the grain has no text"
"""Why nothing is said of a grain."""
MADE_UP: Final = "AIMEM needs it, and nothing says it"
"""Why a chunk has a value that its grain has not."""
_LOCAL = 32  # hex digits of the address

_TYPES = {relation: name for name, relation in RELATIONS.items()}
_ZONES = {priority: zone for zone, priority in PRIORITIES.items()}
_KINDS = {"event": "episodic", "goal": "goal", "workflow": "procedure"}
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
_CONTENT = {
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
    """Say a grain as a chunk.

    Args:
        grain: any that can be read.
        producer: the namespace under which it is named.
        owner: whose memory the chunk is of, as grains name them; None: of several people.
        strict: leave out the whole grain, which is no member of the format.

    Returns:
        The chunk, without a checksum of its own, and what it cannot say or has made up; None where
        there is nothing to say.
    """
    # A sealed grain stands under an address of its own. A chunk that carries the grain goes by
    # what is in it, the same in every store; one that does not, by where it is found again.
    name = grain.address if strict else _core.address(grain.blob)
    content, said = text_of(grain, owner, _TYPES.keys())
    if not content:
        return None, [Loss(name, "content", NO_TEXT)]
    if len(content) > LIMITS.content:
        why = f"a chunk has a content of 1 to {LIMITS.content} code points"
        return None, [Loss(name, "content", f"{why}; this is of {len(content)}")]
    tags = [tag for tag in grain.get("structural_tags", ()) if 1 <= len(tag) <= TAG]
    kind = _kind(grain)
    chunk: dict[str, Any] = {
        "id": urn.urn(producer, name[:_LOCAL]),
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
    named = urn.parse(str(chunk.get("id")))
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
    if not grain["created_at"] and said is not None and parse(said, floating=True) is None:
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

    Args:
        grain: any.
        owner: whose memory it is told in; None: of several people. A subject who is the owner
            needs no name.
        by_type: the relations that the type of a memory says in the format.
    """
    if (told := _content(grain)) is not None:
        return told
    kind = grain["type"]
    if kind == "belief":
        return _sentence(grain, owner, by_type)
    if kind == "event":
        return _event(grain)
    fields = [name for name in _CONTENT.get(kind, ()) if name in grain]
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
    texts = [one["text"] for one in blocks if one["type"] == "text" and _is_text(one.get("text"))]
    whole = len(texts) == len(blocks) and all(one.keys() == {"type", "text"} for one in blocks)
    return "\n\n".join(texts), frozenset(("content_blocks",) if whole else ())


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _content(grain: Grain) -> tuple[str, frozenset[str]] | None:
    """The content of what was a memory of MIF, whoever says it; None if it was none.

    A grain's fields have the beginning of a long one, and other code points of one that they
    compose. Where it cannot be told whole it is empty.
    """
    source, context = Source.of(grain), grain.get("context")
    if source is None:
        return None
    if isinstance(context, Mapping) and context.get("kind") == RECORD:
        return "", frozenset()
    if source.format not in ("mif2", "mif1") or source.kind != "memory":
        return None
    name = CONTENT.get(grain["type"], "")
    said = grain.get(name)
    if isinstance(said, Mapping):
        said = said.get("text")
    if not isinstance(said, str):
        return None  # whoever puts a grain can write into it that it was a memory
    found = said if _is_whole(said, source) else _in_residual(source.residual, "content") or ""
    return found, frozenset((name, "subject", "relation"))


def _is_whole(content: str, source: Source) -> bool:
    return source.hash in (None, sha256(content.encode("utf-8", "surrogatepass")).hexdigest())


def _in_residual(residual: Mapping[str, Any] | None, member: str) -> str | None:
    """A text that stands beside the fields of a grain; None if it stands elsewhere."""
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
