# SPDX-License-Identifier: Apache-2.0
"""The rows of sealed grains: which key seals which, and what those with the key can look up.

A row of blind-0 says that a grain has a term or a word, in the place of the term its HMAC under a
key of its user. So equal values of two users have nothing in common, and only a holder of the key
can make the token to ask for. The rows of a key are neighbours: they can all go when it does.

    token    HMAC-SHA256(token key, key of the index row | "w" ++ word), 16 bytes
    place    as in the index, of the sealed address; the time masked (``crypto.seal.mask``)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from omsgrain import _core
from omsgrain.errors import KeyMissingError
from omsgrain.grain import bare
from omsgrain.search.words import words_of
from omsgrain.storage.tables import BLIND, KEPT, KEYED, META, PLAIN, SEALED, SEQUENCE

if TYPE_CHECKING:
    from omsgrain.crypto.keyring.keyring import KeyRing
    from omsgrain.crypto.seal import UserKeys
    from omsgrain.storage.base import Reader, Writer

NUMBER = 8
"""Bytes of the number of a key."""
TOKEN = 16
_KEEPING = frozenset(
    ("invalidation_policy", "retention_policy", "fin:retention_years", "derived_from")
)
"""Fields by which a grain may have to be kept: its own rules, or those that it derives from."""

PLACE = 16
WORD = b"w"
"""The prefix of a word where its token is made; no index row's key begins so."""

_TRIED = 1_000  # keys that are tried on a grain of which nothing says whose it is, 2 us each

_COMPLEMENT = bytes(range(255, -1, -1))


SEALS_RECORD = b"sealed"
"""Whether the store has ever sealed a grain."""
NONE_SEALED, SOME_SEALED = b"\0", b"\1"


class BlindEntry(NamedTuple):
    """What is stored beside a sealed grain, made from what is in it."""

    number: bytes  # of the key that seals it
    digest: bytes  # its plain address
    plain: bytes  # token of its plain address
    tokens: bytes  # of its terms and words, 16 bytes each, together
    created_at: int  # ms, for its place
    kept: bool  # it has a policy or a retention of its own, which an erasure must look at


class KeyTrial:
    """Opens sealed grains of which nothing says whose they are: a blob does not tell its key.

    The key that opened one is the first that is tried on the next.
    """

    def __init__(self, ring: KeyRing) -> None:
        from omsgrain.crypto.seal import Sealer

        self._tried = [(keys, Sealer(keys.content)) for keys in islice(ring.users(), _TRIED)]

    def open(self, sealed: bytes) -> tuple[bytes, UserKeys] | None:
        """Give what is sealed, verified, and whose key opened it; None if none of them does."""
        for n, (keys, sealer) in enumerate(self._tried):
            with suppress(KeyMissingError):
                inner = sealer.unseal(sealed, check=True)
                self._tried.insert(0, self._tried.pop(n))
                return inner, keys
        return None


def place_of(created_at: int, digest: bytes, seq: int) -> bytes:
    """The place of a sealed grain in any list, before its time is masked."""
    head = created_at.to_bytes(6, "big") + digest[:6].translate(_COMPLEMENT)
    return head + SEQUENCE.pack(seq)[-4:]


def add(writer: Writer, rows: list[tuple[int, bytes, BlindEntry]]) -> None:
    """Write the rows of sealed grains that were just put."""
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
    """The number of the key that seals a grain; None if it is not sealed, or not with ours."""
    return reader.row(SEALED, SEQUENCE.pack(seq))


def seqs_of(reader: Reader, number: bytes, *, kept: bool = False) -> Iterator[int]:
    """The grains that a key seals, oldest first."""
    for key, _ in reader.rows(KEPT if kept else KEYED, prefix=number):
        yield SEQUENCE.unpack(key[NUMBER:])[0]


def forget(writer: Writer, seq: int) -> None:
    """Delete the rows of a sealed grain.

    Without its key only the places tell which rows of blind-0 are its own, so all rows of that
    key are read.
    """
    number = key_of(writer, seq)
    if number is not None:
        key = SEQUENCE.pack(seq)
        blind = [row for row, _ in writer.rows(BLIND, prefix=number) if row[-4:] == key[-4:]]
        plain = [row for row, value in writer.rows(PLAIN, prefix=number) if value == key]
        _delete(writer, number, key, blind, plain)


def remove(writer: Writer, seq: int, place: bytes, entry: BlindEntry) -> None:
    """Delete the rows of a sealed grain whose key is here."""
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
    """Make what is stored beside sealed grains, on all cores."""
    fields = [_core.decode(bare(blob)) for blob in blobs]
    words = [[word.encode() for word in words_of(one)] for one in fields]
    tokens = _core.blind(blobs, words, [one.token for one in keys])
    digests = [sha256(blob).digest() for blob in blobs]
    plain = _core.tokens_each([one.address for one in keys], digests)
    return [
        BlindEntry(one.number, digest, name, together, created_at, not _KEEPING.isdisjoint(said))
        for one, said, digest, name, (together, created_at) in zip(
            keys, fields, digests, plain, tokens, strict=True
        )
    ]


def masked(keys: Sequence[UserKeys], places: Sequence[bytes]) -> list[bytes]:
    """Mask the times of places, each under the key of its user; once for each key."""
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
