# SPDX-License-Identifier: Apache-2.0
"""May these grains come in? What only a store can tell: erasures, signatures, goals, rules."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from itertools import compress
from typing import Literal, NamedTuple, TypeVar

from omsgrain import _core
from omsgrain.batch import GrainBatch, ItemError, ItemWarning, OnError, stops
from omsgrain.counts import counted
from omsgrain.errors import (
    ErasedError,
    KeyMissingError,
    OmsError,
    OmsWarning,
    RangeError,
    SchemaError,
    SignatureError,
    StoreError,
    number_found,
)
from omsgrain.grain import Grain
from omsgrain.header import ENCRYPTED_BIT
from omsgrain.storage import blind_index, tombstones
from omsgrain.storage.base import Reader, Writer
from omsgrain.storage.encrypted import EncryptingWriter
from omsgrain.storage.tables import META, PLAIN, SEALED, SEQUENCE, SIGNED
from omsgrain.store import source_tombstones
from omsgrain.store.context import Context, Settings
from omsgrain.store.policy_context import seq_of, stored_digest
from omsgrain.store.prepared import (
    Incoming,
    Intake,
    Item,
    KeysMovedError,
    incoming,
    intakes,
    take_one,
)
from omsgrain.store.reviews import Review, add


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
    return [(i, seq) for seq, i in found.items() if blind_index.key_of(writer, seq) is None]


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
    places = [blind_index.place_of(one.veil.created_at, digest, seq) for seq, digest, one in ours]
    places = blind_index.masked([one.keys for _, _, one in ours], places)
    blind_index.add(
        writer,
        [(seq, at, one.veil) for (seq, _, one), at in zip(ours, places, strict=True)],
    )


def _add_signature(writer: Writer, given: Incoming, i: int, seq: int | None) -> bool:
    signature = given.signatures.get(i)
    if signature is None or seq is None:
        return False
    from omsgrain.storage import signatures

    blob = writer.blob_at(seq) or b""
    if i in given.sealed:
        if signatures.over(signature, given.pairs[i][1]):
            # Sealed before it was signed; if it stands under another nonce, that is not signed.
            own = blob == given.pairs[i][1]
            return own and signatures.add(writer, seq, blob, signature)
        sealed = given.sealed[i]
        if signatures.over(signature, blob):  # it stands there as a plain one
            return signatures.add(writer, seq, blob, signature)
        return signatures.add(writer, seq, sealed.plain, signature, sealed.keys)
    return signatures.add(writer, seq, given.pairs[i][1], signature)


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
    """Let records be what they were before they were erased, for they come in again."""
    source_tombstones.lift(
        writer, (blob for i, blob in enumerate(_plain(given)) if i not in refused)
    )


def erased(writer: Writer, given: Incoming) -> dict[int, OmsError]:
    """Those that were erased before, by position, each with its refusal."""
    digests = (
        [given.plain(i) for i in range(len(given.pairs))]
        if given.sealed
        else [digest for digest, _ in given.pairs]
    )
    refused = tombstones.refused(writer, digests) | source_tombstones.refused(
        writer, _plain(given)
    )
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
    """Refuse what no transaction may take, whoever asks."""
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
    if not _has_sealed(writer):
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


def _has_sealed(writer: Writer) -> bool:
    """Tell whether the store has ever sealed a grain with keys of its own.

    A sealed grain that is only carried does not count, so nobody can close a store by sending one.
    The answer is kept in a record, which costs no round trip where the store is on a server.
    """
    known = writer.row(META, blind_index.SEALS_RECORD)
    if known is None:  # a store of before there was this record
        none = next(writer.rows(SEALED), None) is None
        known = blind_index.NONE_SEALED if none else blind_index.SOME_SEALED
        writer.set_row(META, blind_index.SEALS_RECORD, known)
    return known == blind_index.SOME_SEALED


def _rules(writer: Writer, settings: Settings, given: Incoming, i: int) -> tuple[str, ...]:
    from omsgrain import policy
    from omsgrain.store.policy_context import PolicyContext

    grain = given.grain(i)
    signature = given.signatures.get(i)
    signers = (signature.signer,) if signature is not None and signature.proven else ()
    if settings.require is not None and not signers and settings.require.asks(grain):
        raise SignatureError(
            "the store takes such a grain only with a signature that was verified"
        )
    if grain.sealed:
        return ()
    world = PolicyContext(writer, grain, signed={grain.address: signers})
    policy.check_goal(world, grain)
    if settings.delegation:
        policy.check_delegation(world, grain, settings.clock())
    if settings.preset is None:
        return ()
    check_basis(writer, settings, given, grain)
    return settings.preset.check_put(grain, encrypted=i in given.sealed)


def check_basis(writer: Writer, settings: Settings, given: Incoming, grain: Grain) -> None:
    """Refuse a grain whose consent was withdrawn, or is none, where a preset asks for a basis."""
    if settings.preset is None or "processing_basis" not in grain:
        return
    from omsgrain.store.privacy import consent

    if consent.is_asked(settings.preset, grain):
        consent.check_basis(writer, grain, *given.consents())


T = TypeVar("T")

TRIES = 100
"""Times that keys may be destroyed between sealing and storing."""


def bring(
    context: Context,
    intake: Intake,
    work: Callable[[Writer, Incoming], T],
    *,
    allow_erased: bool = False,
) -> T:
    """Seal what must be, and run a transaction with it; again if keys were destroyed."""
    if context.storage.readonly:  # before a key is made for nothing
        raise StoreError("the store is open for reading only")
    for _ in range(TRIES):
        gone = set() if allow_erased else _erased(context, intake)
        given = incoming(context.settings, intake, gone)
        try:
            return context.storage.write(
                partial(_with_keys, context, given, work),
                expecting=[digest for digest, _ in given.pairs],
            )
        except KeysMovedError:
            continue
    raise KeyMissingError("keys are destroyed as fast as they are made")


def _erased(context: Context, intake: Intake) -> set[int]:
    """Positions of what was erased before; asked here only to make no key for it."""
    if context.settings.keys is None:
        return set()
    places = [i for i, pair in enumerate(intake.pairs) if pair is not None]
    digests = [pair[0] for pair in intake.pairs if pair is not None]
    with context.inner.read() as reader:
        return {places[n] for n in tombstones.refused(reader, digests)}


def _with_keys(
    context: Context, given: Incoming, work: Callable[[Writer, Incoming], T], w: Writer
) -> T:
    refuse_moved(context.settings, given)
    return work(w, given)


def refuse_moved(settings: Settings, given: Incoming) -> None:
    """Refuse in a transaction what was sealed with keys that may be destroyed by now."""
    if given.sealed and settings.keys is not None:
        if settings.keys.generation != given.generation:
            raise KeysMovedError


BATCH = 1_000
"""Grains a commit: enough that syncing to the disk costs little beside encoding."""


class PutOutcome(NamedTuple):
    """What became of some grains.

    Attributes:
        digests: the address that each stands under.
        new: of each, whether it was not there before.
        refused: why some were refused, by position.
    """

    digests: Sequence[bytes]
    new: Sequence[bool]
    refused: Mapping[int, OmsError]


@dataclass(frozen=True, slots=True)
class PutReport:
    """What ``put_many`` did.

    Attributes:
        addresses: one for each item, in their order; None where it was refused.
        stored: how many were new.
        duplicates: how many were there already, or came twice.
        errors: the refusals, by position.
        warnings: what is allowed but looks like a mistake.
    """

    addresses: list[str | None]
    stored: int
    duplicates: int
    errors: list[ItemError]
    warnings: list[ItemWarning]

    __repr__ = counted


def put(
    context: Context,
    item: Item,
    *,
    dedupe: Literal["semantic"] | None = None,
    allow_erased: bool = False,
) -> str:
    """Storage one grain, durably when this returns; one that is there already stays as it is."""
    if dedupe not in (None, "semantic"):
        raise SchemaError("unknown way to find duplicates", expected='"semantic" or None')
    intake = take_one(item, resolver=context.settings.resolver)
    for note in intake.warnings:
        warnings.warn(note.message, OmsWarning, stacklevel=3)

    def work(writer: Writer, given: Incoming) -> str:
        if dedupe is not None:
            from omsgrain.query.graph import find_same

            grain, reader = given.grain(0), _near(writer, given.grain(0))
            same: str | None = find_same(reader, grain.blob)
            if same is not None and not _signs(reader, given, same):
                return stored_digest(reader, bytes.fromhex(same)).hex()
        return take(context, writer, given, True, allow_erased).digests[0].hex()

    return bring(context, intake, work, allow_erased=allow_erased)


def put_many(
    context: Context,
    items: Iterable[Item] | GrainBatch,
    *,
    errors: OnError = "raise",
    batch_size: int = BATCH,
    allow_erased: bool = False,
) -> PutReport:
    """Storage many grains."""
    stop = stops(errors)
    if type(batch_size) is not int or batch_size < 1:
        found = number_found(batch_size)
        raise RangeError("a batch has at least one item", field="/batch_size", found=found)
    report = PutReport([], 0, 0, [], [])
    held: list[Intake] = []
    size = min(batch_size, context.settings.budget.batch)
    for intake in intakes(items, size, context.settings.resolver):
        if stop and intake.errors:
            raise intake.errors[0].error
        report.errors.extend(intake.errors)
        report.warnings.extend(intake.warnings)
        if stop:
            held.append(intake)
        else:
            report = _put_intake(context, intake, report, False, allow_erased)
    if held:
        report = _put_intake(context, joined(held), report, True, allow_erased)
    report.errors.sort(key=lambda item: item.index)
    return report


def _put_intake(
    context: Context, intake: Intake, report: PutReport, stop: bool, allow_erased: bool
) -> PutReport:
    """Store the accepted grains in one transaction, and add to a report."""
    first = len(report.addresses)
    good = intake.good()
    if not good:
        report.addresses.extend([None] * len(intake.pairs))
        return report
    digests, new, refused = bring(
        context,
        intake,
        lambda writer, given: take(context, writer, given, stop, allow_erased),
        allow_erased=allow_erased,
    )
    if not refused and len(good) == len(intake.pairs):
        report.addresses.extend(map(bytes.hex, digests))
    else:
        report.addresses.extend([None] * len(intake.pairs))
        for n, i in enumerate(good):
            if n in refused:
                report.errors.append(ItemError(first + i, None, refused[n]))
            else:
                report.addresses[first + i] = digests[n].hex()
    stored = sum(new)
    return replace(
        report,
        stored=report.stored + stored,
        duplicates=report.duplicates + len(good) - len(refused) - stored,
    )


def take(
    context: Context,
    writer: Writer,
    given: Incoming,
    stop: bool,
    allow_erased: bool,
    actor: str | None = None,
) -> PutOutcome:
    """Put what is admitted, and note it."""
    pairs = given.pairs
    admission = admit(writer, context.settings, given, allow_erased)
    refused = admission.refused
    if not (refused or admission.reviews or given.sealed or given.signatures):
        digests, flags = [digest for digest, _ in pairs], writer.put(pairs)
        if fresh := list(compress(digests, flags)):
            context.note(writer, "put", fresh, actor=actor)
        return PutOutcome(digests, flags, refused)
    if stop and refused:
        raise refused[min(refused)]
    admitted = [i for i in range(len(pairs)) if i not in refused]
    placed = place(writer, given, admitted)
    found = dict(zip(admitted, placed, strict=True))
    for i, rules in admission.reviews.items():
        digest, now = found[i].digest, context.settings.clock()
        number = seq_of(writer, digest)
        add(writer, Review(number, "put", digest.hex(), None, None, now, rules))
    late = next((one.refusal for one in placed if one.refusal is not None), None)
    if stop and late is not None:
        raise late
    if fresh := [one.digest for one in placed if one.new]:
        context.note(writer, "put", fresh, actor=actor)
    if signed := [one.digest for one in placed if one.signed]:
        context.note(writer, "sign", signed, actor=actor)
    refused.update((i, one.refusal) for i, one in found.items() if one.refusal is not None)
    ends = [found.get(i) or Placed(pair[0], False) for i, pair in enumerate(pairs)]
    return PutOutcome([one.digest for one in ends], [one.new for one in ends], refused)


def _near(writer: Writer, grain: Grain) -> Reader:
    """Where a grain that says the same can be: those of other users say that they are theirs.

    To look among all sealed grains costs a token for each user.
    """
    if not isinstance(writer, EncryptingWriter):
        return writer
    user_id = grain.get("user_id")
    return writer.narrowed(user_id if isinstance(user_id, str) else "", ())


def _signs(reader: Reader, given: Incoming, address: str) -> bool:
    """Whether a grain that stands at an address already was given with a signature."""
    if not given.signatures:
        return False
    first, second = reader.find([given.plain(0), bytes.fromhex(address)])
    return first == second


def joined(parts: Sequence[Intake]) -> Intake:
    """Several intakes as one."""
    if len(parts) == 1:
        return parts[0]
    whole = Intake([], [], [])
    for part in parts:
        first = len(whole.pairs)
        whole.pairs.extend(part.pairs)
        whole.whole.update(first + i for i in part.whole)
        whole.signatures.update({first + i: one for i, one in part.signatures.items()})
    return whole
