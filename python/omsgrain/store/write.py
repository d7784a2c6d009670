# SPDX-License-Identifier: Apache-2.0
"""Put grains into a store: encode or verify them, check the rules, write their rows.

A dict is encoded; a blob or a grain is verified in full: canonical form, schema, address. A grain
that claims to supersede another is refused, because only ``supersede`` may do that. Views with
hidden parts are refused too, and records of a sync: an export with one looks like a sync file.

    put              one grain; ``put_many`` many
    prepare          items become ``PreparedGrains``, on all cores
    write_grains     encrypts them if the store has keys, and runs the transaction
    put_admitted     in it: rules, rows, an entry of the audit trail
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import compress, islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar

from omsgrain import _core
from omsgrain.batch import (
    GrainBatch,
    ItemError,
    ItemWarning,
    OnError,
    encode_many,
    first_error,
    stops,
)
from omsgrain.counts import counted
from omsgrain.errors import (
    ErasedError,
    KeyMissingError,
    OmsError,
    OmsWarning,
    SchemaError,
    SignatureError,
    StoreError,
)
from omsgrain.grain import Grain, options, stored_grain
from omsgrain.header import ENCRYPTED_BIT, ENVELOPE_BYTE, SIGNED_BIT
from omsgrain.storage import blind_index, tombstones
from omsgrain.storage.base import Reader, Writer
from omsgrain.storage.encrypted import EncryptingWriter
from omsgrain.storage.tables import META
from omsgrain.store import prepared, source_tombstones
from omsgrain.store.context import Context, Settings, see_whole, seq_of, stored_digest
from omsgrain.store.expiry import end_of, renew, set_end_of
from omsgrain.store.prepared import KeysMovedError, Placed, PreparedGrains, known
from omsgrain.store.reviews import Review, add

if TYPE_CHECKING:
    from omsgrain.crypto.did import Resolver
    from omsgrain.query.times import Time
    from omsgrain.store.vectors import ModelVectors

Item: TypeAlias = Mapping[str, Any] | bytes | bytearray | memoryview
"""A value that can be put: fields, a grain (a mapping too) or a blob."""


_DEFAULTS = options()


def prepare_one(
    item: Item, *, replacing: bool = False, resolver: Resolver | None = None
) -> PreparedGrains:
    """Encode or verify one item; ``replacing``: it may claim to supersede another grain."""
    blob = None if type(item) is dict else _blob_of(item)
    if blob is None:
        blob = _core.encode_plain(item)  # type: ignore[arg-type]  # None for what is no dict
        if blob is None:
            blob, notes = _core.encode(item, _DEFAULTS)  # type: ignore[arg-type]  # refuses no map
        else:
            notes = []
        given = PreparedGrains([(sha256(blob).digest(), blob)], (0,), 1)
        if notes:
            given.warnings = [ItemWarning(0, None, note) for note in notes]
    elif blob[1:2] and not blob[1] & (SIGNED_BIT | ENCRYPTED_BIT) and blob[:1] != ENVELOPE_BYTE:
        _core.check(blob)
        given = PreparedGrains([(sha256(blob).digest(), blob)], (0,), 1, whole={0})
    else:
        given = _mixed([blob], 0, resolver)
    if not given.errors:
        given = _without_claims(given, 0, replacing)
    for bad in given.errors:
        raise bad.error
    return given


def prepare(
    items: Iterable[Item] | GrainBatch, size: int, resolver: Resolver | None = None
) -> Iterator[PreparedGrains]:
    """Encode or verify many items, ``size`` at a time, on all cores.

    The core made the good grains of a ``GrainBatch``, so only their claims are checked.
    """
    first = 0
    if isinstance(items, GrainBatch):
        every = list(zip(items.digests, items.blobs, strict=True))
        for first in range(0, len(every), size):
            pairs = every[first : first + size]
            yield _without_claims(PreparedGrains(pairs, range(len(pairs)), len(pairs)), first)
        return
    source = iter(items)
    while chunk := list(islice(source, size)):
        given = _without_claims(_prepare(chunk, first, resolver), first)
        given.errors.sort(key=lambda error: error.index)
        yield given
        first += len(chunk)


def _prepare(items: list[Item], first: int, resolver: Resolver | None) -> PreparedGrains:
    kinds = set(map(type, items))
    every = range(len(items))
    if kinds == {bytes} and (pairs := _core.check_plain(items)) is not None:  # type: ignore[arg-type]
        return PreparedGrains(pairs, every, len(items), whole=set(every))
    if kinds != {dict}:
        return _mixed(items, first, resolver)
    batch = encode_many(items, errors="collect")  # type: ignore[arg-type]
    return PreparedGrains(
        list(zip(batch.digests, batch.blobs, strict=True)),
        batch.indices if batch.errors else every,
        len(items),
        [ItemError(first + bad.index, None, bad.error) for bad in batch.errors],
        [ItemWarning(first + note.index, None, note.message) for note in batch.warnings],
    )


def _mixed(items: Sequence[Item], first: int, resolver: Resolver | None) -> PreparedGrains:
    fields: dict[int, Item] = {}
    blobs: dict[int, bytes] = {}
    for place, item in enumerate(items):
        blob = _blob_of(item)
        if blob is None:
            fields[place] = item
        else:
            blobs[place] = blob
    batch = encode_many(fields.values(), errors="collect")  # type: ignore[arg-type]
    verified, signatures, wrong = prepared.verify(blobs, resolver)
    at = list(fields)
    found = dict(verified)
    for index, digest, blob in zip(batch.indices, batch.digests, batch.blobs, strict=True):
        found[at[index]] = (digest, blob)
    places = sorted(found)
    position = {place: n for n, place in enumerate(places)}
    errors = {at[bad.index]: bad.error for bad in batch.errors} | wrong
    return PreparedGrains(
        [found[place] for place in places],
        places,
        len(items),
        [ItemError(first + place, None, error) for place, error in errors.items()],
        [ItemWarning(first + at[note.index], None, note.message) for note in batch.warnings],
        whole={position[place] for place in verified},
        signatures={position[place]: one for place, one in signatures.items()},
    )


def _without_claims(given: PreparedGrains, first: int, replacing: bool = False) -> PreparedGrains:
    """Refuse what only ``supersede`` may put, views, and records of a sync."""
    blobs = [blob for _, blob in given.pairs]
    sync = prepared.SYNC in [b[2:3] for b in blobs]
    if not sync and not prepared.CLAIM_MARKS.find(blobs):
        return given  # nearly always
    wrong = {
        i: SchemaError("a record of a sync is no grain of a store", field="/type")
        for i, blob in enumerate(blobs)
        if prepared.is_sync_record(blob)
    } | prepared.superseding(blobs, views_only=replacing)
    if not wrong:
        return given
    kept = [i for i in range(len(blobs)) if i not in wrong]
    errors = [ItemError(first + given.places[i], None, error) for i, error in wrong.items()]
    return replace(
        given.only(kept),
        places=[given.places[i] for i in kept],
        count=given.count,
        errors=[*given.errors, *errors],
        warnings=given.warnings,
        whole={n for n, i in enumerate(kept) if i in given.whole},
    )


def _blob_of(item: object) -> bytes | None:
    if isinstance(item, Grain):
        return item.blob  # perhaps read leniently, so it is verified like any other
    return bytes(item) if isinstance(item, bytes | bytearray | memoryview) else None


_GOAL = 7  # type byte: most grains are none, and cost no more than a look at it
_CONSENT = 10  # type byte


def admit(
    writer: Writer, settings: Settings, given: PreparedGrains, allow_erased: bool = False
) -> tuple[dict[int, OmsError], dict[int, tuple[str, ...]]]:
    """Check which grains may be stored; grains of the store are not checked again.

    Returns the refusals, and the rules that require a review, by position.
    """
    refused, reviews = _refused(writer, settings, given, allow_erased), {}
    places: dict[str, int] = {}
    for i in _asked(settings, given):
        if i in refused or address_of_same(writer, given, i) is not None:
            continue
        try:
            near = _needed_by(given, i, places, refused)
            if rules := _rules(writer, settings, given, i, near):
                reviews[i] = rules
        except OmsError as error:
            refused[i] = error
    if allow_erased:
        let_back(writer, given, refused)
    return refused, reviews


def _asked(settings: Settings, given: PreparedGrains) -> Sequence[int]:
    """Return the positions of the grains that a rule may refuse; without rules, of goals."""
    if settings.preset is None and not settings.delegation and settings.require is None:
        return [i for i, (_, blob) in enumerate(given.pairs) if blob[2] == _GOAL]
    return range(len(given.pairs))


def address_of_same(writer: Writer, given: PreparedGrains, i: int) -> bytes | None:
    """Return the address under which the store has a grain already, encrypted or not."""
    digest = given.pairs[i][0]
    if writer.raw.find([digest])[0] is not None:
        return digest
    return known(writer, given, i) if given.sealed else None


def grain_of(given: PreparedGrains, i: int) -> Grain:
    """Return a grain as the holder of the keys sees it, under the address that it will have."""
    digest, blob = given.pairs[i]
    return stored_grain(given.sealed[i].plain if i in given.sealed else blob, digest.hex())


def let_back(writer: Writer, given: PreparedGrains, refused: Container[int] = ()) -> None:
    """Remove the tombstones of records that are stored again."""
    source_tombstones.lift(
        writer, (blob for i, blob in enumerate(_plain(given)) if i not in refused)
    )


def erased(writer: Writer, given: PreparedGrains) -> dict[int, OmsError]:
    """Return the grains that were erased before, by position, each with its refusal."""
    if not given.erased and writer.row(META, tombstones.KEY_RECORD) is None:
        return {}  # nothing was ever erased here
    digests = [given.plain(i) for i in range(len(given.pairs))]
    refused = tombstones.refused(writer, digests) | source_tombstones.refused(
        writer, _plain(given)
    )
    gone = {i for i in refused if address_of_same(writer, given, i) is None}
    return {i: was_erased() for i in gone | given.erased}


def _plain(given: PreparedGrains) -> Iterator[bytes]:
    """Return the blobs as they were before encryption."""
    for i, (_, blob) in enumerate(given.pairs):
        yield given.sealed[i].plain if i in given.sealed else blob


def was_erased() -> ErasedError:
    return ErasedError(
        "this grain was erased", expected="allow_erased=True, if it is to come back"
    )


def refuse(
    writer: Writer, settings: Settings, given: PreparedGrains, allow_erased: bool = False
) -> None:
    """Refuse grains that no transaction may store."""
    for _, error in sorted(_refused(writer, settings, given, allow_erased).items()):
        raise error


def _refused(
    writer: Writer, settings: Settings, given: PreparedGrains, allow_erased: bool
) -> dict[int, OmsError]:
    if given.sealed:
        refuse_moved(settings, given)
    found = {} if allow_erased else erased(writer, given)
    if settings.keys is None and not settings.plain:
        found = in_the_clear(writer, settings, given) | found
    return found | given.refused if given.refused else found


def in_the_clear(writer: Writer, settings: Settings, given: PreparedGrains) -> dict[int, OmsError]:
    """Return why new grains of users may not be stored in plain text, by position.

    A store with encrypted grains was opened with keys before. Without keys, it must not store a
    user's next grain in plain text unless ``plain`` allows it.
    """
    if settings.keys is not None or settings.plain or not given.pairs or not _has_sealed(writer):
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
    """Return whether the store has ever encrypted a grain with its own keys.

    A grain that arrived encrypted does not count, so no peer can close a store by sending one.
    The answer is a record, which costs no round trip to a server.
    """
    return writer.row(META, blind_index.SEALS_RECORD) is not None


def _needed_by(
    given: PreparedGrains, i: int, places: dict[str, int], refused: Container[int]
) -> dict[str, Grain]:
    """Return the earlier grains of the batch that a goal names and the store lacks.

    ``places`` gives the position of each address in the batch; the first goal fills it.
    """
    if len(given.pairs) == 1 or given.pairs[i][1][2] != _GOAL:
        return {}
    goal = grain_of(given, i)
    if goal.sealed:
        return {}
    named = [*goal.get("depends_on", ()), *goal.get("satisfaction_evidence", ())]
    if named and not places:
        places.update((digest.hex(), n) for n, (digest, _) in enumerate(given.pairs))
        places.update((sha256(one.plain).hexdigest(), n) for n, one in given.sealed.items())
    found = {address: places[address] for address in named if address in places}
    return {
        address: grain_of(given, n) for address, n in found.items() if n < i and n not in refused
    }


def _rules(
    writer: Writer, settings: Settings, given: PreparedGrains, i: int, near: Mapping[str, Grain]
) -> tuple[str, ...]:
    from omsgrain import policy
    from omsgrain.store.policy_context import PolicyContext

    grain = grain_of(given, i)
    signature = given.signatures.get(i)
    signers = (signature.signer,) if signature is not None and signature.proven else ()
    if settings.require is not None and not signers and settings.require.asks(grain):
        raise SignatureError(
            "the store takes such a grain only with a signature that was verified"
        )
    if grain.sealed:
        return ()
    world = PolicyContext(writer, grain, signed={grain.address: signers}, near=near)
    policy.check_goal(world, grain)
    if settings.delegation:
        policy.check_delegation(world, grain, settings.clock())
    if settings.preset is None:
        return ()
    check_basis(writer, settings, given, grain)
    return settings.preset.check_put(grain, encrypted=i in given.sealed)


def check_basis(writer: Writer, settings: Settings, given: PreparedGrains, grain: Grain) -> None:
    """Refuse a grain without a valid consent, if a preset requires a processing basis."""
    if settings.preset is None or "processing_basis" not in grain:
        return
    from omsgrain.store.privacy import consent

    if consent.is_asked(settings.preset, grain):
        if given.consents is None:  # gathered once, for every grain of a large batch asks for them
            given.consents = _consents(given)
        consent.check_basis(writer, grain, *given.consents)


def _consents(given: PreparedGrains) -> tuple[set[str], dict[str, set[str]]]:
    """Return the consents among some grains, and the grains that withdraw each consent."""
    consents: set[str] = set()
    withdrawn: dict[str, set[str]] = {}
    for i, (digest, blob) in enumerate(given.pairs):
        if blob[2] != _CONSENT:
            continue
        grain, plain = grain_of(given, i), given.plain(i).hex()
        if grain.get("is_withdrawal") is False:
            consents.update((digest.hex(), plain))
        elif prior := grain.get("prior_consent"):
            withdrawn.setdefault(prior, set()).add(plain)
    return consents, withdrawn


T = TypeVar("T")

TRIES = 100
"""Times that keys may be destroyed between sealing and storing."""


def write_grains(
    context: Context,
    given: PreparedGrains,
    work: Callable[[Writer], T],
    *,
    allow_erased: bool = False,
) -> T:
    """Encrypt grains if the store has keys, then run ``work`` in a transaction to put them.

    Both are repeated if keys were destroyed in between; ``admit`` and ``refuse`` check that.
    """
    if context.storage.readonly:  # before a key is made for nothing
        raise StoreError("the store is open for reading only")
    for _ in range(TRIES):
        if context.settings.keys is not None:
            prepared.seal(context.settings, given, _erased(context, given, allow_erased))
        try:
            done = context.storage.write(work, expecting=[digest for digest, _ in given.pairs])
        except KeysMovedError:
            continue
        if context.history is not None:
            context.history.stored(context, sum([len(blob) for _, blob in given.pairs]))
        return done
    raise KeyMissingError("keys are destroyed as fast as they are made")


def _erased(context: Context, given: PreparedGrains, allow_erased: bool) -> set[int]:
    """Return the positions of erased grains, so that no key is made for them."""
    if allow_erased or not given.pairs:
        return set()
    with context.inner.read() as reader:
        return tombstones.refused(reader, [digest for digest, _ in given.clear or given.pairs])


def refuse_moved(settings: Settings, given: PreparedGrains) -> None:
    """Refuse grains whose keys may be destroyed by now."""
    if given.sealed and settings.keys is not None:
        if settings.keys.generation != given.generation:
            raise KeysMovedError


BATCH = 1_000
"""Grains a commit: enough that syncing to the disk costs little beside encoding."""


class PutOutcome(NamedTuple):
    """The address of each grain, and whether it is new.

    ``refused`` says why some were refused, by position.
    """

    digests: Sequence[bytes]
    new: Sequence[bool]
    refused: Mapping[int, OmsError]

    def stored(self) -> list[int]:
        """Return the positions of the grains that are in the store now."""
        return [i for i in range(len(self.digests)) if i not in self.refused]

    def known(self) -> list[bytes]:
        """Return the addresses of the grains that were there already."""
        each = enumerate(zip(self.digests, self.new, strict=True))
        return [digest for i, (digest, new) in each if not new and i not in self.refused]


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
    dedupe: Literal["semantic"] | None,
    allow_erased: bool,
    expires_at: Time | None = None,
    vectors: ModelVectors | None = None,
) -> str:
    if dedupe not in (None, "semantic"):
        raise SchemaError("unknown way to find duplicates", expected='"semantic" or None')
    given = prepare_one(item, resolver=context.settings.resolver)
    for note in given.warnings:
        warnings.warn(note.message, OmsWarning, stacklevel=3)

    def work(writer: Writer) -> str:
        same = None if dedupe is None else _same(writer, given)
        if same is not None:
            digest = bytes.fromhex(same)
            renew(context, writer, [digest])
        else:
            done = put_admitted(context, writer, given, True, allow_erased)
            digest = done.digests[0]
            if end is not None:
                set_end_of(writer, done.digests, end)
            elif not done.new[0]:
                renew(context, writer, done.digests)
        if vectors is not None:
            keep_vectors(context, writer, [(digest, vectors)])
        return digest.hex()

    end = None if expires_at is None else end_of(context, expires_at)
    return write_grains(context, given, work, allow_erased=allow_erased)


def keep_vectors(
    context: Context, writer: Writer, items: Iterable[tuple[bytes, ModelVectors | None]]
) -> None:
    """Store vectors in the transaction that stores their grains."""
    from omsgrain.store.vectors import add_vectors  # loads the search

    add_vectors(context, writer, items)


def _same(writer: Writer, given: PreparedGrains) -> str | None:
    """Return the address of a current grain with the same content.

    None without one, and if the new grain brings a signature for that grain.
    """
    from omsgrain.query.graph import find_same

    grain = grain_of(given, 0)
    reader: Reader = writer
    if isinstance(writer, EncryptingWriter):
        # A search among all encrypted grains would cost a token for each user.
        user_id = grain.get("user_id")
        reader = writer.narrowed(user_id if isinstance(user_id, str) else "", ())
    same = find_same(reader, grain.blob)
    if same is None:
        return None
    digest = bytes.fromhex(same)
    if given.signatures:
        first, second = reader.find([given.plain(0), digest])
        if first == second:
            return None
    return stored_digest(reader, digest).hex()


def put_many(
    context: Context,
    items: Iterable[Item] | GrainBatch,
    errors: OnError,
    batch_size: int,
    allow_erased: bool,
    expires_at: Time | None = None,
    vectors: Sequence[ModelVectors | None] | None = None,
) -> PutReport:
    stop = stops(errors)
    end = None if expires_at is None else end_of(context, expires_at)
    see_whole("batch_size", batch_size, 1)
    report = PutReport([], 0, 0, [], [])
    held: list[PreparedGrains] = []
    size = min(batch_size, context.settings.budget.batch)
    for given in prepare(items, size, context.settings.resolver):
        if stop and given.errors:
            raise first_error(given.errors)
        report.errors.extend(given.errors)
        report.warnings.extend(given.warnings)
        if stop:
            held.append(given)
        else:
            report = _put_part(context, given, report, False, allow_erased, end, vectors)
    if held:
        joined = PreparedGrains.joined(held)
        report = _put_part(context, joined, report, True, allow_erased, end, vectors)
    report.errors.sort(key=lambda item: item.index)
    return report


def _put_part(
    context: Context,
    given: PreparedGrains,
    report: PutReport,
    stop: bool,
    allow_erased: bool,
    end: int | None,
    vectors: Sequence[ModelVectors | None] | None,
) -> PutReport:
    """Store the accepted grains in one transaction, and add to a report."""
    first = len(report.addresses)
    report.addresses.extend([None] * given.count)
    lacking = 0 if vectors is None else len(report.addresses) - len(vectors)
    if lacking > 0 or (stop and lacking):
        expected = "None or a map for each item"
        raise SchemaError(
            "items and vectors differ in number", field="/vectors", expected=expected
        )
    if not given.pairs:
        return report

    def work(writer: Writer) -> PutOutcome:
        done = put_admitted(context, writer, given, stop, allow_erased)
        if end is not None:
            set_end_of(writer, [done.digests[i] for i in done.stored()], end)
        elif not all(done.new):
            renew(context, writer, done.known())
        if vectors is not None:
            own = ((done.digests[i], vectors[first + given.places[i]]) for i in done.stored())
            keep_vectors(context, writer, own)
        return done

    digests, new, refused = write_grains(context, given, work, allow_erased=allow_erased)
    if not refused and len(given.pairs) == given.count:
        report.addresses[first:] = map(bytes.hex, digests)
    else:
        for n, place in enumerate(given.places):
            if n in refused:
                report.errors.append(ItemError(first + place, None, refused[n]))
            else:
                report.addresses[first + place] = digests[n].hex()
    stored = sum(new)
    return replace(
        report,
        stored=report.stored + stored,
        duplicates=report.duplicates + len(given.pairs) - len(refused) - stored,
    )


def put_admitted(
    context: Context,
    writer: Writer,
    given: PreparedGrains,
    stop: bool,
    allow_erased: bool,
    actor: str | None = None,
) -> PutOutcome:
    """Put the grains that no rule refuses, and note it in the audit trail."""
    pairs = given.pairs
    refused, reviews = admit(writer, context.settings, given, allow_erased)
    if not (refused or reviews or given.sealed or given.signatures):
        digests, flags = [digest for digest, _ in pairs], writer.put(pairs)
        if fresh := list(compress(digests, flags)):
            context.note(writer, "put", fresh, actor=actor)
        return PutOutcome(digests, flags, refused)
    if stop and refused:
        raise refused[min(refused)]
    admitted = [i for i in range(len(pairs)) if i not in refused]
    placed = place(writer, given, admitted)
    found = dict(zip(admitted, placed, strict=True))
    for i, rules in reviews.items():
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


def place(writer: Writer, given: PreparedGrains, which: Sequence[int]) -> list[Placed]:
    """Put the grains at some positions; returns an outcome for each, in that order."""
    if given.sealed or given.signatures:
        return prepared.place(writer, given, which)
    pairs = given.pairs
    flags = writer.put([pairs[i] for i in which])
    return [Placed(pairs[i][0], new) for i, new in zip(which, flags, strict=True)]
