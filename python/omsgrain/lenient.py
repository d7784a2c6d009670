# SPDX-License-Identifier: Apache-2.0
"""Non-canonical blobs of other writers: decode them for inspection, or convert them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omsgrain import _core, registry
from omsgrain.errors import CorruptError, OmsError, UnsupportedError
from omsgrain.grain import Grain, checked_grain, make

__all__ = ["adapt", "read_leniently"]

_MAX = 1 << 20  # bytes, as for the strict reader
_DEPTH = 100  # levels; the strict reader accepts 32


def read_leniently(blob: bytes) -> Grain:
    """Decode a blob as far as possible; ``warnings`` has the reason why it is not valid."""
    try:
        return Grain(blob)
    except OmsError as refused:
        header = _core.header(blob)
        reason = str(refused)
    flags, type_byte = header[1], header[2]
    if flags & 0b110:
        raise UnsupportedError("a compressed or encrypted payload cannot be decoded leniently")
    packed = blob[9 : 9 + _MAX]
    payload = _unpack(packed, cbor=_is_cbor(packed, flags))
    _refuse_larger(payload, 2 * len(packed))  # a byte of MessagePack can hold two values
    grain_type = next((t for t in registry.TYPES if t.byte == type_byte), None)
    name = grain_type.name if grain_type else None
    fields = {_full_name(str(key), name): value for key, value in payload.items()}
    return checked_grain(blob, header, name, [reason], fields)


def _is_cbor(payload: bytes, flags: int) -> bool:
    """Whether the payload is CBOR, by its map: one writer uses the flag for something else."""
    first = payload[:1]
    if b"\x80" <= first <= b"\x8f" or first in (b"\xde", b"\xdf"):
        return False
    return bool(flags & 32) or b"\xa0" <= first <= b"\xbb"


def _unpack(payload: bytes, cbor: bool) -> dict[Any, Any]:
    try:
        if cbor:
            import cbor2

            value = cbor2.loads(payload)
        else:
            import msgpack

            value = msgpack.unpackb(payload, strict_map_key=False, raw=False)
    except Exception as cause:
        # The libraries raise many kinds of errors; all mean that the bytes are unreadable.
        raise CorruptError("the payload is unreadable") from cause
    if not isinstance(value, dict):
        raise CorruptError("the payload is not a map", found=type(value).__name__)
    return value


def _refuse_larger(payload: dict[Any, Any], size: int) -> None:
    """Refuse a payload with more values than its bytes allow, through CBOR's shared references.

    A few bytes of CBOR can describe an endless map, or one that fills the memory when written.
    """
    level: list[Any] = [payload]
    for _ in range(_DEPTH):
        size -= len(level)
        below: list[Any] = []
        for value in level:
            if isinstance(value, str | bytes):
                size -= len(value)
            elif isinstance(value, Mapping):
                below += value
                below += value.values()
            elif isinstance(value, list | tuple | set | frozenset):
                below += value
            elif hasattr(value, "tag"):  # an unknown CBOR tag
                below.append(value.value)
            if len(below) > size:
                raise CorruptError("the payload expands beyond its bytes")
        if not below:
            return
        level = below
    raise CorruptError("nested too deeply", expected=f"at most {_DEPTH} levels")


def _full_name(key: str, type_name: str | None) -> str:
    matches = [f for f in registry.FIELDS if f.short == key]
    own = [f for f in matches if f.scope == type_name]
    return (own or matches)[0].name if matches else key


#: Keys of another engine, with the fields that they mean.
_KEYS = {
    "xcode": "exit_code",
    "ischema": "input_schema",
    "thr": "threshold",
    "agrc": "agreement_count",
    "disc": "dissent_count",
    "dgrains": "dissent_grains",
    "acnt": "agreed_content",
}
_WORDS = {"realtime": "real_time"}
_ORIGINAL, _KEPT, _ADDED = "x_original", "x_foreign", "x_added"


def adapt(blob: bytes) -> Grain:
    """Convert a non-conforming blob of another writer into a valid grain; see `Grain.adapt`."""
    foreign = read_leniently(blob)
    if foreign.blob == blob and not _is_refused(blob):
        return foreign
    if foreign.header.flags & 1 or foreign.type is None:
        raise UnsupportedError("a signed or opaque blob cannot be adapted")
    fields = {_KEYS.get(name, name): value for name, value in foreign.fields.items()}
    fields = {name: _converted(name, value, foreign.type) for name, value in fields.items()}
    layer = {field.name for field in registry.FIELDS if field.index_layer}
    kept = {name: fields.pop(name) for name in layer & fields.keys()}
    if fields.pop("aknd", None) == "definition":
        fields["action_phase"] = "definition"
    for name in [name for name in fields if name in (_ORIGINAL, _KEPT, _ADDED)]:
        kept[name] = fields.pop(name)
    fields |= {"type": foreign.type, _ORIGINAL: blob}
    parents = fields.get("derived_from", [])
    fields["derived_from"] = [_core.address(blob), *(parents if isinstance(parents, list) else [])]
    added: dict[str, Any] = {}
    for _ in range(len(fields) + 1):
        added = {n: v for n, v in _required(foreign, fields).items() if n not in fields}
        noted: dict[str, Any] = {_KEPT: kept} if kept else {}
        noted |= {_ADDED: sorted(added)} if added else {}
        try:
            return make({**fields, **added, **noted}, sensitivity=foreign.header.sensitivity)
        except OmsError as error:
            wrong = (error.field or "").partition("/")[2].partition("/")[0]
            if wrong in ("type", _ORIGINAL) or wrong not in fields:
                raise
            kept[wrong] = fields.pop(wrong)
            if wrong == "derived_from":
                fields["derived_from"] = [_core.address(blob)]
    raise CorruptError("the blob cannot be adapted")


def _is_refused(blob: bytes) -> bool:
    try:
        _core.verify(blob)
    except OmsError:
        return True
    return False


def _converted(name: str, value: Any, type_name: str) -> Any:
    """Return a value in the form of its field: a text as a list, a whole float as an integer."""
    rows = [field for field in registry.FIELDS if field.name == name]
    field = next((row for row in rows if row.scope == type_name), rows[0] if rows else None)
    if field is None:
        return value
    if field.kind.startswith("array[") and isinstance(value, str | Mapping):
        return [value]
    if field.kind.startswith("int"):
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
            return int(value)
    return _WORDS.get(value, value) if isinstance(value, str) and field.enum else value


def _required(foreign: Grain, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return defaults for required fields."""
    found: dict[str, Any] = {"created_at": 1000 * foreign.header.created_at}
    phase = fields.get("action_phase")
    if foreign.type == "action" and phase is None:
        found |= {"input": {}, "content": "", "is_error": bool(fields.get("error"))}
    elif foreign.type == "action" and phase == "call":
        found["input"] = {}
    elif foreign.type == "action" and phase == "definition":
        found |= {"tool_description": str(fields.get("tool_name", "")), "input_schema": {}}
    elif foreign.type == "workflow":
        nodes = fields.get("nodes")
        found |= {"steps": nodes, "trigger": "unknown"} if isinstance(nodes, list) else {}
    return found
