# SPDX-License-Identifier: Apache-2.0
"""The checksum of a bundle: SHA-256 of its canonical text without the checksum. Spec: AIMEM §2.8.

A bundle by lines is never whole in memory. Its canonical text is one object whose keys are sorted,
so the arrays come in another order than their lines do. Whoever writes a bundle gives the records
of each kind when it is their turn (``of_parts``); where lines are read, the canonical text of each
kind waits in a file of its own until all are there (``Sum``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from hashlib import sha256
from typing import IO, Any

from omsgrain import _core
from omsgrain.formats.aimem.fields import ARRAYS, Kind
from omsgrain.formats.checksums import of_bytes

MEMBER = "checksum"
_IN_MEMORY = 1 << 20  # bytes of records of one kind, before they wait on the disk
_CHUNK = 1 << 20


def of_document(text: bytes, depth: int = 128) -> str:
    """The checksum of a bundle in one document."""
    return of_canonical(_core.canonical_json(text, MEMBER, depth))


def of_canonical(text: bytes) -> str:
    """The checksum of a bundle whose canonical text without the checksum this is."""
    return of_bytes(text)


def of_parts(envelope: dict[str, Any], parts: Callable[[Kind], Iterable[bytes]]) -> str:
    """The checksum of an envelope with records. The envelope's own is not looked at."""

    def array(kind: Kind) -> Iterator[bytes]:
        comma = b""
        for part in parts(kind):
            yield comma + part
            comma = b","

    digest = sha256()
    for piece in _pieces(envelope, array):
        digest.update(piece)
    return _spell(digest.hexdigest())


class Sum:
    """The checksum of a bundle whose records come one by one. Close it: it has files."""

    def __init__(self) -> None:
        from omsgrain.crypto.seal import spool  # takes the room of signatures with it

        self._files = ExitStack()
        self._parts: dict[Kind, IO[bytes]] = {
            kind: self._files.enter_context(spool(_IN_MEMORY)) for kind in ARRAYS.values()
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
        return _pieces(envelope, self._gathered)

    def _gathered(self, kind: Kind) -> Iterator[bytes]:
        part = self._parts[kind]
        part.seek(0)
        while piece := part.read(_CHUNK):
            yield piece


def _pieces(envelope: dict[str, Any], array: Callable[[Kind], Iterable[bytes]]) -> Iterator[bytes]:
    members = {name for name in envelope if name != MEMBER} | set(ARRAYS)
    comma = b"{"
    for name in sorted(members, key=lambda text: text.encode("utf-16-be")):
        yield comma + _canonical(name) + b":"
        comma = b","
        if name not in ARRAYS:
            yield _canonical(envelope[name])
            continue
        yield b"["
        yield from array(ARRAYS[name])
        yield b"]"
    yield b"}"


def _canonical(value: Any) -> bytes:
    return _core.canonical_json(json.dumps(value).encode("ascii"))


def _spell(digest: str) -> str:
    return f"sha256:{digest}"
