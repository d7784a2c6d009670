# SPDX-License-Identifier: Apache-2.0
"""The file of MCP's reference memory server: entities and relations, one JSON object a line.

    {"type": "entity", "name": "...", "entityType": "...", "observations": ["...", ...]}
    {"type": "relation", "from": "...", "to": "...", "relationType": "..."}

Each observation becomes a memory. Its text begins with the name of its entity, without which it
says nothing, and which keeps the equal observations of two entities apart.
"""

from __future__ import annotations

from typing import Any, Final

from omsgrain.formats.base import Said
from omsgrain.formats.foreign.base import ForeignFormat, Translation, members_of, strings

_ENTITY: Final = ("name", "entityType", "observations")
_RELATION: Final = ("from", "relationType", "to")


class McpMemory(ForeignFormat):
    name = "mcp-memory"
    title = "the file of MCP's memory server"
    suffixes = ("memory.jsonl",)

    def sniff(self, said: Said) -> bool:
        if not said.is_object:
            return False
        found = members_of(said.text, "type", "entityType", "relationType")
        kind = found.get("type")
        return (kind == "entity" and "entityType" in found) or (
            kind == "relation" and "relationType" in found
        )

    def translate(self, data: bytes, into: Translation) -> None:
        for line, at, value in into.parse_lines(data):
            kind = value.get("type")
            if kind == "entity":
                self._entity(value, at, line, into)
            elif kind == "relation":
                start, relation, end = (value.get(name) or None for name in _RELATION)
                if len(strings([start, relation, end])) < len(_RELATION):
                    into.skip("missing_field", at, line)
                    continue
                into.relationship(str(start), str(relation), str(end), at, line=line)
                for key in value.keys() - {"type", *_RELATION}:
                    says = "a relation has no place for other members"
                    into.lose("unknown_member", f"{at}/{key}", says, line)
            else:
                into.skip("unknown_kind", at, line)

    def _entity(self, value: dict[str, Any], at: str, line: int, into: Translation) -> None:
        name, kind = value.get("name"), value.get("entityType")
        observations = value.get("observations")
        if not isinstance(name, str) or not name:
            return into.skip("missing_field", at, line)
        types = {"types": [kind]} if isinstance(kind, str) and kind else {}
        more = {key: one for key, one in value.items() if key not in ("type", *_ENTITY)}
        into.entity(name, at, line=line, **types, **({"attributes": more} if more else {}))
        if not isinstance(observations, list):
            return into.skip("missing_field", f"{at}/observations", line)
        about = {"name": name} | ({"entity_type": kind} if types else {})
        for i, said in enumerate(observations):
            place = f"{at}/observations/{i}"
            if not strings([said]) or not said.strip():
                into.skip("no_text", place, line)
                continue
            rest = {"entity": name, "observation": said}
            into.memory((name, said), f"{name}: {said}", place, line=line, rest=rest,
                        entities=[about])  # fmt: skip


MCP_MEMORY: Final = McpMemory()
