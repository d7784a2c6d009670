# SPDX-License-Identifier: Apache-2.0
"""Grains on their way into a store, and what only encrypted or signed ones need there.

An envelope is opened and its signature verified; a blob that is already encrypted is stored as it
is. With keys, the store encrypts users' grains here and writes their blind rows beside them.
``write.py`` puts all other grains.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from omsgrain import _core, registry
from omsgrain.batch import ItemError, ItemWarning
from omsgrain.errors import (
    KeyMissingError,
    OmsError,
    RangeError,
    SchemaError,
    SignedMismatchError,
    TooShortError,
)
from omsgrain.grain import bare, text_marks
from omsgrain.header import ENCRYPTED_BIT, ENVELOPE_BYTE, SIGNED_BIT
from omsgrain.storage import blind_index
from omsgrain.storage.base import Writer, stored
from omsgrain.storage.indexed_paths import blind_paths
from omsgrain.storage.tables import PLAIN, SEQUENCE, SIGNED

if TYPE_CHECKING:
    from omsgrain._core import BlindEntry
    from omsgrain.crypto.did import Resolver
    from omsgrain.crypto.keyring.keyring import KeyRing
    from omsgrain.crypto.seal import UserKeys
    from omsgrain.storage.signatures import Signature
    from omsgrain.store.context import Settings

SYNC_BYTE, SYNC_TYPE = 0xFB, "omsgrain:sync"
"""The type of the records in a file that a sync wrote, as byte and as text."""

Pair: TypeAlias = tuple[bytes, bytes]
"""A digest and its blob."""

SYNC = bytes((SYNC_BYTE,))
_VIEW = ("_disclosure_of", "_elided")
_CLAIMS = [field for field in registry.FIELDS if field.supersede_only]
CLAIM_MARKS = text_marks(field.short for field in (*_CLAIMS, *map(registry.field, _VIEW)))
"""Finds the blobs that may claim to supersede another, or to be a view of one."""

_LEAST_SEALED = 9 + 12 + 1 + 16  # header, nonce, an empty map, tag
_EVERYBODY = ""  # whose key seals what a rule wants encrypted and what belongs to no user


class KeysMovedError(Exception):
    """Keys were destroyed after the grains were sealed: seal them again."""


class Sealed(NamedTuple):
    """A grain before it was encrypted, its user's keys, and what is stored beside it."""

    plain: bytes
    keys: UserKeys
    blind: BlindEntry


@dataclass(slots=True)
class PreparedGrains:
    """Grains on their way into a store: encoded or verified, and sealed where it has keys."""

    pairs: list[Pair]  # their digests and blobs, as they will be stored
    places: Sequence[int] = ()  # where each stood among the items that were given
    count: int = 0  # how many items were given
    # the refusals of the other items, by their places
    errors: list[ItemError] = field(default_factory=list)
    # what is allowed but looks like a mistake
    warnings: list[ItemWarning] = field(default_factory=list)
    # positions of those given as bytes, which ``get`` must return byte for byte
    whole: set[int] = field(default_factory=set)
    # of signed grains, by position. If an enveloped grain was encrypted, its signature covers the
    # blob inside.
    signatures: dict[int, Signature] = field(default_factory=dict)
    clear: list[Pair] | None = None  # the pairs before encryption; None before ``seal``
    # of grains that were encrypted here, by position
    sealed: dict[int, Sealed] = field(default_factory=dict)
    generation: int = 0  # of the keys that encrypted them
    erased: frozenset[int] = frozenset()  # positions of erased grains, for which no key was made
    # why grains that arrived encrypted and can be decrypted are refused, by position
    refused: dict[int, OmsError] = field(default_factory=dict)
    # once a rule has asked: the addresses of the consents among them, by both names of encrypted
    # ones; and by addresses of consents, the grains that withdraw them
    consents: tuple[set[str], dict[str, set[str]]] | None = None

    def plain(self, i: int) -> bytes:
        """Return the digest of a grain before encryption."""
        return self.sealed[i].blind.digest if i in self.sealed else self.pairs[i][0]

    def only(self, which: Sequence[int]) -> PreparedGrains:
        """Return some of them, in this order."""
        signed, sealed = self.signatures, self.sealed
        return PreparedGrains(
            [self.pairs[i] for i in which],
            signatures={n: signed[i] for n, i in enumerate(which) if i in signed},
            sealed={n: sealed[i] for n, i in enumerate(which) if i in sealed},
            generation=self.generation,
            erased=frozenset(n for n, i in enumerate(which) if i in self.erased),
            refused={n: self.refused[i] for n, i in enumerate(which) if i in self.refused},
        )

    @classmethod
    def joined(cls, parts: Sequence[PreparedGrains]) -> PreparedGrains:
        """Join several that are not encrypted yet."""
        if len(parts) == 1:
            return parts[0]
        whole = cls([])
        places: list[int] = []
        for part in parts:
            first = len(whole.pairs)
            whole.pairs.extend(part.pairs)
            places.extend(whole.count + place for place in part.places)
            whole.count += part.count
            whole.whole.update(first + i for i in part.whole)
            whole.signatures.update({first + i: one for i, one in part.signatures.items()})
        whole.places = places
        return whole


