# SPDX-License-Identifier: Apache-2.0
"""A pass over the rows of sealed grains: what they say only keys can tell, where they lead all."""

from __future__ import annotations

from collections.abc import Iterator

from omsgrain.header import ENCRYPTED_BIT
from omsgrain.store.base import Problem
from omsgrain.store.examined import Examined
from omsgrain.store.sealing import NUMBER, PLACE, TOKEN
from omsgrain.store.tables import (
    BLIND,
    BLOBS,
    KEPT,
    KEYED,
    MARK,
    PLAIN,
    SEALED,
    SEQUENCE,
    VEILED,
    Table,
)

__all__ = ["sealed_problems"]

_FLAGS = MARK + 1  # where the flags of a blob stand in a row of blobs-0
_MODEL = 4


def sealed_problems(reader: Examined) -> Iterator[Problem]:
    """Walk the tables of life BLIND, and yield what is wrong."""
    numbers: dict[bytes, bytes] = {}  # the keys, by the last four bytes of the grains they seal
    keyed = 0
    for key, number in reader.rows(SEALED):
        row = reader.row(BLOBS, key) if len(key) == SEQUENCE.size else None
        if row is None or len(number) != NUMBER or not row[_FLAGS] & ENCRYPTED_BIT:
            yield _problem(SEALED, key, "a row is damaged, or not about a sealed grain")
            continue
        numbers[key[-4:]] = number
        if reader.row(KEYED, number + key) is None:
            yield _problem(SEALED, key, "its key does not lead to it")
        else:
            keyed += 1
    if reader.entries(KEYED) != keyed:
        yield _problem(KEYED, b"", "there are more rows than sealed grains")
    for key, _ in reader.rows(KEPT):
        if reader.row(KEYED, key) is None:
            yield _problem(KEPT, key[NUMBER:], "a row leads to no grain of its key")
    for key, value in reader.rows(PLAIN):
        if len(key) != NUMBER + TOKEN or numbers.get(value[-4:]) != key[:NUMBER]:
            yield _problem(PLAIN, value, "a row leads to no grain of its key")
    for key, _ in reader.rows(BLIND):
        if len(key) != NUMBER + TOKEN + PLACE or numbers.get(key[-4:]) != key[:NUMBER]:
            yield _problem(BLIND, bytes(4) + key[-4:], "a row leads to no grain of its key")
    for key, _ in reader.rows(VEILED):
        if len(key) != _MODEL + SEQUENCE.size or key[-4:] not in numbers:
            yield _problem(VEILED, key[_MODEL:], "a vector of no sealed grain")


def _problem(table: Table, key: bytes, message: str) -> Problem:
    seq = SEQUENCE.unpack(key)[0] if len(key) == SEQUENCE.size else None
    return Problem("state", seq, f"{table.name.decode()}: {message}")
