# SPDX-License-Identifier: Apache-2.0
"""Putting grains, with all that goes along: their signatures, and the blind rows of sealed ones.

Two things only the transaction can tell: whether a grain that was sealed just now is in the store
already, sealed under another nonce, and what it is signed by there.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

from omsgrain.engine.incoming import Incoming
from omsgrain.errors import RangeError
from omsgrain.store import sealing
from omsgrain.store.base import Writer
from omsgrain.store.tables import PLAIN, SEQUENCE, SIGNED

__all__ = ["Placed", "known", "place"]


class Placed(NamedTuple):
    """What became of one grain.

    Attributes:
        digest: the address that it stands under.
        new: whether it was not there before.
        signed: whether it was there, and has a signature more now.
        refusal: its signature is one too many.
    """

    digest: bytes
    new: bool
    signed: bool = False
    refusal: RangeError | None = None


def place(writer: Writer, given: Incoming, which: Sequence[int]) -> list[Placed]:
    """Put grains, those of some positions; what became of each, in that order."""
    pairs = given.pairs
    if not given.sealed and not given.signatures:
        flags = writer.put([pairs[i] for i in which])
        return [Placed(pairs[i][0], new) for i, new in zip(which, flags, strict=True)]
    below: Writer = getattr(writer, "inner", writer)
    first = _firsts(given, which)
    digests = _known(writer, given, which)
    fresh = [i for i in which if digests[i] is None and first[i] == i]
    news = dict(zip(fresh, writer.put([pairs[i] for i in fresh]), strict=True))
    stands = {i: digests[i] or pairs[first[i]][0] for i in which}
    came = [i for i in fresh if news[i]]
    last = writer.last_seq()
    sealed = list(zip(came, range(last + 1 - len(came), last + 1), strict=True))
    _add_rows(writer, given, sealed + _unread(writer, given, fresh, news))
    if not given.signatures:
        return [Placed(stands[i], news.get(i, False)) for i in which]
    seqs = dict(zip(which, below.find([stands[i] for i in which]), strict=True))
    placed = []
    for i in which:
        new, seq = news.get(i, False), seqs[i]
        try:
            added = _add_signature(writer, given, i, seq)
        except RangeError as error:
            placed.append(Placed(stands[i], False, refusal=error))
            continue
        if added and seq is not None and seq <= last - len(came):  # it was there before
            writer.event(SIGNED, seq, stands[i])
        placed.append(Placed(stands[i], new, added and not new))
    return placed


def known(writer: Writer, given: Incoming, i: int) -> bytes | None:
    """The address under which a grain that was sealed now is in the store already."""
    sealed = given.sealed.get(i)
    if sealed is None:
        return None
    row = writer.row(PLAIN, sealed.veil.number + sealed.veil.plain)
    if row is None:
        plain = given.plain(i)
        below: Writer = getattr(writer, "inner", writer)
        return plain if below.find([plain])[0] is not None else None
    blob = writer.blob_at(SEQUENCE.unpack(row)[0])
    return None if blob is None else sha256(blob).digest()


def _known(writer: Writer, given: Incoming, which: Sequence[int]) -> dict[int, bytes | None]:
    """The same of many; nearly always none is there, and one question tells so."""
    names = [one.veil.number + one.veil.plain for i in which if (one := given.sealed.get(i))]
    below: Writer = getattr(writer, "inner", writer)
    if writer.some_rows(PLAIN, names):
        return {i: known(writer, given, i) for i in which}
    plain = [i for i in which if i in given.sealed]
    found = below.find([given.plain(i) for i in plain])
    there = {i: given.plain(i) for i, seq in zip(plain, found, strict=True) if seq is not None}
    return {i: there.get(i) for i in which}


def _unread(
    writer: Writer, given: Incoming, which: Sequence[int], news: dict[int, bool]
) -> list[tuple[int, int]]:
    """Those that came sealed before, when nobody here had the key that opened them now."""
    met = [i for i in which if i in given.sealed and not news[i]]
    below: Writer = getattr(writer, "inner", writer)
    seqs = below.find([given.pairs[i][0] for i in met])
    found = {seq: i for seq, i in zip(seqs, met, strict=True) if seq is not None}
    return [(i, seq) for seq, i in found.items() if sealing.key_of(writer, seq) is None]


def _firsts(given: Incoming, which: Sequence[int]) -> dict[int, int]:
    """For each the first that is the same: one grain sealed twice has two addresses."""
    firsts: dict[bytes, int] = {}
    found = {}
    for i in which:
        veil = given.sealed[i].veil if i in given.sealed else None
        name = given.pairs[i][0] if veil is None else veil.number + veil.plain
        found[i] = firsts.setdefault(name, i) if veil is not None else i
    return found


def _add_rows(writer: Writer, given: Incoming, fresh: list[tuple[int, int]]) -> None:
    """Write the rows of sealed grains, by their positions and numbers."""
    ours = [(seq, given.pairs[i][0], given.sealed[i]) for i, seq in fresh if i in given.sealed]
    if not ours:
        return
    places = [sealing.place_of(one.veil.created_at, digest, seq) for seq, digest, one in ours]
    places = sealing.masked([one.keys for _, _, one in ours], places)
    sealing.add(
        writer,
        [(seq, at, one.veil) for (seq, _, one), at in zip(ours, places, strict=True)],
    )


def _add_signature(writer: Writer, given: Incoming, i: int, seq: int | None) -> bool:
    signature = given.signatures.get(i)
    if signature is None or seq is None:
        return False
    from omsgrain.store import signatures

    blob = writer.blob_at(seq) or b""
    if i in given.sealed:
        if signatures.over(signature, given.pairs[i][1]):
            # Sealed before it was signed; if it stands under another nonce, that is not signed.
            own = blob == given.pairs[i][1]
            return own and signatures.add(writer, seq, blob, signature)
        sealed = given.sealed[i]
        if signatures.over(signature, blob):  # it stands there as a plain one
            return signatures.add(writer, seq, blob, signature)
        return signatures.add_sealed(writer, seq, sealed.plain, signature, sealed.keys)
    return signatures.add(writer, seq, given.pairs[i][1], signature)
