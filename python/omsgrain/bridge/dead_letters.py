# SPDX-License-Identifier: Apache-2.0
"""Where messages go that the store does not take: with the code and the reason, and all they were.

Nothing is acknowledged before it lies there. A message that is set aside twice (the bridge was
killed in between) is one file, or two letters that are equal.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple, Protocol

from omsgrain.bridge.transport import Letter, Message, Sink
from omsgrain.durable import sync_directory
from omsgrain.store.take_messages import MessageRefusal


class Aside(NamedTuple):
    """A message that is set aside, and why."""

    message: Message
    refusal: MessageRefusal


class DeadLetters(Protocol):
    """A place for refused messages."""

    def write(self, refused: Sequence[Aside]) -> None:
        """Set messages aside, durably when this returns."""
        ...


def properties(aside: Aside) -> dict[str, str]:
    """What is told of a refused message: nothing of its content, but where it came from."""
    error = aside.refusal.error
    told = {"code": error.code, "reason": str(error), "origin": aside.message.origin}
    if aside.refusal.count > 1:
        told["refused"] = str(aside.refusal.count)
    if aside.refusal.erased:
        told["withheld"] = "erased"
    return told


def kept(aside: Aside) -> bytes:
    """What is kept of a refused message: all of it, but of what was erased before nothing."""
    return b"" if aside.refusal.erased else aside.message.data


class Topic:
    """Refused messages under a topic or subject of a broker."""

    def __init__(self, sink: Sink, name: str) -> None:
        self._sink = sink
        self._name = name

    def write(self, refused: Sequence[Aside]) -> None:
        """Publish them, and wait until the broker has them."""
        self._sink.publish(
            self._name,
            [Letter(kept(one), tuple(properties(one).items())) for one in refused],
        )


class DeadLetterDirectory:
    """Refused messages as files: HASH.message with its bytes, HASH.json with the reason.

    The name is the hash of the message and its reason, so that it says nothing of either.
    """

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        if not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        self._path = path

    def write(self, refused: Sequence[Aside]) -> None:
        """Write the files."""
        for one in refused:
            told = json.dumps(properties(one), ensure_ascii=False).encode()
            data = kept(one)
            name = sha256(len(told).to_bytes(8, "big") + told + data).hexdigest()[:32]
            self._add(f"{name}.json", told + b"\n")
            self._add(f"{name}.message", data)
        sync_directory(self._path)

    def _add(self, name: str, data: bytes) -> None:
        path = self._path / name
        if path.exists():
            return
        partial = self._path / f".{token_hex(8)}.partial"
        try:
            with partial.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        finally:
            with suppress(OSError):
                partial.unlink(missing_ok=True)
