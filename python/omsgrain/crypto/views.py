# SPDX-License-Identifier: Apache-2.0
"""Disclosures as grains: what they are made of, how they are written, what they came from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from omsgrain import _core, registry
from omsgrain.crypto.elided import ELIDED, ORIGINAL, PREFIX
from omsgrain.errors import KeyMissingError
from omsgrain.grain import Grain, bare, options
from omsgrain.header import SIGNED_BIT, Header, as_bytes, read_header

_NS_HASH = 3  # offset in the header
_NO_NAMESPACE = (b"", b"shared")  # what other writers hash where there is no namespace


def whole_grain(grain: Grain | bytes) -> Grain:
    """The grain, read strictly whatever way it came."""
    blob = grain.blob if isinstance(grain, Grain) else as_bytes(grain)
    if read_header(blob).encrypted:
        raise KeyMissingError("the grain is sealed; a disclosure is made of what it holds")
    if not isinstance(grain, Grain):
        return Grain(blob)
    _core.check(bare(blob))  # it may have been read leniently
    return grain


def hiding(fields: dict[str, Any], digests: Mapping[str, bytes], original: str) -> dict[str, Any]:
    """The fields with the hashes of those that are hidden, if any are."""
    if not digests:
        return fields
    hashes = {name: PREFIX + value.hex() for name, value in digests.items()}
    return fields | {ELIDED: hashes, ORIGINAL: original}


def write(fields: Mapping[str, Any], header: Header, notes: Iterable[str] = ()) -> Grain:
    """Encode the fields as a grain with this header has them; the notes become warnings.

    Raises:
        OmsError: any refusal of the format.
    """
    blob, _ = _core.encode(fields, _options(header))
    parts, name, said = _core.check(blob)
    return Grain._of(blob, parts, name, [*said, *notes], None)


def _options(header: Header) -> tuple[str, bool, int, bool, int | None, str]:
    known = any(kind.byte == header.type_byte for kind in registry.TYPES)
    return options(
        "cbor" if header.encoding == "cbor" else "msgpack",
        header.compressed,
        header.sensitivity,
        keep_type_name=True,
        type_byte=None if known else header.type_byte,
    )


def gives(fields: Mapping[str, Any], header: Header, blob: bytes) -> bool:
    """Whether `reveal` would come back to these bytes."""
    return blob in variants(write(fields, header))


def variants(grain: Grain) -> Iterator[bytes]:
    """The blobs that have these fields: signed or not, and the three ways to have no namespace."""
    blobs = [grain.blob]
    if not grain.fields.get("namespace"):
        for name in _NO_NAMESPACE:
            ns_hash = hashlib.sha256(name).digest()[:2]
            blobs.append(grain.blob[:_NS_HASH] + ns_hash + grain.blob[_NS_HASH + 2 :])
    for blob in blobs:
        yield blob
        yield blob[:1] + bytes((blob[1] | SIGNED_BIT,)) + blob[2:]
