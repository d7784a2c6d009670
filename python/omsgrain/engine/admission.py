# SPDX-License-Identifier: Apache-2.0
"""May these grains come in? What only a store can tell: erasures, signatures, goals, rules."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omsgrain import _core
from omsgrain.engine import origins
from omsgrain.engine.placing import known
from omsgrain.errors import ErasedError, KeyMissingError, OmsError, SignatureError
from omsgrain.grain import Grain
from omsgrain.header import ENCRYPTED_BIT
from omsgrain.store import sealing, tombstones
from omsgrain.store.base import Writer

if TYPE_CHECKING:
    from omsgrain.engine.base import Settings
    from omsgrain.engine.incoming import Incoming

__all__ = [
    "Admission",
    "admit",
    "check_basis",
    "erased",
    "in_the_clear",
    "let_back",
    "refuse",
    "was_erased",
]

_GOAL = 7  # type byte: most grains are none, and cost no more than a look at it


@dataclass(frozen=True, slots=True)
class Admission:
    """What a store says of grains that are to be put, by position.

    Attributes:
        refused: why they may not come in.
        reviews: the rules by which somebody should look at them.
    """

    refused: dict[int, OmsError]
    reviews: dict[int, tuple[str, ...]]


def admit(
    writer: Writer, settings: Settings, given: Incoming, allow_erased: bool = False
) -> Admission:
    """Ask of each grain whether it may come in; one that is there already is not asked again."""
    asked = settings.preset is not None or settings.delegation or settings.require is not None
    found = Admission(_refused(writer, settings, given, allow_erased), {})
    below: Writer = getattr(writer, "inner", writer)
    looked_at: Iterable[int] = range(len(given.pairs))
    if not asked:
        looked_at = [i for i, (_, blob) in enumerate(given.pairs) if blob[2] == _GOAL]
    for i in looked_at:
        if i in found.refused:
            continue
        digest = given.pairs[i][0]
        if below.find([digest])[0] is None and known(writer, given, i) is None:
            try:
                if rules := _rules(writer, settings, given, i):
                    found.reviews[i] = rules
            except OmsError as error:
                found.refused[i] = error
    if allow_erased:
        let_back(writer, given, found.refused)
    return found


def let_back(writer: Writer, given: Incoming, refused: Container[int] = ()) -> None:
    """Let records be what they were before they were erased, for they come in again.

    Args:
        writer: the transaction.
        given: the grains.
        refused: the positions of those that do not come in.
    """
    origins.lift(writer, (blob for i, blob in enumerate(_plain(given)) if i not in refused))


def erased(writer: Writer, given: Incoming) -> dict[int, OmsError]:
    """Those that were erased before, by position, each with its refusal."""
    digests = (
        [given.plain(i) for i in range(len(given.pairs))]
        if given.sealed
        else [digest for digest, _ in given.pairs]
    )
    refused = tombstones.refused(writer, digests) | origins.refused(writer, _plain(given))
    if not (refused or given.erased):
        return {}
    below: Writer = getattr(writer, "inner", writer)
    gone = {
        i
        for i in refused
        if known(writer, given, i) is None and below.find([given.pairs[i][0]])[0] is None
    }
    return {i: was_erased() for i in gone | given.erased}


def _plain(given: Incoming) -> Iterator[bytes]:
    """The blobs as they were before they were sealed."""
    for i, (_, blob) in enumerate(given.pairs):
        yield given.sealed[i].plain if i in given.sealed else blob


def was_erased() -> ErasedError:
    """The refusal of a grain that was erased before."""
    return ErasedError(
        "this grain was erased", expected="allow_erased=True, if it is to come back"
    )


def refuse(
    writer: Writer, settings: Settings, given: Incoming, allow_erased: bool = False
) -> None:
    """Refuse what no transaction may take, whoever asks.

    Raises:
        ErasedError: it was erased before.
        KeyMissingError: a user's grain would be stored in the clear.
        OmsError: it came sealed, and what a key of here opens is no grain.
    """
    for _, error in sorted(_refused(writer, settings, given, allow_erased).items()):
        raise error


def _refused(
    writer: Writer, settings: Settings, given: Incoming, allow_erased: bool
) -> dict[int, OmsError]:
    gone = dict[int, OmsError]() if allow_erased else erased(writer, given)
    return in_the_clear(writer, settings, given) | gone | given.refused


def in_the_clear(writer: Writer, settings: Settings, given: Incoming) -> dict[int, OmsError]:
    """Return why new grains of users may not be stored in the clear, by position.

    A store that has sealed grains was opened with keys before. Opened without, it must not store a
    user's next grain in the clear unless somebody said so.
    """
    if settings.keys is not None or settings.plain or not given.pairs:
        return {}
    if not sealing.has_sealed(writer):
        return {}
    users = _core.user_ids([blob for _, blob in given.pairs])
    clear = [
        i
        for i, (_, blob) in enumerate(given.pairs)
        if users[i] is not None and not blob[1] & ENCRYPTED_BIT
    ]
    found = writer.find([given.pairs[i][0] for i in clear])
    return {
        i: KeyMissingError(
            "this store encrypts users' grains, and it is open without keys",
            expected="keys (--keys), or plain=True (--plain) to store a user's grain in the clear",
        )
        for i, seq in zip(clear, found, strict=True)
        if seq is None
    }


def _rules(writer: Writer, settings: Settings, given: Incoming, i: int) -> tuple[str, ...]:
    from omsgrain.engine.world import StoreWorld
    from omsgrain.index import policy

    grain = given.grain(i)
    signature = given.signatures.get(i)
    signers = (signature.signer,) if signature is not None and signature.proven else ()
    if settings.require is not None and not signers and settings.require.asks(grain):
        raise SignatureError(
            "the store takes such a grain only with a signature that was verified"
        )
    if grain.sealed:
        return ()
    world = StoreWorld(writer, grain, signed={grain.address: signers})
    policy.check_goal(world, grain)
    if settings.delegation:
        policy.check_delegation(world, grain, settings.clock())
    if settings.preset is None:
        return ()
    check_basis(writer, settings, given, grain)
    return settings.preset.check_put(grain, encrypted=i in given.sealed)


def check_basis(writer: Writer, settings: Settings, given: Incoming, grain: Grain) -> None:
    """Refuse a grain whose consent was withdrawn, or is none, where a preset asks for a basis.

    Raises:
        SchemaError: the consent does not stand.
    """
    if settings.preset is None or "processing_basis" not in grain:
        return
    from omsgrain.engine.rights import consent

    if consent.is_asked(settings.preset, grain):
        consent.check_basis(writer, grain, *given.consents())
