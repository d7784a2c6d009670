# SPDX-License-Identifier: Apache-2.0
"""Grains on their way into the store, sealed if they must be.

It is done before the transaction, since it may have to make keys, and costs. What only a
transaction can tell comes after (``placing.py``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from omsgrain import _core
from omsgrain.errors import KeyMissingError, OmsError
from omsgrain.grain import Grain
from omsgrain.header import ENCRYPTED_BIT
from omsgrain.intake import Intake, Pair
from omsgrain.store import sealing
from omsgrain.store.sealing import Veil
from omsgrain.store.simply import stored

if TYPE_CHECKING:
    from omsgrain.crypto import Resolver
    from omsgrain.crypto.keyring import KeyRing, UserKeys
    from omsgrain.engine.base import Settings
    from omsgrain.store.signatures import Signature

__all__ = ["Incoming", "KeysMovedError", "Sealed", "incoming", "seal"]

_CONSENT = 10  # type byte
_ENVELOPE = b"\xd2"
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
    veil: Veil


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
            return Grain._stored(self.sealed[i].plain, digest.hex())
        return Grain._stored(blob, digest.hex())

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
    """Take over what was not refused, and seal it where the store has keys.

    Args:
        settings: with the keys.
        intake: what came in.
        erased: positions of those that were erased before and may not come back.
    """
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
    """Seal those that belong to a user, or that a rule wants sealed.

    Args:
        settings: with the keys; without, all stays as it is.
        given: with plain blobs.
        whole: positions of those that are to come back byte for byte.
        to_be_signed: set their signed bits, since the sealed grains are going to be signed.
    """
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
    from omsgrain.store.signatures import examine

    generation = ring.refresh()
    trying = sealing.Trying(ring)
    opened: dict[int, tuple[bytes, UserKeys]] = {}
    signatures, refused = dict(given.signatures), dict(given.refused)
    for i in sealed:
        try:
            found = trying.open(given.pairs[i][1])
            if found is None:
                continue
            inner, keys = found
            if inner[:1] == _ENVELOPE:
                signatures.setdefault(i, examine(inner, resolver)[1])
            opened[i] = open_plain(inner), keys
        except OmsError as error:
            refused[i] = error
    veils = sealing.veils([blob for blob, _ in opened.values()], [k for _, k in opened.values()])
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
    veils = sealing.veils([blobs[i] for i in owners], [keys[owner] for owner in owners.values()])
    for (i, owner), veil in zip(owners.items(), veils, strict=True):
        blob = blobs[i]
        inner = given.signatures[i].envelope if i in given.signatures else blob
        all_of_it = i in whole or i in given.signatures
        sealed = sealers[owner].seal(inner, whole=all_of_it, signed=signed)
        yield i, Sealed(blob, keys[owner], veil), sealed
