# SPDX-License-Identifier: Apache-2.0
"""What comes into a store: dicts, grains and blobs, made into blobs that it may take.

A dict is encoded, a blob or a grain is verified in full: canonical form, schema, address. Of an
envelope the signature is verified too, and the blob goes in with its envelope beside it. A sealed
blob cannot be looked into and goes in as it is. A grain that claims to supersede another is
refused, since only superseding may do that, and so is a view of a grain of which parts are hidden,
and a record of a sync, which would make the exports of its store look like files of a sync.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from omsgrain import _core, registry
from omsgrain.batch import GrainBatch, ItemError, ItemWarning, encode_many
from omsgrain.errors import (
    KeyMissingError,
    OmsError,
    SchemaError,
    SignedMismatchError,
    TooShortError,
)
from omsgrain.grain import Grain, bare, options, stored_grain
from omsgrain.header import ENCRYPTED_BIT, ENVELOPE_BYTE, SIGNED_BIT
from omsgrain.storage import blind_index
from omsgrain.storage.blind_index import BlindEntry
from omsgrain.storage.scan import stored

if TYPE_CHECKING:
    from omsgrain.crypto.did import Resolver
    from omsgrain.crypto.keyring.keyring import KeyRing
    from omsgrain.crypto.seal import UserKeys
    from omsgrain.storage.signatures import Signature
    from omsgrain.store.context import Settings

SYNC_BYTE, SYNC_TYPE = 0xFB, "omsgrain:sync"
"""The type of the records in a file that a sync wrote, as byte and as text."""

Item: TypeAlias = Mapping[str, Any] | bytes | bytearray | memoryview
"""What can be put: fields, a grain (which is a mapping too) or a blob."""

Pair: TypeAlias = tuple[bytes, bytes]
"""A digest and its blob."""

_SYNC = bytes((SYNC_BYTE,))
_LEAST_SEALED = 9 + 12 + 1 + 16  # header, nonce, an empty map, tag


@dataclass(frozen=True, slots=True)
class Intake:
    """What became of some items.

    Attributes:
        pairs: one entry an item, in their order; None where it was refused.
        errors: the refusals, by position.
        warnings: what is allowed but looks like a mistake.
        whole: those that came as bytes, and are to come back byte for byte.
        signatures: those that came in an envelope.
    """

    pairs: list[Pair | None]
    errors: list[ItemError]
    warnings: list[ItemWarning]
    whole: set[int] = field(default_factory=set)
    signatures: dict[int, Signature] = field(default_factory=dict)

    def good(self) -> Sequence[int]:
        """The positions of those that were not refused."""
        if None not in self.pairs:
            return range(len(self.pairs))
        return [i for i, pair in enumerate(self.pairs) if pair is not None]


def take_one(item: Item, *, replacing: bool = False, resolver: Resolver | None = None) -> Intake:
    """Make one item a pair."""
    intake = Intake([None], [], [])
    blob = _blob_of(item)
    if blob is None:
        blob = _core.encode_plain(item)  # type: ignore[arg-type]  # None for what is no dict
        if blob is None:
            blob, notes = _core.encode(item, options())  # type: ignore[arg-type]  # refuses no map
            intake.warnings.extend([ItemWarning(0, None, note) for note in notes])
        intake.pairs[0] = (sha256(blob).digest(), blob)
    elif blob[1:2] and not blob[1] & (SIGNED_BIT | ENCRYPTED_BIT) and blob[:1] != ENVELOPE_BYTE:
        _core.check(blob)
        intake.pairs[0] = (sha256(blob).digest(), blob)
        intake.whole.add(0)
    else:
        _verify({0: blob}, intake, 0, resolver)
    if not intake.errors:
        _refuse(intake, 0, replacing)
    for bad in intake.errors:
        raise bad.error
    return intake


def intakes(
    items: Iterable[Item] | GrainBatch,
    size: int,
    resolver: Resolver | None = None,
) -> Iterator[Intake]:
    """Make many items pairs, ``size`` at a time, on all cores.

    The good grains of a ``GrainBatch`` come from the core, so only their claims are looked at.
    """
    if isinstance(items, GrainBatch):
        intake = _from_batch(items)
        for start in range(0, len(intake.pairs), size):
            end = start + size
            errors = [error for error in intake.errors if start <= error.index < end]
            yield Intake(intake.pairs[start:end], errors, [])
        return
    source = iter(items)
    first = 0
    while chunk := list(islice(source, size)):
        yield _take(chunk, first, resolver)
        first += len(chunk)


def _take(items: Sequence[Item], first: int, resolver: Resolver | None) -> Intake:
    intake = Intake([None] * len(items), [], [])
    given: dict[int, bytes] = {}
    kinds = set(map(type, items))
    if kinds == {bytes} and (pairs := _core.check_plain(items)) is not None:  # type: ignore[arg-type]
        intake.pairs[:] = pairs
        intake.whole.update(range(len(items)))
    elif kinds == {dict}:
        _encode(items, range(len(items)), intake, first)
    else:
        fields: dict[int, Item] = {}
        for index, item in enumerate(items):
            blob = _blob_of(item)
            if blob is None:
                fields[index] = item
            else:
                given[index] = blob
        if fields:
            _encode(fields.values(), list(fields), intake, first)
    if given:
        _verify(given, intake, first, resolver)
    _refuse(intake, first)
    intake.errors.sort(key=lambda error: error.index)
    return intake


def _from_batch(batch: GrainBatch) -> Intake:
    intake = Intake(list(zip(batch.digests, batch.blobs, strict=True)), [], [])
    _refuse(intake, 0)
    return intake


def _blob_of(item: object) -> bytes | None:
    if isinstance(item, Grain):
        return item.blob  # perhaps read leniently, so it is verified like any other
    return bytes(item) if isinstance(item, bytes | bytearray | memoryview) else None


def _encode(fields: Iterable[Item], places: Sequence[int], intake: Intake, first: int) -> None:
    batch = encode_many(fields, errors="collect")  # type: ignore[arg-type]
    pairs = zip(batch.digests, batch.blobs, strict=True)
    if len(batch) == len(intake.pairs):
        intake.pairs[:] = pairs
    else:
        for index, pair in zip(batch.indices, pairs, strict=True):
            intake.pairs[places[index]] = pair
    intake.errors.extend(
        ItemError(first + places[bad.index], None, bad.error) for bad in batch.errors
    )
    intake.warnings.extend(
        ItemWarning(first + places[note.index], None, note.message) for note in batch.warnings
    )


def _verify(
    given: dict[int, bytes], intake: Intake, first: int, resolver: Resolver | None
) -> None:
    intake.whole.update(given)
    signed = [place for place, blob in given.items() if blob[:1] == ENVELOPE_BYTE]
    wrong: dict[int, OmsError] = {}
    if signed:
        wrong = _open(signed, given, intake, resolver)
    for place in given.keys() - intake.signatures.keys() - wrong.keys():
        if given[place][1:2] and given[place][1] & ENCRYPTED_BIT:
            if (error := _sealed_error(given[place])) is not None:
                wrong[place] = error
    plain = [
        place
        for place, blob in given.items()
        if place not in wrong and not (blob[1:2] and blob[1] & ENCRYPTED_BIT)
    ]
    # The core reads a signed blob as if its bit were not set; without an envelope it refuses it.
    checked = [bare(given[p]) if p in intake.signatures else given[p] for p in plain]
    digests, refused = _core.check_many(checked)
    wrong |= {plain[index]: error for index, error in refused}
    known = dict(zip(plain, digests, strict=True))
    for place, blob in given.items():
        if place not in wrong:
            own = place in intake.signatures or place not in known
            intake.pairs[place] = (sha256(blob).digest() if own else known[place], blob)
    for place, error in wrong.items():
        intake.signatures.pop(place, None)
        intake.errors.append(ItemError(first + place, None, error))


def _open(
    places: list[int], given: dict[int, bytes], intake: Intake, resolver: Resolver | None
) -> dict[int, OmsError]:
    """Take blobs out of their envelopes, verifying the signatures; gives what is refused."""
    from omsgrain.storage.signatures import examine_many

    wrong: dict[int, OmsError] = {}
    found = examine_many([given[place] for place in places], resolver)
    for place, examined in zip(places, found, strict=True):
        if isinstance(examined, OmsError):
            wrong[place] = examined
        else:
            given[place], intake.signatures[place] = examined
    return wrong


def _sealed_error(blob: bytes) -> OmsError | None:
    """What is wrong with a sealed blob, as far as it shows."""
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


def _refuse(intake: Intake, first: int, replacing: bool = False) -> None:
    blobs = [b"" if pair is None else pair[1] for pair in intake.pairs]
    wrong = {
        index: SchemaError("a record of a sync is no grain of a store", field="/type")
        for index, blob in enumerate(blobs)
        if blob[2:3] == _SYNC and is_sync_record(blob)
    }
    for index, error in (wrong | superseding(blobs, views_only=replacing)).items():
        intake.pairs[index] = None
        intake.signatures.pop(index, None)
        intake.errors.append(ItemError(first + index, None, error))


def superseding(blobs: list[bytes], *, views_only: bool = False) -> dict[int, SchemaError]:
    """Find the grains that cannot be put as they are, by position. Spec: OMS §10, §23."""
    names, marks = _marks()
    found = {}
    for index in marks.find(blobs):  # nearly every batch has none
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
            name = next((name for name in names if name in fields), None)
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
    if not enclosed and grain[2:3] != _SYNC:
        return None
    try:
        blob = _core.envelope_blob(grain) if enclosed else grain
        if blob[2:3] != _SYNC or blob[1] & ENCRYPTED_BIT:
            return None
        fields = _core.decode(bare(blob))
    except OmsError:
        return None
    return str(fields.get("record")) if fields.get("type") == SYNC_TYPE else None


_VIEW = ("_disclosure_of", "_elided")


@cache
def _marks() -> tuple[tuple[str, ...], _core.Marks]:
    """The fields of a superseding grain, and their keys as the codecs write them."""
    fields = [field for field in registry.FIELDS if field.supersede_only]
    keys = [field.short.encode() for field in (*fields, *map(registry.field, _VIEW))]
    # A string of up to 23 bytes is head plus length, then the bytes: MessagePack 0xA0, CBOR 0x60.
    marks = [bytes([head + len(key)]) + key for key in keys for head in (0xA0, 0x60)]
    return tuple(field.name for field in fields), _core.Marks(marks)


_CONSENT = 10  # type byte
_EVERYBODY = ""  # whose key seals what a rule wants sealed and what belongs to no user


class KeysMovedError(Exception):
    """Keys were destroyed after the grains were sealed: seal them anew."""


class Sealed(NamedTuple):
    """What a sealed grain was before.

    Attributes:
        plain: its blob, as who holds the key sees it.
        keys: of its user.
        veil: what is stored beside it.
    """

    plain: bytes
    keys: UserKeys
    veil: BlindEntry


class Consents(NamedTuple):
    """The consents among some grains.

    Attributes:
        given: their addresses, by both names of sealed ones.
        withdrawn: by the addresses of consents, those of the grains that withdraw them.
    """

    given: set[str]
    withdrawn: dict[str, set[str]]


@dataclass(slots=True)
class Incoming:
    """Grains that are to be put.

    Attributes:
        pairs: as they will be stored.
        signatures: of those that are signed, by position. That of a grain which came in an
            envelope and was sealed is over what is inside.
        sealed: of those that were sealed here, by position.
        generation: of the keys that they were sealed with.
        erased: positions of those that were erased before, and for which no key was made.
        refused: of those that came sealed, by position: why what a key of here opens is refused.
    """

    pairs: list[Pair]
    signatures: dict[int, Signature] = field(default_factory=dict)
    sealed: dict[int, Sealed] = field(default_factory=dict)
    generation: int = 0
    erased: frozenset[int] = frozenset()
    refused: dict[int, OmsError] = field(default_factory=dict)
    _consents: Consents | None = None

    def grain(self, i: int) -> Grain:
        """The grain as who holds the keys sees it, under the address that it will have."""
        digest, blob = self.pairs[i]
        if i in self.sealed:
            return stored_grain(self.sealed[i].plain, digest.hex())
        return stored_grain(blob, digest.hex())

    def plain(self, i: int) -> bytes:
        """The digest of the grain before it was sealed."""
        return self.sealed[i].veil.digest if i in self.sealed else self.pairs[i][0]

    def only(self, which: Sequence[int]) -> Incoming:
        """Some of them, in this order."""
        signed, sealed = self.signatures, self.sealed
        return replace(
            self,
            pairs=[self.pairs[i] for i in which],
            signatures={n: signed[i] for n, i in enumerate(which) if i in signed},
            sealed={n: sealed[i] for n, i in enumerate(which) if i in sealed},
            erased=frozenset(n for n, i in enumerate(which) if i in self.erased),
            refused={n: self.refused[i] for n, i in enumerate(which) if i in self.refused},
            _consents=None,
        )

    def consents(self) -> Consents:
        """The consents among them, and what withdraws one.

        They are gathered once, for every grain of a large batch asks for them.
        """
        if self._consents is None:
            found = Consents(set(), {})
            for i, (digest, blob) in enumerate(self.pairs):
                if blob[2] != _CONSENT:
                    continue
                grain, plain = self.grain(i), self.plain(i).hex()
                if grain.get("is_withdrawal") is False:
                    found.given.update((digest.hex(), plain))
                elif prior := grain.get("prior_consent"):
                    found.withdrawn.setdefault(prior, set()).add(plain)
            self._consents = found
        return self._consents


def incoming(settings: Settings, intake: Intake, erased: Collection[int] = ()) -> Incoming:
    """Take over what was not refused, and seal it where the store has keys."""
    pairs = [pair for pair in intake.pairs if pair is not None]
    if settings.keys is None and not intake.signatures:
        return Incoming(pairs)
    good = intake.good()
    signatures = {n: intake.signatures[i] for n, i in enumerate(good) if i in intake.signatures}
    whole = {n for n, i in enumerate(good) if i in intake.whole}
    gone = frozenset(n for n, i in enumerate(good) if i in erased)
    return seal(settings, Incoming(pairs, signatures, erased=gone), whole)


def seal(
    settings: Settings,
    given: Incoming,
    whole: Collection[int] = (),
    *,
    to_be_signed: bool = False,
) -> Incoming:
    """Seal those that belong to a user, or that a rule wants sealed."""
    ring = settings.keys
    if ring is None:
        return given
    blobs = [blob for _, blob in given.pairs]
    given = _adopt(ring, given, settings.resolver)
    owners = _owners(settings, blobs)
    # Whose key was destroyed gets no new one for what will be refused.
    gone = frozenset(i for i in given.erased & owners.keys() if ring.of_user(owners[i]) is None)
    for i in gone:
        del owners[i]
    given = replace(given, erased=gone)
    if not owners:
        return given
    generation = ring.refresh()
    ring.ensure(set(owners.values()))
    keys: dict[str, UserKeys] = {}
    for owner in set(owners.values()):
        found = ring.of_user(owner)
        if found is None:
            raise KeyMissingError("the key of a user was destroyed just now")
        keys[owner] = found
    done = replace(
        given, pairs=list(given.pairs), sealed=dict(given.sealed), generation=generation
    )
    for i, sealed, blob in _seal(blobs, owners, keys, given, whole, to_be_signed):
        done.pairs[i] = (sha256(blob).digest(), blob)
        done.sealed[i] = sealed
    return done


def _adopt(ring: KeyRing, given: Incoming, resolver: Resolver | None) -> Incoming:
    """Open what comes sealed with a key of this ring, so that it can be found again.

    The signature of a grain that was sealed in its envelope is found in there.
    """
    sealed = [i for i, (_, blob) in enumerate(given.pairs) if blob[1] & ENCRYPTED_BIT]
    if not sealed:
        return given
    from omsgrain.crypto.seal import open_plain
    from omsgrain.storage.signatures import examine

    generation = ring.refresh()
    trying = blind_index.KeyTrial(ring)
    opened: dict[int, tuple[bytes, UserKeys]] = {}
    signatures, refused = dict(given.signatures), dict(given.refused)
    for i in sealed:
        try:
            found = trying.open(given.pairs[i][1])
            if found is None:
                continue
            inner, keys = found
            if inner[:1] == ENVELOPE_BYTE:
                signatures.setdefault(i, examine(inner, resolver)[1])
            opened[i] = open_plain(inner), keys
        except OmsError as error:
            refused[i] = error
    veils = blind_index.blind_entries(
        [blob for blob, _ in opened.values()], [k for _, k in opened.values()]
    )
    adopted = {
        i: Sealed(blob, keys, veil)
        for (i, (blob, keys)), veil in zip(opened.items(), veils, strict=True)
    }
    return replace(
        given, sealed=adopted, signatures=signatures, generation=generation, refused=refused
    )


def _owners(settings: Settings, blobs: Sequence[bytes]) -> dict[int, str]:
    """Under whose key each is sealed, by position."""
    owners: dict[int, str] = {}
    for i, user_id in enumerate(_core.user_ids(list(blobs))):
        if blobs[i][1] & ENCRYPTED_BIT:
            continue
        if user_id is not None:
            owners[i] = user_id
        elif settings.preset is not None and _wanted(settings, blobs[i]):
            owners[i] = _EVERYBODY
    return owners


def _wanted(settings: Settings, blob: bytes) -> bool:
    if settings.preset is None:
        return False
    refusals = settings.preset.put_refusals(stored(blob))
    return any(isinstance(error, KeyMissingError) for error in refusals)


def _seal(
    blobs: Sequence[bytes],
    owners: dict[int, str],
    keys: dict[str, UserKeys],
    given: Incoming,
    whole: Collection[int],
    signed: bool,
) -> Iterable[tuple[int, Sealed, bytes]]:
    from omsgrain.crypto.seal import Sealer

    sealers = {owner: Sealer(found.content) for owner, found in keys.items()}
    veils = blind_index.blind_entries(
        [blobs[i] for i in owners], [keys[owner] for owner in owners.values()]
    )
    for (i, owner), veil in zip(owners.items(), veils, strict=True):
        blob = blobs[i]
        inner = given.signatures[i].envelope if i in given.signatures else blob
        all_of_it = i in whole or i in given.signatures
        sealed = sealers[owner].seal(inner, whole=all_of_it, signed=signed)
        yield i, Sealed(blob, keys[owner], veil), sealed