def verify(
    given: dict[int, bytes], resolver: Resolver | None
) -> tuple[dict[int, Pair], dict[int, Signature], dict[int, OmsError]]:
    """Verify blobs in full, and the signatures of those in envelopes.

    Returns the good blobs, the signatures, and why the others are refused, by place.
    """
    signatures: dict[int, Signature] = {}
    wrong: dict[int, OmsError] = {}
    blobs = dict(given)
    if signed := [place for place, blob in given.items() if blob[:1] == ENVELOPE_BYTE]:
        from omsgrain.storage.signatures import examine_many

        found = examine_many([given[place] for place in signed], resolver)
        for place, examined in zip(signed, found, strict=True):
            if isinstance(examined, OmsError):
                wrong[place] = examined
            else:
                blobs[place], signatures[place] = examined
    for place in blobs.keys() - signatures.keys() - wrong.keys():
        if blobs[place][1:2] and blobs[place][1] & ENCRYPTED_BIT:
            if (error := _sealed_error(blobs[place])) is not None:
                wrong[place] = error
    plain = [
        place
        for place, blob in blobs.items()
        if place not in wrong and not (blob[1:2] and blob[1] & ENCRYPTED_BIT)
    ]
    # The core reads a signed blob as if its bit were not set; without an envelope it refuses it.
    checked = [bare(blobs[p]) if p in signatures else blobs[p] for p in plain]
    digests, refused = _core.check_many(checked)
    wrong |= {plain[index]: error for index, error in refused}
    known = dict(zip(plain, digests, strict=True))
    pairs = {}
    for place, blob in blobs.items():
        if place not in wrong:
            own = place in signatures or place not in known
            pairs[place] = (sha256(blob).digest() if own else known[place], blob)
    return pairs, {place: one for place, one in signatures.items() if place in pairs}, wrong


def _sealed_error(blob: bytes) -> OmsError | None:
    if len(blob) < _LEAST_SEALED:
        return TooShortError(
            "too short for a sealed grain",
            expected=f"at least {_LEAST_SEALED} bytes",
            found=str(len(blob)),
        )
    try:
        _core.header(blob)
    except OmsError as error:
        return error
    if blob[1] & SIGNED_BIT:
        return SignedMismatchError("the signed bit is set, but there is no envelope", offset=1)
    return None


def superseding(blobs: list[bytes], *, views_only: bool = False) -> dict[int, SchemaError]:
    """Find the grains that cannot be put as they are, by position. Spec: OMS §10, §23."""
    found = {}
    for index in CLAIM_MARKS.find(blobs):  # nearly every batch has none
        blob = blobs[index]
        if blob and not blob[1] & ENCRYPTED_BIT:
            fields = _core.decode(bare(blob))
            if any(name in fields for name in _VIEW):
                found[index] = SchemaError(
                    "the grain is a view of another, of which parts are hidden; "
                    "a view is not stored as a grain of its own",
                    field="/_disclosure_of",
                )
                continue
            name = next((claim.name for claim in _CLAIMS if claim.name in fields), None)
            if name is not None and not views_only:
                found[index] = SchemaError(
                    "the grain claims to supersede another; put it with supersede()",
                    field=f"/{name}",
                )
    return found


def is_sync_record(grain: bytes) -> bool:
    """Tell whether a blob or an envelope is a record of a sync; no store takes it as a grain."""
    return sync_record(grain) is not None


