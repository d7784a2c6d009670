# SPDX-License-Identifier: Apache-2.0
"""The manifest: what became of the grains, which their blobs cannot say. Spec: OMS §11.

A canonical MessagePack map from address to state, by short keys, with only what is not the
default. It is a claim of whoever wrote the file; the footer covers it, no signature does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgpack

from omsgrain import _core, registry
from omsgrain.errors import CorruptError, NotMapError, RangeError, SchemaError

Manifest = Mapping[str, Mapping[str, Any]]

#: Field -> default. Defaults are not written, and not accepted.
_DEFAULTS: dict[str, Any] = {
    "superseded_by": None,
    "system_valid_to": None,
    "verification_status": "unverified",
    "access_count": 0,
    "last_accessed_at": None,
}
#: The first byte of a manifest; no packed frame begins so.
MAP_HEADS = (*range(0x81, 0x90), 0xDE, 0xDF)
_INT64 = range(-(1 << 63), 1 << 63)
_ADDRESS_LEN = 64
#: An address and all five fields at their longest, packed.
_LONGEST_ENTRY = 220


def pack_states(states: Manifest) -> dict[str, bytes]:
    """Each address's state as packed bytes; those that say nothing are left out.

    Raises:
        SchemaError, RangeError, HashFormatError, HashLengthError: not a state.
    """
    packed = {}
    for address, state in states.items():
        _check_address(address)
        if not isinstance(state, Mapping):
            raise SchemaError("the state of a grain is not a map")
        if unknown := state.keys() - _DEFAULTS.keys():
            raise SchemaError("unknown state field", expected=_names(), found=str(min(unknown)))
        told = {
            registry.short_key(name): value
            for name, value in state.items()
            if value is not None and _checked(name, value) != _DEFAULTS[name]
        }
        if told:
            packed[address] = msgpack.packb(dict(sorted(told.items())))
    return packed


def pack_manifest(entries: Mapping[str, bytes]) -> bytes:
    """The manifest of these packed states; nothing if there are none."""
    if not entries:
        return b""
    head: bytes = msgpack.Packer().pack_map_header(len(entries))
    return head + b"".join(msgpack.packb(key) + entries[key] for key in sorted(entries))


def entry_size(state: bytes) -> int:
    """How many bytes a packed state takes in a manifest, with its address."""
    return 2 + _ADDRESS_LEN + len(state)


#: The most that the head of a manifest takes.
HEAD_SIZE = 5


def check_size(size: int, count: int) -> None:
    """Refuse a size that the manifest of so many grains cannot have, before it is read.

    Raises:
        CorruptError: too small or too large.
    """
    longest = HEAD_SIZE + _LONGEST_ENTRY * count
    if not 1 < size <= longest:
        expected, found = f"2 to {longest} bytes", f"{size} bytes"
        raise CorruptError("not the size of a manifest", expected=expected, found=found)


def unpack_manifest(data: bytes, count: int) -> dict[str, dict[str, Any]]:
    """Read a manifest strictly: only what `pack_manifest` writes is taken.

    Args:
        data: all bytes between the grains and the footer.
        count: how many grains there are, and so states at most.

    Raises:
        CorruptError: not canonical.
        OmsError: a state has what it cannot have.
    """
    try:
        raw = msgpack.unpackb(
            data,
            strict_map_key=True,
            max_str_len=_ADDRESS_LEN,
            max_map_len=max(count, len(_DEFAULTS)),
            max_bin_len=0,
            max_array_len=0,
            max_ext_len=0,
        )
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise CorruptError("not canonical MessagePack") from error
    if not isinstance(raw, dict):
        raise NotMapError("not a map")
    full = {registry.short_key(name): name for name in _DEFAULTS}
    states: dict[str, dict[str, Any]] = {}
    for address, state in raw.items():
        if not isinstance(state, dict) or not state.keys() <= full.keys():
            raise SchemaError("not the state of a grain", expected=_names())
        states[address] = {full[key]: value for key, value in state.items()}
    if pack_manifest(pack_states(states)) != data:
        raise CorruptError("not canonical", expected="sorted, shortest forms, no defaults")
    return states


def _names() -> str:
    return ", ".join(_DEFAULTS)


def _check_address(address: object) -> None:
    if not isinstance(address, str):
        raise SchemaError("an address is text", found=type(address).__name__)
    _core.parse_address(address)


def _checked(name: str, value: Any) -> Any:
    if name == "superseded_by":
        _check_address(value)
    elif name == "verification_status":
        allowed = registry.field(name).enum
        if value not in allowed:
            raise SchemaError("not one of the allowed values", field=f"/{name}")
    elif not isinstance(value, int) or isinstance(value, bool):
        raise SchemaError("not an integer", field=f"/{name}", found=type(value).__name__)
    elif value not in _INT64 or (name == "access_count" and value < 0):
        raise RangeError("out of range", field=f"/{name}")
    return value
