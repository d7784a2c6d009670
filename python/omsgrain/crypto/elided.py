# SPDX-License-Identifier: Apache-2.0
"""What stands in the place of a hidden value: its hash. Spec: OMS §10.1.

    _elided         {full name: "sha256:" ++ hex SHA-256(canonical MessagePack of the value)}
    _disclosure_of  the address of the whole grain, bare hex; read also with "sha256:" before it

A value is packed as the payload of a MessagePack grain has it: the entries of content_refs,
embedding_refs and related_to by their short keys. In a CBOR grain it has the same hash.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

import msgpack

from omsgrain import _core, registry
from omsgrain.errors import PLAIN_NAME, AddressError, HashFormatError, SchemaError
from omsgrain.grain import Grain

ELIDED, ORIGINAL = "_elided", "_disclosure_of"
PREFIX = "sha256:"

#: Bytes that nobody tries through: what is made of fewer can be found by its hash.
ENOUGH = 16
_NUMBER = 4  # bytes that a number or a time is counted as: those in use are soon tried
_PLAIN = re.compile(PLAIN_NAME)
_TIME = re.compile(r"\d{4}-\d\d-\d\d([Tt ][\d:.]+([Zz]|[+-][\d:]+)?)?")


def is_view(grain: Grain) -> bool:
    """Whether the grain says that it is a disclosure; `hidden` tells whether it is a sound one."""
    return ELIDED in grain.fields or ORIGINAL in grain.fields


def hidden(view: Grain) -> tuple[dict[str, bytes], str]:
    """What a disclosure hides, and of which grain it is one.

    Returns:
        The digests by full name, and the address of the whole grain.

    Raises:
        SchemaError: it is no disclosure, or hides what no disclosure can.
        HashFormatError, HashLengthError: a hash or the address is none.
    """
    fields = view.fields
    for name in (ELIDED, ORIGINAL):
        if name not in fields:
            raise SchemaError("not a disclosure, which has this field", field=pointer(name))
    elided, original = fields[ELIDED], fields[ORIGINAL]
    if not isinstance(elided, Mapping) or not elided:
        raise SchemaError("a disclosure hides something", field=pointer(ELIDED))
    # The core looks into a grain of the ten types, but not into an opaque one.
    if not isinstance(original, str):
        raise SchemaError("not an address", field=pointer(ORIGINAL), expected="a string")
    original = original.removeprefix(PREFIX)
    _parse(original, pointer(ORIGINAL))
    digests = {}
    for name, text in elided.items():
        where = pointer(ELIDED, name)
        refuse_unless_elidable(name, where)
        if name in fields:
            raise SchemaError("the field is both shown and hidden", field=where)
        if not isinstance(text, str) or not text.startswith(PREFIX):
            raise HashFormatError("not a hash", field=where, expected="sha256: and 64 hex digits")
        digests[name] = _parse(text.removeprefix(PREFIX), where)
    return digests, original


def refuse_unless_elidable(name: str, where: str) -> None:
    """Raise SchemaError for a field that every reader must see. Spec: OMS §10.2."""
    field = _field(name)
    if field is not None and not (field.elidable and not field.index_layer):
        raise SchemaError("this field cannot be elided", field=where)


def digest(name: str, value: Any) -> bytes:
    """The hash of a field's value. Spec: OMS §10.1.1."""
    return hashlib.sha256(packed(name, value)).digest()


def packed(name: str, value: Any) -> bytes:
    """The canonical MessagePack of a field's value, as `Grain.fields` has it. Spec: OMS §4."""
    field = _field(name)
    if field is not None and field.nested is not None and isinstance(value, list):
        short = {row.name: row.short for row in registry.NESTED[field.nested]}
        value = [_compact(short, entry) for entry in value]
    data: bytes = msgpack.packb(_in_order(value), use_bin_type=True)
    return data


def _compact(short: Mapping[str, str], entry: Any) -> Any:
    if not isinstance(entry, Mapping):
        return entry
    return {short.get(key, key): value for key, value in entry.items()}


def _in_order(value: Any) -> Any:
    """Keys sorted at every level; code points sort as their UTF-8 bytes do."""
    if isinstance(value, Mapping):
        return {key: _in_order(value[key]) for key in sorted(value)}
    return [_in_order(item) for item in value] if isinstance(value, list) else value


def guessable(name: str, value: Any) -> bool:
    """Whether a hidden value can be found by hashing all that it could be.

    The hash has no salt. So this is a yes or no, a number, a time, one of the usual values of its
    field, or so short that fewer than 16 bytes of it are unknown; numbers and times count as four.
    A no is no promise: names, addresses and whatever else stands on a list can be tried one by
    one, however long they are.
    """
    field = _field(name)
    if field is not None and (value in field.enum or value in field.open_enum):
        return True
    return _unknown(value) < ENOUGH


def _unknown(value: Any) -> int:
    if isinstance(value, Mapping):  # its keys are probably known
        return sum(map(_unknown, value.values()))
    if isinstance(value, list):
        return sum(map(_unknown, value))
    if isinstance(value, str):
        return _NUMBER if _TIME.fullmatch(value) else len(value.encode())
    if isinstance(value, bytes):
        return len(value)
    return 0 if value is None or isinstance(value, bool) else _NUMBER


def pointer(*names: str) -> str:
    """Where a field stands, as a JSON pointer; a name that may be long or tell is not shown."""
    return "".join("/" + (_escaped(name) if _PLAIN.fullmatch(name) else "…") for name in names)


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _field(name: str) -> registry.Field | None:
    try:
        return registry.field(name)
    except KeyError:
        return None


def _parse(text: str, where: str) -> bytes:
    try:
        return _core.parse_address(text)
    except AddressError as error:
        error.field = where
        raise
