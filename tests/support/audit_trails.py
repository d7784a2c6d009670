# SPDX-License-Identifier: Apache-2.0
"""Stores with an audit trail, and what is asked of it."""

from __future__ import annotations

from typing import Any

from omsgrain.storage import audit
from omsgrain.storage.audit import AuditLog, AuditReport, Checkpoint
from omsgrain.storage.base import Storage, Writer
from omsgrain.storage.tables import AUDIT, DELETED, HELD, SUPERSEDED
from support.store_contract import Pair, make_pairs

HEAD, KEY = b"audit.head", b"audit.key"
TIME = 1768471200000


def note(store: Storage, operation: str, *digests: bytes, **more: Any) -> int:
    options: dict[str, Any] = {"actor": "did:web:robot.example", "time": TIME} | more
    return store.write(lambda w: audit.append(w, operation=operation, digests=digests, **options))


def put(store: Storage, *pairs: Pair, **more: Any) -> None:
    def work(writer: Writer) -> None:
        new = [p[0] for p, new in zip(pairs, writer.put(pairs), strict=True) if new]
        audit.append(writer, operation="put", actor=None, digests=new, time=TIME, **more)

    store.write(work)


def supersede(store: Storage, old: Pair, new: Pair) -> None:
    def work(writer: Writer) -> None:
        writer.put([new])
        writer.event(SUPERSEDED, writer.find([old[0]])[0] or 0, old[0])
        digests = [old[0], new[0]]
        audit.append(writer, operation="supersede", actor=None, digests=digests, time=TIME)

    store.write(work)


def remove(store: Storage, *pairs: Pair, operation: str = "delete", noted: bool = True) -> None:
    def work(writer: Writer) -> None:
        for digest, _ in pairs:
            seq = writer.find([digest])[0] or 0
            writer.event(DELETED, seq, digest)
            writer.remove(seq)
        if noted:
            digests = [digest for digest, _ in pairs]
            audit.append(writer, operation=operation, actor=None, digests=digests, time=TIME)

    store.write(work)


def rows(store: Storage) -> dict[int, bytes]:
    with store.read() as reader:
        return {int.from_bytes(key, "big"): row for key, row in reader.rows(AUDIT)}


def key(number: int) -> bytes:
    return number.to_bytes(8, "big")


def set_row(store: Storage, number: int, row: bytes | None) -> None:
    store.write(lambda writer: writer.set_row(AUDIT, key(number), row))


def verify(
    store: Storage, checkpoint: Checkpoint | None = None, grains: bool = False
) -> AuditReport:
    return AuditLog(store).verify(checkpoint, grains=grains)


def named(report: AuditReport, where: str = "chain") -> list[int | None]:
    assert report.ok == (not report.problems)
    return [problem.number for problem in report.problems if problem.where == where]


PAIRS = make_pairs(30, longest=40)


def lived(store: Storage) -> list[str]:
    """A store with some life; the operations of its entries, in order."""
    put(store, PAIRS[0])
    put(store, PAIRS[1])
    put(store, *PAIRS[2:22])
    supersede(store, PAIRS[0], PAIRS[22])
    note(store, "contest", PAIRS[1][0], reason_code="doubt", note="Somebody saw it otherwise.")
    store.write(lambda writer: writer.event(HELD, 2, PAIRS[1][0]))
    note(store, "hold", PAIRS[1][0], reason_code="litigation", details={"authority": "did:web:c"})
    note(store, "export", PAIRS[3][0], PAIRS[4][0], details={"codec": "zstd", "bytes": 1_234})
    remove(store, PAIRS[5])
    remove(store, PAIRS[6], PAIRS[7], operation="erase")
    note(store, "compact")
    return [entry.operation for entry in AuditLog(store).entries()]
