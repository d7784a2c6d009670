# SPDX-License-Identifier: Apache-2.0
"""A pass over what is known about the grains: does it make sense, and is it about grains there?"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, get_args

import msgpack

from omsgrain.errors import IntegrityError
from omsgrain.store import mentions, toggles
from omsgrain.store.base import Problem
from omsgrain.store.examined import Examined
from omsgrain.store.state import unpack
from omsgrain.store.tables import (
    BLOBS,
    COUNTER,
    COUNTERS,
    DELETED,
    EVENT,
    EVENTS,
    HOLDS,
    MARK,
    META,
    MODELS,
    NAMED,
    REVIEWS,
    SEQUENCE,
    STATES,
    SUPERSEDES,
    TOGGLES,
    VECTORS,
    Kind,
    Table,
)

__all__ = ["state_problems"]

_KINDS = get_args(Kind)
_VECTOR_KEY = struct.Struct(">IQ")
_FLOAT = 4
_GONE = "it is about a grain that is not there"
_DAMAGED = "a row is damaged"


def state_problems(reader: Examined) -> Iterator[Problem]:
    """Walk every table of life STATE but the audit trail, and yield what is wrong."""
    yield from _Supersessions(reader).problems()
    yield from _about_grains(reader, COUNTERS)
    yield from _about_grains(reader, HOLDS)
    yield from _toggles(reader)
    yield from _events(reader)
    yield from _reviews(reader)
    yield from _vectors(reader)
    yield from _mentions(reader)


class _Supersessions:
    """The states, and the table that leads from a new grain to those that it superseded."""

    def __init__(self, reader: Examined) -> None:
        self.reader = reader
        self.absent: dict[
            bytes, int
        ] = {}  # a successor that is not there: the first it superseded
        self.pairs = 0
        self.removed = {
            EVENT.unpack(row)[2]
            for _, row in reader.rows(EVENTS)
            if len(row) == EVENT.size and row[:1] == DELETED
        }

    def problems(self) -> Iterator[Problem]:
        for key, row in self.reader.rows(STATES):
            seq = _number(key)
            if seq is None:
                yield _problem(STATES, None, _DAMAGED)
                continue
            if not self.reader.has_blob(seq):
                yield _problem(STATES, seq, _GONE)
            try:
                successors = unpack(row).successors
            except IntegrityError:
                yield _problem(STATES, seq, _DAMAGED)
                continue
            yield from self._successors(seq, [bytes.fromhex(a) for a in successors])
        if self.reader.entries(SUPERSEDES) != self.pairs:
            yield _problem(
                SUPERSEDES, None, "there are more or fewer rows than the states tell of"
            )
        yield from self._absent()

    def _successors(self, seq: int, digests: list[bytes]) -> Iterator[Problem]:
        for digest, new in zip(digests, self.reader.find(digests), strict=True):
            if new is None:
                self.absent.setdefault(digest, seq)
                continue
            if self.reader.row(SUPERSEDES, SEQUENCE.pack(new) + SEQUENCE.pack(seq)) is not None:
                self.pairs += 1
            elif digest not in self.removed:  # else it was put again, and has superseded nothing
                yield _problem(SUPERSEDES, seq, "the grain that superseded it does not lead to it")

    def _absent(self) -> Iterator[Problem]:
        """A successor may have been removed, and then an event says so."""
        for digest, seq in self.absent.items():
            if digest not in self.removed:
                yield _problem(STATES, seq, "a grain that superseded it is not there")


def _about_grains(reader: Examined, table: Table) -> Iterator[Problem]:
    for key, row in reader.rows(table):
        seq = _number(key)
        if seq is None or not (len(row) == COUNTER.size if table is COUNTERS else _list(row)):
            yield _problem(table, seq, _DAMAGED)
        elif not reader.has_blob(seq):
            yield _problem(table, seq, _GONE)


def _toggles(reader: Examined) -> Iterator[Problem]:
    for key, row in reader.rows(TOGGLES):
        seq, what = _number(key[: SEQUENCE.size]), key[SEQUENCE.size :]
        if seq is None or not what or not toggles.is_sound(row):
            yield _problem(TOGGLES, seq, _DAMAGED)
        elif not reader.has_blob(seq):
            yield _problem(TOGGLES, seq, _GONE)


def _events(reader: Examined) -> Iterator[Problem]:
    before, last = 0, reader.last_seq()
    for key, row in reader.rows(EVENTS):
        number = _number(key)
        if number is None or len(row) != EVENT.size or row[:1] not in _KINDS:
            yield _problem(EVENTS, None, _DAMAGED)
            continue
        _, seq, digest = EVENT.unpack(row)
        blob = reader.row(BLOBS, SEQUENCE.pack(seq))
        if not before < number <= last or seq >= number or reader.has_blob(number):
            yield _problem(EVENTS, seq, f"event {number} is out of its order")
        elif blob is not None and blob[:MARK] != digest[:MARK]:
            yield _problem(EVENTS, seq, f"event {number} is about a grain of another address")
        before = number


def _reviews(reader: Examined) -> Iterator[Problem]:
    for key, row in reader.rows(REVIEWS):
        number, review = _number(key), _unpack(row)
        if number is None or not isinstance(review, dict):
            yield _problem(REVIEWS, None, _DAMAGED)
        elif review.get("operation") == "put":  # the number of the grain, which may be gone
            if not 0 < number <= reader.last_seq():
                yield _problem(REVIEWS, None, f"no grain has had the number {number}")
        elif reader.row(EVENTS, key) is None:
            yield _problem(REVIEWS, None, f"there is no event {number} that it is of")


def _vectors(reader: Examined) -> Iterator[Problem]:
    dimensions: dict[int, int] = {}
    for _, row in reader.rows(MODELS):
        try:
            record = _unpack(row)
            number, dimension = int(record["id"]), int(record["dimension"])
        except (TypeError, KeyError, ValueError):
            yield _problem(MODELS, None, _DAMAGED)
            continue
        if number in dimensions:
            yield _problem(MODELS, None, "two models have the same number")
        dimensions[number] = dimension
    for key, row in reader.rows(VECTORS):
        if len(key) != _VECTOR_KEY.size:
            yield _problem(VECTORS, None, _DAMAGED)
            continue
        model, seq = _VECTOR_KEY.unpack(key)
        if model not in dimensions:
            yield _problem(VECTORS, seq, "it is of a model that is not there")
        elif len(row) != _FLOAT * dimensions[model]:
            yield _problem(VECTORS, seq, "it is not as long as its model says")
        elif not reader.has_blob(seq):
            yield _problem(VECTORS, seq, _GONE)


def _mentions(reader: Examined) -> Iterator[Problem]:
    last = reader.row(META, mentions.NAMED_RECORD) or b""
    for key, row in reader.rows(EVENTS):
        if key > last:
            return
        for digest in mentions.said(EVENTS, row):
            if key not in mentions.places(reader, [digest])[0]:
                yield _problem(NAMED, None, f"no row leads to event {_number(key)}")


def _number(key: bytes) -> int | None:
    return int(SEQUENCE.unpack(key)[0]) if len(key) == SEQUENCE.size else None


def _list(row: bytes) -> bool:
    return isinstance(_unpack(row), list)


def _unpack(row: bytes) -> Any:
    try:
        return msgpack.unpackb(row)
    except (ValueError, TypeError, msgpack.UnpackException):
        return None


def _problem(table: Table, seq: int | None, message: str) -> Problem:
    return Problem("state", seq, f"{table.name.decode()}: {message}")
