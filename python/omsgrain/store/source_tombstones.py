# SPDX-License-Identifier: Apache-2.0
"""Records of other formats that were erased, by their own ids: no spelling brings them back.

A record that comes again with one tag more is another grain under another address. What tells it
is its id, and whose it is: two tenants may have a record of the same id.

A record that is known by its text is remembered by that as well: under another id it is the same
memory.

A grain of a user that never was a record may have left as one, named by the first digits of its
address. So these are remembered as well, and what is named so does not come back either.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from omsgrain import _core
from omsgrain.errors import OmsError
from omsgrain.formats.source import KEY, Source
from omsgrain.header import COMPRESSED_BIT
from omsgrain.storage import tombstones
from omsgrain.storage.base import Reader, Writer
from omsgrain.storage.scan import stored

TEXT: Final = "text"
"""Instead of a kind: the name is SHA-256 of a text, in hex, and the format does not matter."""

_NAMESPACE = slice(3, 5)  # its hash in the header
_MARK = KEY.encode()
_GRAIN = "grain"
_DIGITS = 32  # of an address, by which a grain is named in a document
_ADDRESS = re.compile(f"[0-9a-f]{{{_DIGITS}}}")


def erased(
    reader: Reader, user_id: str, records: Iterable[tuple[str, str]], *, format: str = "aimem"
) -> list[bool]:
    """Tell of records whether they were erased, and were not allowed back since."""
    shared = tombstones.export_key(reader)
    if shared is None:
        return [False for _ in records]
    return [
        any(tombstones.has(reader, "urn", one) for one in _names(format, kind, name, user_id))
        for kind, name in records
    ]


def refused(reader: Reader, blobs: Iterable[bytes]) -> set[int]:
    """Return which of some blobs in the clear are records that were erased, by position."""
    if tombstones.export_key(reader) is None:  # where nothing was ever erased, one look-up
        return set()
    return {
        i
        for i, blob in enumerate(blobs)
        if any(tombstones.has(reader, "urn", name) for name in _of_blob(blob))
    }


def remember(writer: Writer, blob: bytes, digest: bytes, at: int, reason_code: str) -> None:
    """Remember that a grain was erased, by what a document may call it."""
    names = _of_blob(blob) or _of_native(blob, sha256(blob).digest(), digest)
    for name in names:
        tombstones.add(writer, "urn", name, at, reason_code, blob[_NAMESPACE])


def lift(writer: Writer, blobs: Iterable[bytes]) -> None:
    """Let records be what they were before they were erased: somebody allowed them back."""
    if tombstones.export_key(writer) is not None:
        for blob in blobs:
            for name in _of_blob(blob) or _of_native(blob, sha256(blob).digest()):
                tombstones.lift(writer, "urn", name)


def _of_blob(blob: bytes) -> tuple[str, ...]:
    """By what a record is remembered; nothing if it was none."""
    # Nearly no grain was a record, and a search in its bytes tells so.
    if _MARK not in blob and not blob[1] & COMPRESSED_BIT:
        return ()
    try:
        grain = stored(blob)
        source, user_id = Source.of(grain), grain.get("user_id", "")
    except OmsError:  # damaged: it is not known what it was
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


def _of_native(blob: bytes, *digests: bytes) -> tuple[str, ...]:
    """By what a grain of a user is remembered that never was a record."""
    (user_id,) = _core.user_ids([blob])
    if user_id is None:
        return ()
    names = (_name(_GRAIN, digest.hex()[:_DIGITS], user_id) for digest in digests)
    return tuple(dict.fromkeys(names))


def _name(*parts: str) -> str:
    return "\0".join((*parts[:-1], unicodedata.normalize("NFC", parts[-1])))
