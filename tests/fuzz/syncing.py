# SPDX-License-Identifier: Apache-2.0
"""Data from another store: messages over HTTP, and files of a sync."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgpack

import omsgrain as og
import oracle_negentropy
from containers import reclosed
from fuzz.target import Run, Target
from omsgrain import _core, container
from omsgrain.container.stream import pack_stream
from omsgrain.grain import encode
from omsgrain.storage import records
from omsgrain.store.prepared import SYNC_BYTE, SYNC_TYPE, is_sync_record
from omsgrain.sync import LocalPeer, bundle, protocol, sync, take_bundle, write_bundle
from omsgrain.sync.peer import EVERYTHING, Batch, GrainState, HoldToggle, Right, Tombstone
from support.sync_messages import GOOD
from support.sync_stores import TIME, belief, memory, told

_NAMES: Final = tuple(GOOD)


@contextmanager
def _message(room: Path) -> Iterator[Run]:
    """The first byte says which message it is to be, and whether it comes in a frame."""

    def run(data: bytes) -> None:
        first, body = (data[0], data[1:]) if data else (0, b"")
        table = protocol.QUESTIONS if first & 1 else protocol.ANSWERS
        cls = table[_NAMES[(first >> 1) % len(_NAMES)]]
        if first & 0x80:
            body = b"".join(pack_stream((), len(body).to_bytes(4, "big") + body))
        value = protocol.unpack(cls, body)
        assert protocol.unpack(cls, protocol.pack(value)) == value

    yield run


def _messages() -> list[bytes]:
    found = []
    for number, (question, answer) in enumerate(GOOD.values()):
        for way, value in ((1, question), (0, answer)):
            found.append(bytes([number << 1 | way]) + protocol.pack(value))
            found.append(bytes([0x80 | number << 1 | way]) + protocol.pack_value(value))
    return found


@contextmanager
def _batch(room: Path) -> Iterator[Run]:
    """A batch that is taken in; the first byte says with which rights. Others can take all."""

    def run(data: bytes) -> None:
        first, body = (data[0], data[1:]) if data else (0, b"")
        batch = protocol.unpack_value(Batch, body)
        rights = [right for n, right in enumerate(EVERYTHING) if first >> n & 1 or right == "give"]
        with memory() as store:
            kept = store.put(belief("kept"))
            store.holds.add(kept, authority="court", reason_code="case")
            try:
                LocalPeer(store, rights=rights).put(batch)
            finally:
                if "releases" not in rights:
                    assert store.status(kept).held
                for state in told(store).values():
                    protocol.check(state)
                    assert all(hold.epoch <= records.MOST for hold in state.holds)
                with memory() as other:
                    sync(LocalPeer(store), LocalPeer(other))

    yield run


def _batches() -> list[bytes]:
    """Large numbers, many states, many successors and holds, with few rights and with all."""
    kept = bytes.fromhex(og.address(og.encode(belief("kept"))))
    grains = [og.encode(belief(f"{n}", n)) for n in range(4)]
    keys = [bytes.fromhex(og.address(one)) for one in grains]
    turns = (1, 2, 2**16 + 2, 2**32, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1)
    holds = tuple(HoldToggle("court", turn, "case", turn >> 1) for turn in turns)
    states = (
        GrainState(kept, tuple(keys), 2**63 - 1, "verified", 2**64 - 1, holds),
        *(
            GrainState(key, (kept,), -1, "contested", turn)
            for key, turn in zip(keys, turns[4:], strict=True)
        ),
        GrainState(keys[0], tuple(bytes([n]) * 32 for n in range(200)), None, "retracted"),
        GrainState(keys[1], holds=tuple(HoldToggle(f"{n}", 1, "case", n) for n in range(200))),
    )
    stones = tuple(
        Tombstone(key, turn >> 1, "x", (turn >> 1) + 1)
        for key, turn in zip(keys, turns[4:], strict=True)
    )
    whole = Batch(b"o" * 16, None, tuple(grains), states, stones)
    found = [replace(whole, tombstones=()), whole, replace(whole, grains=())]
    found += [Batch(b"o" * 16, states=(one,)) for one in states]
    found += [Batch(b"o" * 16, grains=(one,)) for one in grains]
    return [
        bytes([rights]) + protocol.pack_value(one)
        for rights in (0x06, 0x2E, 0x7F)
        for one in found
    ]


@contextmanager
def _taken(room: Path, path: Path) -> Iterator[Run]:
    """A file that is taken in: the store is what it was, or has more, and is right."""
    store = memory()
    kept = store.put(belief("kept"))
    store.holds.add(kept, authority="court", reason_code="case")
    rights: tuple[tuple[Right, ...] | None, ...] = (
        None,
        ("grains",),
        ("grains", "states", "holds", "restrictions", "erasures"),
    )

    def run(data: bytes) -> None:
        with bundle.BundleFile(path) as file:
            list(file.batches())
        held = store.status(kept).held
        take_bundle(path, LocalPeer(store), rights=rights[len(data) % len(rights)])
        assert store.status(kept).held == held, "an unsigned file ends no hold"
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
            except (ValueError, TypeError):
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


@contextmanager
def _comparison(room: Path) -> Iterator[Run]:
    """A message about a set of items; the first byte says which side reads it, and how many."""
    sides = []
    for count in (0, 20, 3_000):
        items = _core.SyncItems()
        keys = [n.to_bytes(2, "big") * 16 for n in range(count)]
        items.add([(n // 7, key, bytes(8)) for n, key in enumerate(keys)])
        sides.append(items)

    def run(data: bytes) -> None:
        first, body = (data[0], data[1:]) if data else (0, b"")
        mine, initiator = sides[(first >> 1) % len(sides)], bool(first & 1)
        said, have, need = mine.answer(body, initiator, 4_096)
        assert len(said) <= 4_096 and len(need) <= len(body)
        assert initiator or not have + need
        assert _core.cut_message(body, 1 << 20) == body
        for other in sides:  # what it says can be read
            other.answer(said, not initiator, 4_096)
            other.answer(_core.cut_message(said, 300), not initiator, 4_096)

    yield run


def _comparisons() -> list[bytes]:
    items = [(n * 5, bytes([n]) * 32) for n in range(200)]
    client, server = oracle_negentropy.Side(items[::2]), oracle_negentropy.Side(items)
    found, message = list[bytes](), client.initiate()
    while message:
        found += [message, said := server.respond(message)]
        message = client.reconcile(said) or b""
    return [bytes([kind]) + one for kind in range(6) for one in found]


TARGETS = {
    "sync comparison": Target(_comparison, _comparisons),
    "sync message": Target(_message, _messages),
    "sync batch": Target(_batch, _batches),
    "sync file": Target(_file, _files, mend=lambda data: reclosed(data)),
    "sync records": Target(_records, _record_trees, "msgpack"),
}
