# SPDX-License-Identifier: Apache-2.0
"""The rows of encrypted grains: their keys, and what holders of the keys can look up.

A row of blind-0 says that a grain has a term or a word. Instead of the term it has an HMAC under a
key of the user. So equal values of two users look different, and only a holder of the key can make
the token for a query. The rows of a key are adjacent, so they can be deleted with the key.

    token    HMAC-SHA256(token key, key of the index row | "w" ++ word), 16 bytes
    place    as in the index, for the encrypted grain's address; the time is masked
             (``crypto.seal.mask``)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from omsgrain import _core
from omsgrain.errors import KeyMissingError
from omsgrain.search.words import PLAIN_KEYS, UNSEARCHED, spaced
from omsgrain.storage.tables import BLIND, KEPT, KEYED, META, PLAIN, SEALED, SEQUENCE

if TYPE_CHECKING:
    from omsgrain.crypto.keyring.keyring import KeyRing
    from omsgrain.crypto.seal import UserKeys
    from omsgrain.storage.base import Reader, Writer

NUMBER = 8
"""Bytes of a key's number."""
TOKEN = 16
_KEEPING = frozenset(
    ("invalidation_policy", "retention_policy", "fin:retention_years", "derived_from")
)
"""Fields that can require to keep a grain: its own rules, or its sources with theirs."""

_TEXTS = _core.TextFields(UNSEARCHED, PLAIN_KEYS, _KEEPING)

PLACE = 16
WORD = b"w"
"""Prefix of a word before its token is made; no key of an index row begins with it."""

_TRIED = 1_000  # keys to try on a grain of unknown owner, 2 us each

_COMPLEMENT = bytes(range(255, -1, -1))


SEALS_RECORD = b"sealed"
"""The record of whether the store has ever encrypted a grain."""
NONE_SEALED, SOME_SEALED = b"\0", b"\1"


class BlindEntry(NamedTuple):
    """The rows beside an encrypted grain, made from its content."""

    number: bytes  # number of the key that encrypts it
    digest: bytes  # its plain address
    plain: bytes  # the token of its plain address
    tokens: bytes  # the tokens of its terms and words, 16 bytes each
    created_at: int  # ms, for its place
    kept: bool  # it has a policy or retention that an erasure must check


class KeyTrial:
    """Decrypts grains of unknown owner by trying keys, because a blob does not name its key.

    The key that fitted last is tried first.
    """

    def __init__(self, ring: KeyRing) -> None:
        from omsgrain.crypto.seal import Sealer

        self._tried = [(keys, Sealer(keys.content)) for keys in islice(ring.users(), _TRIED)]

    def open(self, sealed: bytes) -> tuple[bytes, UserKeys] | None:
        """Return the verified content and the keys that decrypt it; None if no key does."""
        for n, (keys, sealer) in enumerate(self._tried):
            with suppress(KeyMissingError):
                inner = sealer.unseal(sealed, check=True)
                self._tried.insert(0, self._tried.pop(n))
                return inner, keys
        return None


def place_of(created_at: int, digest: bytes, seq: int) -> bytes:
    """Return the place of an encrypted grain in any list, before its time is masked."""
    head = created_at.to_bytes(6, "big") + digest[:6].translate(_COMPLEMENT)
    return head + SEQUENCE.pack(seq)[-4:]


def add(writer: Writer, rows: list[tuple[int, bytes, BlindEntry]]) -> None:
    """Write the rows of encrypted grains that were just put."""
    blind = [(entry.number, entry.tokens, place) for _, place, entry in rows]
    writer.set_rows(BLIND, _core.blind_rows(blind))
    if writer.row(META, SEALS_RECORD) != SOME_SEALED:
        writer.set_row(META, SEALS_RECORD, SOME_SEALED)
    keys = [(SEQUENCE.pack(seq), entry) for seq, _, entry in rows]
    writer.set_rows(PLAIN, [(entry.number + entry.plain, key) for key, entry in keys])
    writer.set_rows(SEALED, [(key, entry.number) for key, entry in keys])
    writer.set_rows(KEYED, [(entry.number + key, b"") for key, entry in keys])
    if kept := [(entry.number + key, b"") for key, entry in keys if entry.kept]:
        writer.set_rows(KEPT, kept)


def key_of(reader: Reader, seq: int) -> bytes | None:
    """Return the number of a grain's key; None if it is plain or its key is not here."""
    return reader.row(SEALED, SEQUENCE.pack(seq))


def seqs_of(reader: Reader, number: bytes, *, kept: bool = False, after: int = 0) -> Iterator[int]:
    """Return the grains that a key encrypts, after a sequence number, oldest first."""
    start = number + SEQUENCE.pack(after) if after else None
    for key, _ in reader.rows(KEPT if kept else KEYED, start, number):
        yield SEQUENCE.unpack(key[NUMBER:])[0]


def forget(writer: Writer, seq: int) -> None:
    """Delete the rows of an encrypted grain.

    Without the key, only the places identify its rows of blind-0, so all rows of the key are read.
    """
    number = key_of(writer, seq)
    if number is not None:
        key = SEQUENCE.pack(seq)
        blind = [row for row, _ in writer.rows(BLIND, prefix=number) if row[-4:] == key[-4:]]
        plain = [row for row, value in writer.rows(PLAIN, prefix=number) if value == key]
        _delete(writer, number, key, blind, plain)


def remove(writer: Writer, seq: int, place: bytes, entry: BlindEntry) -> None:
    """Delete the rows of an encrypted grain whose key is here."""
    number, tokens = entry.number, entry.tokens
    starts = range(0, len(tokens), TOKEN)
    blind = [number + tokens[at : at + TOKEN] + place for at in starts]
    _delete(writer, number, SEQUENCE.pack(seq), blind, [number + entry.plain])


def _delete(
    writer: Writer, number: bytes, key: bytes, blind: list[bytes], plain: list[bytes]
) -> None:
    for row in blind:
        writer.set_row(BLIND, row, None)
    for row in plain:
        writer.set_row(PLAIN, row, None)
    writer.set_row(KEYED, number + key, None)
    writer.set_row(KEPT, number + key, None)
    writer.set_row(SEALED, key, None)


def blind_entries(blobs: list[bytes], keys: list[UserKeys]) -> list[BlindEntry]:
    """Make the rows beside encrypted grains, on all cores."""
    found = _TEXTS.of(blobs)
    tokens = _core.blind(blobs, [spaced(text) for text, _, _ in found], [k.token for k in keys])
    plain = _core.tokens_each([k.address for k in keys], [digest for _, _, digest in found])
    return [
        BlindEntry(one.number, digest, name, together, created_at, kept)
        for one, (_, kept, digest), name, (together, created_at) in zip(
            keys, found, plain, tokens, strict=True
        )
    ]


def masked(keys: Sequence[UserKeys], places: Sequence[bytes]) -> list[bytes]:
    """Mask the times of places under the keys of their users."""
    from omsgrain.crypto.seal import mask

    groups: dict[bytes, list[int]] = {}
    for i, one in enumerate(keys):
        groups.setdefault(one.number, []).append(i)
    found = [b""] * len(places)
    for group in groups.values():
        together = mask(keys[group[0]].place, b"".join([places[i] for i in group]))
        for n, i in enumerate(group):
            found[i] = together[n * PLACE : (n + 1) * PLACE]
    return found
