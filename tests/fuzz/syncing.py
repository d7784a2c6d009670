# SPDX-License-Identifier: Apache-2.0
"""What another store sends: messages over HTTP, and files of a sync."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgpack

import omsgrain as og
from containers import reclosed
from fuzz.target import Run, Target
from omsgrain import container
from omsgrain.container.packed import pack_stream
from omsgrain.grain import encode
from omsgrain.intake import SYNC_BYTE, SYNC_TYPE, is_sync_record
from omsgrain.sync import LocalPeer, bundle_file, message, take_bundle, wire, write_bundle
from sync_stores import TIME, belief, memory
from test_sync_bounds import GOOD

_NAMES: Final = tuple(GOOD)


@contextmanager
def _message(room: Path) -> Iterator[Run]:
    """The first byte says which message it is to be, and whether it comes in a frame."""

    def run(data: bytes) -> None:
        first, body = (data[0], data[1:]) if data else (0, b"")
        table = message.QUESTIONS if first & 1 else message.ANSWERS
        cls = table[_NAMES[(first >> 1) % len(_NAMES)]]
        if first & 0x80:
            body = b"".join(pack_stream((), len(body).to_bytes(4, "big") + body))
        value = message.unpack(cls, body)
        assert message.unpack(cls, message.pack(value)) == value

    yield run


def _messages() -> list[bytes]:
    found = []
    for number, (question, answer) in enumerate(GOOD.values()):
        for way, value in ((1, question), (0, answer)):
            found.append(bytes([number << 1 | way]) + message.pack(value))
            found.append(bytes([0x80 | number << 1 | way]) + wire.pack(value))
    return found


@contextmanager
def _taken(room: Path, path: Path) -> Iterator[Run]:
    """A file that is taken in: the store is what it was, or has more, and is right."""
    store = memory()
    kept = store.put(belief("kept"))

    def run(data: bytes) -> None:
        with bundle_file.BundleFile(path) as file:
            list(file.batches())
        take_bundle(path, LocalPeer(store))
        assert store.audit.verify().ok
        assert store.get(kept)["object"] == "kept"

    yield run
    store.close()


@contextmanager
def _file(room: Path) -> Iterator[Run]:
    path = room / "in.mg"
    with _taken(room, path) as take:

        def run(data: bytes) -> None:
            path.write_bytes(data)
            take(data)

        yield run


def _store() -> og.GrainStore:
    store = memory()
    first = store.put(belief("on"))
    store.put(belief("dim", 1, namespace="hall"))
    store.supersede(first, belief("off", 2), justification="seen")
    store.contest(store.put(belief("red", 3)))
    store.delete_many([store.put(belief("gone", 4))], erased="gdpr17")
    return store


def _files() -> list[bytes]:
    from tempfile import TemporaryDirectory

    found = []
    with TemporaryDirectory() as room, _store() as store:
        path = Path(room) / "out.mg"
        every: list[dict[str, Any]] = [{}, {"share_keys": True}, {"namespaces": ["hall"]}]
        for options in every:
            write_bundle(LocalPeer(store), path, clock=lambda: TIME, **options)
            found.append(path.read_bytes())
    return found


@contextmanager
def _records(room: Path) -> Iterator[Run]:
    """The records of a file, as one tree: pairs of a kind and its value, and grains as bytes."""
    path = room / "in.mg"
    with _taken(room, path) as take:

        def run(data: bytes) -> None:
            try:
                tree = msgpack.unpackb(data, strict_map_key=False)
            except (ValueError, TypeError, msgpack.UnpackException):
                return
            items = [
                one if isinstance(one, bytes) else _record(one)
                for one in (tree if isinstance(tree, list) else [tree])
            ]
            container.write(path, items, codec="zstd")
            take(data)

        yield run


def _record(one: Any) -> bytes:
    given = [*(one if isinstance(one, list) else [one]), *[None] * 5]
    kind, value, part, of, grains = given[:5]
    fields = {"record": kind, "value": msgpack.packb(value), "part": part, "of": of}
    return encode({"type": SYNC_TYPE, "created_at": TIME, "grains": grains, **fields},
                  type_byte=SYNC_BYTE)  # fmt: skip


def _record_trees() -> list[bytes]:
    found = []
    for data in _files():
        tree: list[Any] = []
        for grain in _grains_of(data):
            if not is_sync_record(grain):
                tree.append(grain)
                continue
            fields = og.decode(grain).fields
            value = msgpack.unpackb(fields["value"], strict_map_key=False)
            tree.append([fields[n] if n != "value" else value for n in _PARTS])
        found.append(msgpack.packb(tree))
    return found


_PARTS: Final = ("record", "value", "part", "of", "grains")


def _grains_of(data: bytes) -> list[bytes]:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as room:
        path = Path(room) / "x.mg"
        path.write_bytes(data)
        with container.read(path) as found:
            return list(found)


TARGETS = {
    "sync message": Target(_message, _messages),
    "sync file": Target(_file, _files, mend=lambda data: reclosed(data)),
    "sync records": Target(_records, _record_trees, "msgpack"),
}
