# SPDX-License-Identifier: Apache-2.0
"""The checksum of a bundle: SHA-256 of its canonical text without the checksum. Spec: AIMEM §2.8.

A bundle that comes by lines is never whole in memory. Its canonical text is one object whose keys
are sorted, so the arrays come in another order than their lines do: the canonical text of each
kind of record waits in a file of its own until all are there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from hashlib import sha256
from tempfile import SpooledTemporaryFile
from typing import IO, Any

from omsgrain import _core
from omsgrain.formats.aimem.fields import ARRAYS, Kind

__all__ = ["MEMBER", "Sum", "of_canonical", "of_document"]

MEMBER = "checksum"
_IN_MEMORY = 1 << 20  # bytes of records of one kind, before they wait on the disk
_CHUNK = 1 << 20


def of_document(text: bytes, depth: int = 128) -> str:
    """The checksum of a bundle in one document.

    Raises:
        FormatError: not JSON, or JSON whose meaning is not certain.
        CorruptError: nested deeper.
    """
    return of_canonical(_core.canonical_json(text, MEMBER, depth))


def of_canonical(text: bytes) -> str:
    """The checksum of a bundle whose canonical text without the checksum this is."""
    return _spell(sha256(text).hexdigest())


class Sum:
    """The checksum of a bundle whose records come one by one. Close it: it has files."""

    def __init__(self) -> None:
        self._files = ExitStack()
        self._parts: dict[Kind, IO[bytes]] = {
            kind: self._files.enter_context(SpooledTemporaryFile(max_size=_IN_MEMORY))
            for kind in ARRAYS.values()
        }

    def __enter__(self) -> Sum:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the files."""
        self._files.close()

    def add(self, kind: Kind, canonical: bytes) -> None:
        """Take the canonical text of the next record of a kind."""
        part = self._parts[kind]
        if part.tell():
            part.write(b",")
        part.write(canonical)

    def finish(self, envelope: dict[str, Any]) -> str:
        """The checksum of the envelope with all records. The envelope's own is not looked at."""
        digest = sha256()
        for piece in self.pieces(envelope):
            digest.update(piece)
        return _spell(digest.hexdigest())

    def pieces(self, envelope: dict[str, Any]) -> Iterator[bytes]:
        """The canonical text of the envelope with all records, without a checksum."""
        members = {name for name in envelope if name != MEMBER} | set(ARRAYS)
        comma = b"{"
        for name in sorted(members, key=lambda text: text.encode("utf-16-be")):
            yield comma + _canonical(name) + b":"
            comma = b","
            if name not in ARRAYS:
                yield _canonical(envelope[name])
                continue
            part = self._parts[ARRAYS[name]]
            part.seek(0)
            yield b"["
            while piece := part.read(_CHUNK):
                yield piece
            yield b"]"
        yield b"}"


def _canonical(value: Any) -> bytes:
    return _core.canonical_json(json.dumps(value).encode("ascii"))


def _spell(digest: str) -> str:
    return f"sha256:{digest}"
