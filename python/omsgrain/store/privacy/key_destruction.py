# SPDX-License-Identifier: Apache-2.0
"""Destroy the keys of a person, and the rows that belong to the keys."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

from omsgrain.errors import ErasedError, KeyMissingError, OmsError, RangeError
from omsgrain.grain import Grain, stored_grain
from omsgrain.header import ENCRYPTED_BIT
from omsgrain.storage import blind_index
from omsgrain.storage.base import Reader, Writer
from omsgrain.storage.records import forget_vectors
from omsgrain.storage.tables import BLIND, KEPT, KEYED, PLAIN, SEQUENCE, SIGNATURES
from omsgrain.store.privacy import removal
from omsgrain.store.privacy.identity import Identities
from omsgrain.store.privacy.removal import GrainAddresses

if TYPE_CHECKING:
    from omsgrain.crypto.keyring.keyring import KeyRing
    from omsgrain.crypto.seal import UserKeys
    from omsgrain.store.context import Context
    from omsgrain.store.privacy.erasure import ErasureRequest

TABLES = (BLIND, PLAIN, KEPT)
"""Tables of rows that are useless without their key."""


def numbers_of(ring: KeyRing, people: Identities) -> tuple[bytes, ...]:
    """Return the numbers of a person's keys that are not destroyed."""
    found = []
    for name in people:
        try:
            keys = ring.of_user(name)
        except RangeError:  # the name is too long for a user id
            continue
        if keys is not None:
            found.append(keys.number)
    return tuple(found)


def destroyed_here(context: Context) -> list[bytes]:
    """Return the numbers of the destroyed keys of which this store has grains."""
    found: list[bytes] = []
    if (ring := context.settings.keys) is not None:
        with context.storage.read() as reader:
            for number in blind_index.key_numbers(reader):
                try:
                    ring.by_number(number)
                except ErasedError:
                    found.append(number)
                except KeyMissingError:
                    pass  # from another key file
    return found


def left_behind(
    reader: Reader, ring: KeyRing, people: Identities, *, ciphertext: bool
) -> tuple[bytes, ...]:
    """Return the numbers of a person's keys that were destroyed through another store.

    A key ring can serve several stores, and an erasure sweeps only one of them.
    """
    from omsgrain.crypto.seal import LONGEST

    names = [name for name in people if len(name.encode()) <= LONGEST]
    table = KEYED if ciphertext else PLAIN  # every encrypted grain has rows in both until a sweep
    return tuple(
        number
        for number in ring.destroyed(names)
        if next(reader.rows(table, prefix=number), None) is not None
    )


def destroy(
    context: Context, writer: Writer, request: ErasureRequest, gone: dict[bytes, UserKeys]
) -> tuple[list[bytes], list[bytes]]:
    """Destroy the keys of a request that no kept grain needs.

    It runs in a transaction, so that no hold can be added meanwhile. A destroyed key stays
    destroyed even if the transaction fails, so ``gone`` collects the keys over all its runs.
    Returns the numbers of the keys that were destroyed before, and of those that are kept.
    """
    ring, now = context.settings.keys, context.settings.clock()
    spent: list[bytes] = []
    kept: list[bytes] = []
    if ring is None:
        return spent, kept
    names: list[str] = []
    for number in request.numbers:
        if number in gone:
            continue
        try:
            keys, name = ring.by_number(number), ring.user_id_of(number)
        except ErasedError:
            spent.append(number)
            continue
        except KeyMissingError:  # from another key file
            kept.append(number)
            continue
        if removal.keeps_key(writer, context.settings, number, now):
            kept.append(number)
        else:
            gone[number] = keys
            names.append(name)
    if names:
        ring.erase(names)
    if gone:
        details: dict[str, int | str] = {"keys_destroyed": len(gone)}
        context.note(writer, "erase", [], reason_code=request.reason_code, details=details)
    return spent, kept


def opened(
    reader: Reader, seq: int, keys: UserKeys | None
) -> tuple[GrainAddresses, Grain | None] | None:
    """Return the addresses of an encrypted grain, and the grain if its key is given."""
    from omsgrain.crypto.seal import Sealer, open_plain

    blob = reader.blob_at(seq)
    if blob is None:
        return None
    stored = sha256(blob).digest()
    if keys is None or not blob[1] & ENCRYPTED_BIT:
        return GrainAddresses(stored, None), None
    try:
        plain = open_plain(Sealer(keys.content).unseal(blob))
    except OmsError:  # damaged
        return GrainAddresses(stored, None), None
    return GrainAddresses(stored, sha256(plain).digest(), plain), stored_grain(plain, stored.hex())


def drop_beside(writer: Writer, seqs: Sequence[int]) -> None:
    """Delete the vectors and signatures of grains."""
    for seq in seqs:
        key = SEQUENCE.pack(seq)
        for row, _ in list(writer.rows(SIGNATURES, prefix=key)):
            writer.set_row(SIGNATURES, row, None)
    forget_vectors(writer, seqs)
