# SPDX-License-Identifier: Apache-2.0
"""Tombstones of records of other formats, by their own ids.

A changed record gets another address, so its grain's address cannot identify it. Its id and its
tenant do: two tenants may have records with the same id. A record that is identified by its text
is also remembered by that text, because under another id it is the same memory.

A user's grain that never was a record may have been exported as one, named by the first digits of
its address. So these digits are remembered too.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Final

from omsgrain import _core
from omsgrain.errors import OmsError
from omsgrain.formats.source import KEY, Source
from omsgrain.header import COMPRESSED_BIT
from omsgrain.storage import tombstones
from omsgrain.storage.base import Reader, Writer, stored

TEXT: Final = "text"
"""In place of a kind: the name is the SHA-256 of a text in hex, for every format."""

_NAMESPACE = slice(3, 5)  # its hash in the header
_MARK = KEY.encode()
_GRAIN = "grain"
_DIGITS = 32  # of an address, as a document names a grain
_ADDRESS = re.compile(f"[0-9a-f]{{{_DIGITS}}}")


def erased(
    reader: Reader, user_id: str, records: Iterable[tuple[str, str]], *, format: str = "aimem"
) -> list[bool]:
    """Return for each record whether it was erased and not allowed back since."""
    shared = tombstones.export_key(reader)
    if shared is None:
        return [False for _ in records]
    return [
        any(tombstones.has(reader, "urn", one) for one in _names(format, kind, name, user_id))
        for kind, name in records
    ]


def refused(reader: Reader, blobs: Iterable[bytes]) -> set[int]:
    """Return the positions of plain blobs that are erased records."""
    if tombstones.export_key(reader) is None:  # one look-up if nothing was ever erased
        return set()
    return {
        i
        for i, blob in enumerate(blobs)
        if any(tombstones.has(reader, "urn", name) for name in _of_blob(blob))
    }


def remember(
    writer: Writer, grains: Sequence[tuple[bytes, bytes]], at: int, reason_code: str
) -> None:
    """Remember that grains were erased, by the names that a document may use for them.

    Each is given as its plain blob and its stored digest.
    """
    users = _core.user_ids([blob for blob, _ in grains])
    names = [
        (name, blob[_NAMESPACE])
        for (blob, digest), user_id in zip(grains, users, strict=True)
        for name in _of_blob(blob) or _of_native(user_id, sha256(blob).digest(), digest)
    ]
    tombstones.add(writer, "urn", names, at, reason_code)


def lift(writer: Writer, blobs: Iterable[bytes]) -> None:
    """Remove the tombstones of records that are allowed back."""
    if tombstones.export_key(writer) is not None:
        for blob in blobs:
            (user_id,) = _core.user_ids([blob])
            for name in _of_blob(blob) or _of_native(user_id, sha256(blob).digest()):
                tombstones.lift(writer, "urn", name)


def _of_blob(blob: bytes) -> tuple[str, ...]:
    """Return the names of a record; none if the grain never was one."""
    # Most grains never were records; a search in their bytes is enough to know.
    if _MARK not in blob and not blob[1] & COMPRESSED_BIT:
        return ()
    try:
        grain = stored(blob)
        source, user_id = Source.of(grain), grain.get("user_id", "")
    except OmsError:  # damaged, so it is unknown
        return ()
    if source is None or not isinstance(user_id, str):
        return ()
    names = _names(source.format, source.kind, source.id, user_id)
    return names if source.hash is None else (*names, _name(TEXT, source.hash, user_id))


def _names(format: str, kind: str, name: str, user_id: str) -> tuple[str, ...]:
    if kind == TEXT:
        return (_name(TEXT, name, user_id),)
    own, digits = _name(format, kind, name, user_id), name.rpartition(":")[2]
    if _ADDRESS.fullmatch(digits) is None:
        return (own,)
    return own, _name(_GRAIN, digits, user_id)


def _of_native(user_id: str | None, *digests: bytes) -> tuple[str, ...]:
    """Return the names of a user's grain that never was a record."""
    if user_id is None:
        return ()
    names = (_name(_GRAIN, digest.hex()[:_DIGITS], user_id) for digest in digests)
    return tuple(dict.fromkeys(names))


def _name(*parts: str) -> str:
    return "\0".join((*parts[:-1], unicodedata.normalize("NFC", parts[-1])))
