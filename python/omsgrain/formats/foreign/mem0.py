# SPDX-License-Identifier: Apache-2.0
"""An export of mem0: the result of ``get_all`` or of an export job, as JSON.

It is an object with the memories in ``results`` (or ``memories``), or their array alone. Pages of
the hosted service count and link further pages; a page that names a next one is reported.
"""

from __future__ import annotations

import re
from typing import Any, Final

from omsgrain.formats.base import Said
from omsgrain.formats.foreign.base import ForeignFormat, Translation, members_of, strings
from omsgrain.formats.json_text import kind_of

_ARRAYS: Final = ("results", "memories")
_FIRST = re.compile(rb'^\s*(?:\[|\{.*?"(?:results|memories)"\s*:\s*\[)\s*(?=\{)', re.DOTALL)
_COUNTED: Final = frozenset(("count", "previous", "page", "page_size", "total"))
"""Members around the memories that say nothing about them."""
_PLACED: Final = frozenset(
    ("id", "memory", "created_at", "updated_at", "categories", "agent_id", "run_id")
)
"""Members of a memory that MIF has a place for; those without a value are left out."""
_SCORED: Final = frozenset(("score", "score_details"))
"""Members that a search adds to its results; they are no part of a memory."""


class Mem0(ForeignFormat):
    name = "mem0"
    title = "an export of mem0"

    def sniff(self, said: Said) -> bool:
        if not (said.is_object or said.is_array):
            return False
        start = _FIRST.match(said.text[: 64 << 10])
        if start is None:
            return False
        found = members_of(said.text[start.end() :], "id", "memory")
        return isinstance(found.get("memory"), str) and "id" in found

    def translate(self, data: bytes, into: Translation) -> None:
        document = into.limits.parse(data)
        array, at = document, ""
        if isinstance(document, dict):
            name = next((one for one in _ARRAYS if isinstance(document.get(one), list)), "")
            array, at = document.get(name), f"/{name}"
            self._around(document, name, into)
        if not isinstance(array, list):
            return into.skip("not_record", "")
        users = set[str]()
        for i, value in enumerate(array):
            if isinstance(value, dict) and isinstance(value.get("memory"), str):
                self._memory(value, f"{at}/{i}", into)
                users.update(strings([value.get("user_id")]))
            else:
                into.skip("not_record", f"{at}/{i}")
        if len(users) > 1:
            says = f"the memories of {len(users)} users become those of one"
            into.lose("several_users", at, says)

    def _around(self, document: dict[str, Any], name: str, into: Translation) -> None:
        for key, value in document.items():
            if key == "next" and value is not None:
                says = "the file is one page of several; import the others too"
                into.lose("page_missing", "/next", says)
            elif key not in (name, "next", *_COUNTED) and value:
                count = len(value) if isinstance(value, list) else 1
                into.left_out(key, count, f"/{key}", f"{kind_of(value)} that is no memory")

    def _memory(self, value: dict[str, Any], at: str, into: Translation) -> None:
        for key in _SCORED & value.keys():
            if value[key] is not None:
                into.lose(
                    "search_only", f"{at}/{key}", "a value of a search is no part of the memory"
                )
        rest = {
            key: one
            for key, one in value.items()
            if one is not None and key not in _PLACED and key not in _SCORED
        }
        tags = value.get("categories")
        if tags and strings(tags) != tags:
            rest["categories"] = tags
        for key in ("agent_id", "run_id"):
            if value.get(key) is not None and not isinstance(value[key], str):
                rest[key] = value[key]
        id, run, agent = value.get("id"), value.get("run_id"), value.get("agent_id")
        into.memory(
            (str(id),) if id is not None else (value["memory"], str(value.get("user_id"))),
            value["memory"],
            at,
            rest=rest,
            id=id,
            created_at=value.get("created_at"),
            updated_at=value.get("updated_at"),
            external_id=id if isinstance(id, str) else None,
            agent_id=agent if isinstance(agent, str) else None,
            tags=strings(tags) or None,
            source={"session_id": run} if isinstance(run, str) and run else {},
        )


MEM0: Final = Mem0()
