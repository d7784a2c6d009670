# SPDX-License-Identifier: Apache-2.0
"""The rows of encrypted grains: their keys, and what holders of the keys can look up.

A row of blind-1 says that a grain has a term or a word. Instead of the term it has an HMAC under a
key of the user. So equal values of two users look different, and only a holder of the key can make
the token for a query. The rows of a key are adjacent, so they can be deleted with the key.

    token    HMAC-SHA256(token key, key of the index row | "w" ++ word), 16 bytes
    place    as in the index, for the encrypted grain's address; the time is masked
             (``crypto.seal.mask``)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from omsgrain import _core
from omsgrain.errors import KeyMissingError
from omsgrain.search.words import PLAIN_KEYS, UNSEARCHED, spaced
from omsgrain.storage.tables import BLIND, KEPT, KEYED, META, PLAIN, SEALED, SEQUENCE, pieces

if TYPE_CHECKING:
    from omsgrain._core import BlindEntry
    from omsgrain.crypto.keyring.keyring import KeyRing
    from omsgrain.crypto.seal import UserKeys
    from omsgrain.grain import Grain
    from omsgrain.storage.base import Reader, Writer

NUMBER = 8
"""Bytes of a key's number."""
TOKEN = 16
_KEEPING = frozenset(
    ("invalidation_policy", "retention_policy", "fin:retention_years", "derived_from")
)
"""Fields that can require to keep a grain: its own rules, or its sources with theirs."""

_ASCII = spaced("".join(map(chr, range(128)))).encode()
_TEXTS = _core.TextFields(UNSEARCHED, PLAIN_KEYS, _KEEPING, _ASCII)

PLACE = 16
WORD = b"w"
"""Prefix of a word before its token is made; no key of an index row begins with it."""

_TRIED = 1_000  # keys to try on a grain of unknown owner, 2 us each

_COMPLEMENT = bytes(range(255, -1, -1))


SEALS_RECORD = b"sealed"
"""The record of a store that has ever encrypted a grain."""


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


def _blind_rows(
    grains: list[tuple[BlindEntry, bytes, int]], keys: Sequence[UserKeys]
) -> _core.BlindRows:
    from omsgrain.crypto.seal import mask_stream

    blocks = _core.blind_blocks(grains)
    streams = [mask_stream(keys[first].place, own) for first, own in blocks]
    return _core.blind_rows(grains, streams)


def add(
    writer: Writer, grains: list[tuple[BlindEntry, bytes, int]], keys: Sequence[UserKeys]
) -> None:
    """Write the rows of encrypted grains that were just put.

    Of each grain are passed: its entry, the address and number it is stored under, and its keys.
    """
    writer.set_rows(BLIND, _blind_rows(grains, keys))
    if writer.row(META, SEALS_RECORD) is None:
        writer.set_row(META, SEALS_RECORD, b"\1")
    for table, rows in zip((PLAIN, SEALED, KEYED, KEPT), _core.key_rows(grains), strict=True):
        if rows:
            writer.set_rows(table, rows)


def value_rows(seq: int, grain: Grain, keys: UserKeys, paths: _core.IndexedPaths) -> list[bytes]:
    """Make the rows of blind-1 for the values at paths of a decrypted grain."""
    from omsgrain.crypto.seal import mask

    whose = [(keys.number, keys.token, keys.address)]
    every, others = (
        _core.blind([grain.blob], [("", False, b"")], whose, some)[0] for some in (paths, None)
    )
    place = mask(keys.place, place_of(every.created_at, bytes.fromhex(grain.address), seq))
    tokens = [pieces(entry.tokens, TOKEN) for entry in (every, others)]
    return [keys.number + token + place for token in set(tokens[0]).difference(tokens[1])]


def key_of(reader: Reader, seq: int) -> bytes | None:
    """Return the number of a grain's key; None if it is plain or its key is not here."""
    return reader.row(SEALED, SEQUENCE.pack(seq))


def key_numbers(reader: Reader) -> Iterator[bytes]:
    """Iterate over the numbers of the keys that encrypt grains."""
    after: bytes | None = None
    while (row := next(reader.rows(KEYED, after), None)) is not None:
        number = row[0][:NUMBER]
        yield number
        after = number + b"\xff" * SEQUENCE.size


def seqs_of(reader: Reader, number: bytes, *, kept: bool = False, after: int = 0) -> Iterator[int]:
    """Return the grains that a key encrypts, after a sequence number, oldest first."""
    start = number + SEQUENCE.pack(after) if after else None
    for key, _ in reader.rows(KEPT if kept else KEYED, start, number):
        yield SEQUENCE.unpack(key[NUMBER:])[0]


def forget(writer: Writer, sealed: Mapping[bytes, bytes]) -> None:
    """Delete the rows of encrypted grains, given as rows of sealed-0.

    Without the key, only the places identify rows of blind-1, so all rows of a key are read, once
    for all of its grains.
    """
    by_key: dict[bytes, set[bytes]] = {}
    for key, number in sealed.items():
        by_key.setdefault(number, set()).add(key)
    for number, keys in by_key.items():
        ends = {key[-4:] for key in keys}
        blind = [row for row, _ in writer.rows(BLIND, prefix=number) if row[-4:] in ends]
        plain = [row for row, value in writer.rows(PLAIN, prefix=number) if value in keys]
        writer.unset_rows(BLIND, blind)
        _delete(writer, plain, [number + key for key in keys], list(keys))


def remove(
    writer: Writer, grains: list[tuple[BlindEntry, bytes, int]], keys: Sequence[UserKeys]
) -> None:
    """Delete the rows of encrypted grains whose keys are here, given as in ``add``.

    Each removed row changes its chunk of a sorted run, so remove many grains at once.
    """
    writer.unset_rows(BLIND, [row for row, _ in _blind_rows(grains, keys)])
    plain, sealed, keyed, _ = ([key for key, _ in rows] for rows in _core.key_rows(grains))
    _delete(writer, plain, keyed, sealed)


def _delete(writer: Writer, plain: list[bytes], keyed: list[bytes], sealed: list[bytes]) -> None:
    writer.unset_rows(PLAIN, plain)
    writer.unset_rows(KEYED, keyed)
    writer.unset_rows(KEPT, keyed)
    writer.unset_rows(SEALED, sealed)


def blind_entries(
    blobs: list[bytes], keys: Sequence[UserKeys], paths: _core.IndexedPaths | None = None
) -> list[BlindEntry]:
    """Make the rows beside encrypted grains, on all cores."""
    found = [one if one[0].isascii() else (spaced(one[0]), *one[1:]) for one in _TEXTS.of(blobs)]
    whose = [(one.number, one.token, one.address) for one in keys]
    return _core.blind(blobs, found, whose, paths)
