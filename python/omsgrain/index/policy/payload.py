# SPDX-License-Identifier: Apache-2.0
"""The bytes that a co-signer of a supersession signs."""

from __future__ import annotations

from omsgrain.grain import Grain, make

_HEADER = 9
_TEN_TYPES = 10


def claim(new: Grain) -> bytes:
    """The claim that a grain makes by superseding another.

    It is the canonical payload, unpacked and in the grain's own encoding, without the signatures
    themselves. The address of the grain that is superseded goes into each signature beside it, as
    external data, so that leave for one supersession is none for another.

    Args:
        new: the superseding grain, with or without ``supersession_auth``.

    Returns:
        One map, in MessagePack or CBOR.

    Spec: OMS §23.2
    """
    fields = new.to_dict()
    fields.pop("supersession_auth", None)
    byte = new.header.type_byte
    bare = make(
        fields,
        encoding=new.header.encoding,
        keep_type_name=True,
        type_byte=byte if byte > _TEN_TYPES else None,
    )
    return bare.blob[_HEADER:]