def sync_record(grain: bytes) -> str | None:
    """Return which record of a sync a blob or an envelope is; None if it is none."""
    enclosed = grain[:1] == ENVELOPE_BYTE
    if not enclosed and grain[2:3] != SYNC:
        return None
    try:
        blob = _core.envelope_blob(grain) if enclosed else grain
        if blob[2:3] != SYNC or blob[1] & ENCRYPTED_BIT:
            return None
        fields = _core.decode(bare(blob))
    except OmsError:
        return None
    return str(fields.get("record")) if fields.get("type") == SYNC_TYPE else None


def seal(
    settings: Settings,
    given: PreparedGrains,
    erased: Collection[int] = (),
    *,
    to_be_signed: bool = False,
) -> None:
    """Seal the grains that belong to a user, or that a rule wants encrypted.

    A second call seals all again, with the keys of then. No key is made for the positions in
    ``erased``. ``to_be_signed``: the sealed blobs will be signed.
    """
    ring = settings.keys
    if ring is None:
        return
    if given.clear is None:
        given.clear = given.pairs
    given.pairs, given.sealed, given.refused = list(given.clear), {}, {}
    given.consents = None
    blobs = [blob for _, blob in given.pairs]
    _adopt(ring, given, settings.resolver)
    owners = _owners(settings, blobs)
    # A user whose key was destroyed gets no new one for what will be refused.
    given.erased = frozenset(
        i for i in owners.keys() & set(erased) if ring.of_user(owners[i]) is None
    )
    for i in given.erased:
        del owners[i]
    if not owners:
        return
    given.generation = ring.refresh()
    ring.ensure(set(owners.values()))
    keys: dict[str, UserKeys] = {}
    for owner in set(owners.values()):
        found = ring.of_user(owner)
        if found is None:
            raise KeyMissingError("the key of a user was destroyed just now")
        keys[owner] = found
    _seal(given, blobs, owners, keys, to_be_signed)


def _adopt(ring: KeyRing, given: PreparedGrains, resolver: Resolver | None) -> None:
    """Decrypt grains that arrive encrypted with a key of this ring, so that queries find them.

    If the grain was encrypted in its envelope, the signature is inside.
    """
    sealed = [i for i, (_, blob) in enumerate(given.pairs) if blob[1] & ENCRYPTED_BIT]
    if not sealed:
        return
    from omsgrain.crypto.seal import open_plain
    from omsgrain.storage.signatures import examine

    given.generation = ring.refresh()
    trying = blind_index.KeyTrial(ring)
    opened: dict[int, tuple[bytes, UserKeys]] = {}
    for i in sealed:
        try:
            found = trying.open(given.pairs[i][1])
            if found is None:
                continue
            inner, keys = found
            if inner[:1] == ENVELOPE_BYTE:
                given.signatures.setdefault(i, examine(inner, resolver)[1])
            opened[i] = open_plain(inner), keys
        except OmsError as error:
            given.refused[i] = error
    entries = blind_index.blind_entries(
        [blob for blob, _ in opened.values()], [k for _, k in opened.values()]
    )
    for (i, (blob, keys)), entry in zip(opened.items(), entries, strict=True):
        given.sealed[i] = Sealed(blob, keys, entry)


def _owners(settings: Settings, blobs: Sequence[bytes]) -> dict[int, str]:
    """Return under whose key each grain is encrypted, by position."""
    owners: dict[int, str] = {}
    preset = settings.preset
    for i, user_id in enumerate(_core.user_ids(list(blobs))):
        if blobs[i][1] & ENCRYPTED_BIT:
            continue
        if user_id is not None:
            owners[i] = user_id
        elif preset is not None:
            refusals = preset.put_refusals(stored(blobs[i]))
            if any(isinstance(error, KeyMissingError) for error in refusals):
                owners[i] = _EVERYBODY
    return owners


def _seal(
    given: PreparedGrains,
    blobs: Sequence[bytes],
    owners: dict[int, str],
    keys: dict[str, UserKeys],
    signed: bool,
) -> None:
    from omsgrain.crypto.seal import Sealer, seal_many

    sealers = {owner: Sealer(found.content) for owner, found in keys.items()}
    plain = [blobs[i] for i in owners]
    whose = [keys[owner] for owner in owners.values()]
    entries = blind_index.blind_entries(plain, whose)
    inner = {i: given.signatures[i].envelope for i in owners if i in given.signatures}
    sealed = seal_many(
        [sealers[owner] for owner in owners.values()],
        [(inner.get(i, blobs[i]), i in inner or i in given.whole) for i in owners],
        signed=signed,
    )
    for i, pair, blob, own, entry in zip(owners, sealed, plain, whose, entries, strict=True):
        given.pairs[i] = pair
        given.sealed[i] = Sealed(blob, own, entry)


