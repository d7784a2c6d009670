# SPDX-License-Identifier: Apache-2.0
"""Stores to be queried, and what asks them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import omsgrain as og
from omsgrain.query.filters import Filters
from omsgrain.query.query import Page, run
from omsgrain.storage.base import Reader, Writer
from omsgrain.storage.records import PAST, GrainStatus, Verification, pack
from omsgrain.storage.tables import SEQUENCE, STATES
from omsgrain.store.context import context_of
from support.store_kinds import POSTGRES, made

TIME = 1_700_000_000_000
NEW = "ab" * 32
OLD_STATE = GrainStatus(superseded_by=NEW, successors=(NEW,), system_valid_to=TIME + 50)


def event(name: str, at: int, **fields: Any) -> dict[str, Any]:
    return {"type": "event", "content": name, "created_at": TIME + at, **fields}


def note(n: int, **fields: Any) -> dict[str, Any]:
    """A belief of Ada about a door, in a house of its own."""
    return {
        "type": "belief",
        "subject": "door",
        "relation": "is",
        "object": f"open {n}",
        "confidence": 0.9,
        "created_at": TIME + n,
        "user_id": "ada",
        "namespace": f"house:{n}",
        **fields,
    }


def verified(status: Verification) -> GrainStatus:
    return GrainStatus(verification_status=status)


#: Filters that no index answers.
TESTS: list[dict[str, Any]] = [
    {"valid_at": TIME},
    {"known_at": TIME},
    {"verification_status": "retracted"},
    {"min_confidence": 0.5},
]


def put(store: og.GrainStore, fields: Any, state: GrainStatus | None = None) -> str:
    address = store.put(fields)
    if state is not None:
        set_state(store, address, state)
    return address


def set_state(store: og.GrainStore, address: str, state: GrainStatus) -> None:
    def work(writer: Writer) -> None:
        [seq] = writer.find([bytes.fromhex(address)])
        assert seq is not None
        writer.set_row(STATES, SEQUENCE.pack(seq), pack(state))
        writer.set_past(seq, bool(state.bits & PAST))

    context_of(store).storage.write(work)


def ask(store: og.GrainStore | Reader, limit: int = 50, **asked: Any) -> Page:
    """Answer a query on a store, or on a snapshot."""
    options = ("order", "cursor", "count", "explain", "scan")
    given = {name: asked.pop(name) for name in options if name in asked}
    filters = cast("Filters", asked)
    if not isinstance(store, og.GrainStore):
        return run(store, filters, limit=limit, **given)
    with context_of(store).storage.read() as reader:
        return run(reader, filters, limit=limit, **given)


def names(page: Page) -> list[str]:
    return [hit.grain["content"] for hit in page.results]


KINDS = ["memory", "tail", "flushed", POSTGRES]


@contextmanager
def opened(kind: str, path: Path) -> Iterator[og.GrainStore]:
    """A store in memory, or on disk with nothing in the index yet, or with everything in it."""
    if kind in ("memory", "postgres"):
        with og.GrainStore(made(kind, path / "memory.omsg")) as store:
            yield store
        return
    with og.open(path / "memory.omsg", durability="relaxed") as store:
        write = context_of(store).storage.write

        def write_and_flush(work: Any, **given: Any) -> Any:
            result = write(work, **given)
            context_of(store).inner.flush()
            return result

        if kind == "flushed":
            context_of(store).storage.write = write_and_flush  # type: ignore[method-assign]
        yield store


def remove(store: og.GrainStore, seq: int) -> None:
    context_of(store).storage.write(lambda writer: writer.remove(seq))


def numbers(store: og.GrainStore, *addresses: str) -> list[int]:
    with context_of(store).storage.read() as reader:
        found = reader.find([bytes.fromhex(address) for address in addresses])
    return [seq for seq in found if seq is not None]
