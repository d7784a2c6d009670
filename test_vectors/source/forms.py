# SPDX-License-Identifier: Apache-2.0
"""The four forms of a vector, filled in by the oracle of tests/ and never by the Rust core."""

from __future__ import annotations

import base64
import copy
from typing import Any

import oracle
from oracle_tables import BY_TYPE, NESTED, OLD_NAMES, SHORT

Vector = dict[str, Any]

ORACLE = "tests/oracle.py, an encoder in Python's standard library alone"
BY_HAND = "by hand, from the bytes that tests/oracle.py gives"
CORE = "omsgrain-core, the Rust encoder"


def encoded(
    id: str,
    description: str,
    fields: dict[str, Any],
    options: dict[str, Any] | None = None,
    *,
    made_by: str = ORACLE,
    checked_by: str = CORE,
    pinned: str | None = None,
) -> Vector:
    """Fields that must give these bytes, and bytes that must give the fields back."""
    options = options or {}
    stages = oracle.stages(revive(fields), **_oracle_options(options))
    if pinned is not None and stages["address"] != pinned:
        raise ValueError(f"{id}: the oracle gives {stages['address']}, pinned is {pinned}")
    return {
        "id": id,
        "description": description,
        "made_by": made_by,
        "checked_by": checked_by,
        "input": fields,
        "options": options,
        "stages": {
            "compacted": plain(dict(sorted(stages["compact"].items()))),
            "payload_hex": stages["payload"].hex(),
            "header_hex": stages["header"].hex(),
            "blob_hex": stages["blob"].hex(),
        },
        "decoded": plain(expand(stages["compact"], opaque=options.get("type_byte", 0) > 10)),
        "address": stages["address"],
    }


def read(
    id: str, description: str, blob: bytes, decoded: dict[str, Any], made_by: str = BY_HAND
) -> Vector:
    """Bytes that no encoder here need write, and the fields that they hold."""
    return {
        "id": id,
        "description": description,
        "made_by": made_by,
        "checked_by": CORE,
        "blob_hex": blob.hex(),
        "decoded": decoded,
        "address": oracle.address(blob),
    }


def refused_read(
    id: str, code: str, description: str, blob: bytes, address: str | None = None
) -> Vector:
    """Bytes that must be refused, or an address that the bytes do not have."""
    vector = {"id": id, "description": description, "made_by": BY_HAND, "checked_by": CORE}
    vector["blob_hex"] = blob.hex()
    if address is not None:
        vector["address"] = address
    return vector | {"expect_error": code}


def refused_write(
    id: str,
    code: str,
    description: str,
    fields: dict[str, Any] | str,
    options: dict[str, Any] | None = None,
) -> Vector:
    """Fields, or a line of JSON, that must be refused."""
    key = "input_json" if isinstance(fields, str) else "input"
    vector: Vector = {"id": id, "description": description, "made_by": "by hand"}
    vector |= {"checked_by": CORE, key: fields}
    if options:
        vector["options"] = options
    return vector | {"expect_error": code}


def changed(fields: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A copy with some fields set, and those given as ... left out."""
    merged = copy.deepcopy(fields) | changes
    return {name: value for name, value in merged.items() if value is not ...}


def expand(compacted: dict[str, Any], *, opaque: bool = False) -> dict[str, Any]:
    """Full names for the short keys: what ``to_dict`` must show."""
    given = compacted.get("t", "")
    type_name = "" if opaque else OLD_NAMES.get(given, given)
    names = {short: name for name, short in SHORT.items()}
    names |= {short: name for (of, name), short in BY_TYPE.items() if of == type_name}
    out: dict[str, Any] = {}
    for key, value in compacted.items():
        name = names.get(key, key)
        if name in NESTED and isinstance(value, list):
            inner = {short: full for full, short in NESTED[name].items()}
            value = [{inner.get(k, k): v for k, v in entry.items()} for entry in value]
        out[name] = value
    return dict(sorted(out.items()))


def plain(value: Any) -> Any:
    """The value with bytes as {"$bytes": base64}."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    return {"$bytes": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def revive(value: Any) -> Any:
    """The value that ``plain`` showed."""
    if isinstance(value, list):
        return [revive(inner) for inner in value]
    if isinstance(value, dict) and set(value) == {"$bytes"}:
        return base64.b64decode(value["$bytes"])
    return {k: revive(v) for k, v in value.items()} if isinstance(value, dict) else value


def _oracle_options(options: dict[str, Any]) -> dict[str, Any]:
    levels = {"public": 0, "internal": 1, "pii": 2, "phi": 3}
    kept = {k: v for k, v in options.items() if k != "profile"}
    if "sensitivity" in kept:
        kept["sensitivity"] = levels.get(kept["sensitivity"], kept["sensitivity"])
    return kept