class Placed(NamedTuple):
    """The outcome for one grain.

    ``signed``: the store had it, and it has one signature more now. ``refusal``: that signature is
    one too many.
    """

    digest: bytes
    new: bool
    signed: bool = False
    refusal: RangeError | None = None


def place(writer: Writer, given: PreparedGrains, which: Sequence[int]) -> list[Placed]:
    """Put grains of which some are encrypted or signed, with their blind rows and signatures."""
    pairs = given.pairs
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
    seqs = dict(zip(which, writer.raw.find([stands[i] for i in which]), strict=True))
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


def known(writer: Writer, given: PreparedGrains, i: int) -> bytes | None:
    """Return the address under which the store has a grain that was encrypted now."""
    sealed = given.sealed.get(i)
    if sealed is None:
        return None
    row = writer.row(PLAIN, sealed.blind.name)
    if row is None:
        plain = given.plain(i)
        return plain if writer.raw.find([plain])[0] is not None else None
    blob = writer.blob_at(SEQUENCE.unpack(row)[0])
    return None if blob is None else sha256(blob).digest()


def _known(writer: Writer, given: PreparedGrains, which: Sequence[int]) -> dict[int, bytes | None]:
    """Do the same for many; nearly always one look-up shows that the store has none of them."""
    names = [one.blind.name for i in which if (one := given.sealed.get(i))]
    if writer.some_rows(PLAIN, names):
        return {i: known(writer, given, i) for i in which}
    plain = [i for i in which if i in given.sealed]
    found = writer.raw.find([given.plain(i) for i in plain])
    there = {i: given.plain(i) for i, seq in zip(plain, found, strict=True) if seq is not None}
    return {i: there.get(i) for i in which}


def _unread(
    writer: Writer, given: PreparedGrains, which: Sequence[int], news: dict[int, bool]
) -> list[tuple[int, int]]:
    """Return those that arrived encrypted before, when the store lacked their key."""
    met = [i for i in which if i in given.sealed and not news[i]]
    seqs = writer.raw.find([given.pairs[i][0] for i in met])
    found = {seq: i for seq, i in zip(seqs, met, strict=True) if seq is not None}
    return [(i, seq) for seq, i in found.items() if blind_index.key_of(writer, seq) is None]


def _firsts(given: PreparedGrains, which: Sequence[int]) -> dict[int, int]:
    """Return the first of equal grains for each: encrypted twice, a grain has two addresses."""
    firsts: dict[bytes, int] = {}
    return {
        i: firsts.setdefault(given.sealed[i].blind.name, i) if i in given.sealed else i
        for i in which
    }


def _add_rows(writer: Writer, given: PreparedGrains, fresh: list[tuple[int, int]]) -> None:
    """Write the blind rows of encrypted grains, given by positions and sequence numbers."""
    ours = [(i, seq) for i, seq in fresh if i in given.sealed]
    if ours:
        sealed = [given.sealed[i] for i, _ in ours]
        keys, entries = [one.keys for one in sealed], [one.blind for one in sealed]
        if (paths := blind_paths(writer)) is not None:
            # Made again, since only the transaction knows the paths.
            entries = blind_index.blind_entries([one.plain for one in sealed], keys, paths)
        grains = [
            (entry, given.pairs[i][0], seq) for entry, (i, seq) in zip(entries, ours, strict=True)
        ]
        blind_index.add(writer, grains, keys)


def _add_signature(writer: Writer, given: PreparedGrains, i: int, seq: int | None) -> bool:
    signature = given.signatures.get(i)
    if signature is None or seq is None:
        return False
    from omsgrain.storage import signatures

    blob = writer.blob_at(seq) or b""
    if i in given.sealed:
        if signatures.over(signature, given.pairs[i][1]):
            # Encrypted before it was signed; under another nonce it is not signed.
            own = blob == given.pairs[i][1]
            return own and signatures.add(writer, seq, blob, signature)
        sealed = given.sealed[i]
        if signatures.over(signature, blob):  # it is stored unencrypted
            return signatures.add(writer, seq, blob, signature)
        return signatures.add(writer, seq, sealed.plain, signature, sealed.keys)
    return signatures.add(writer, seq, given.pairs[i][1], signature)
