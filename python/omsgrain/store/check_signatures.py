# SPDX-License-Identifier: Apache-2.0
"""A pass over the signatures: does each hold, and has every signed grain one?"""

from __future__ import annotations

from collections.abc import Iterator

from omsgrain.errors import IntegrityError, OmsError
from omsgrain.header import ENCRYPTED_BIT, SIGNED_BIT
from omsgrain.store.base import PAGE_BYTES, Problem
from omsgrain.store.examined import Examined
from omsgrain.store.signatures import SEALED, examine_many, read_row
from omsgrain.store.tables import SEQUENCE, SIGNATURES

__all__ = ["signature_problems"]

_KEY = SEQUENCE.size + 16


def signature_problems(reader: Examined) -> Iterator[Problem]:
    """Yield what is wrong with the signatures, and the signed grains that have none.

    A signature by a DID that needs a resolver is only taken apart: a check asks nobody.
    """
    numbers: list[int] = []
    envelopes: list[bytes] = []
    size = 0
    for key, row in reader.rows(SIGNATURES):
        if len(key) != _KEY:
            yield _problem(None, "a row is damaged")
            continue
        (seq,) = SEQUENCE.unpack_from(key)
        blob = reader.blob_at(seq)
        if blob is None:
            yield _problem(seq, "it is over a grain that is not there")
            continue
        if row[:1] == SEALED and blob[1] & ENCRYPTED_BIT:
            continue  # only its key can tell
        try:
            envelope = read_row(blob, key, row).envelope
        except IntegrityError:
            yield _problem(seq, "a row is damaged, or over a grain of other bytes")
            continue
        numbers.append(seq)
        envelopes.append(envelope)
        size += len(envelope)
        if size >= PAGE_BYTES:
            yield from _refused(numbers, envelopes)
            numbers, envelopes, size = [], [], 0
    yield from _refused(numbers, envelopes)
    yield from _unsigned(reader)


def _refused(numbers: list[int], envelopes: list[bytes]) -> Iterator[Problem]:
    for seq, found in zip(numbers, examine_many(envelopes), strict=True):
        if isinstance(found, OmsError):
            yield _problem(seq, f"a signature does not hold ({found.code})")


def _unsigned(reader: Examined) -> Iterator[Problem]:
    after = 0
    while page := reader.page(after):
        after = page[-1][0]
        for seq, blob in page:
            # Where a key was destroyed, the signatures over what it sealed went too.
            signed = len(blob) > 1 and blob[1] & (SIGNED_BIT | ENCRYPTED_BIT) == SIGNED_BIT
            if signed and next(reader.rows(SIGNATURES, prefix=SEQUENCE.pack(seq)), None) is None:
                yield _problem(seq, "the grain says that it is signed, and has no signature")


def _problem(seq: int | None, message: str) -> Problem:
    return Problem("signature", seq, message)
