# SPDX-License-Identifier: Apache-2.0
"""Erase a person: destroy the keys, remove plain grains, then rewrite the files.

    request    is queued first, so that an erasure resumes after a crash at any point
    keys       are destroyed at once, however many grains they encrypt, unless a grain must be kept
    grains     page by page: rows about encrypted grains, then plain grains
    scrub      the store's files are rewritten without free pages

Spec: OMS §9, §20
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import islice
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Final, Literal

from omsgrain.counts import counted
from omsgrain.errors import IntegrityError, KeyMissingError, OmsError, SchemaError
from omsgrain.grain import Grain
from omsgrain.registry import field as field_of
from omsgrain.storage import blind_index, erasure_queue, mentions, tombstones
from omsgrain.storage.base import Reader, Writer
from omsgrain.storage.erasure_queue import WITHIN, QueuedErasure
from omsgrain.storage.tables import DUE, KEYED
from omsgrain.store import lifecycle
from omsgrain.store.context import Context, check_reason, destroyed, see_whole
from omsgrain.store.maintenance import Maintenance
from omsgrain.store.privacy import key_destruction, removal
from omsgrain.store.privacy.identity import Identities, PersonalGrain, Selection, by_pages, select

if TYPE_CHECKING:
    from omsgrain.crypto.keyring.keyring import KeyRing
    from omsgrain.crypto.master_key import MasterKey
    from omsgrain.crypto.seal import UserKeys

ERASE: Final = "erase"
"""The kind of an erasure in progress."""
RELEASE: Final = "release"
"""The kind of grains that a hold or a retention keeps for now."""
SCRUB: Final = erasure_queue.SCRUB
"""The kind of a compaction: free pages still contain erased bytes."""

_KNOWN = 10_000  # names to cache


@dataclass(frozen=True, slots=True)
class ErasureRequest:
    """A queued erasure."""

    numbers: tuple[bytes, ...]  # the numbers of the keys
    marks: tuple[bytes, ...]  # the marks of the names
    last: int  # the last sequence number at the time of the request; later grains are not erased
    reason_code: str  # the reason, one word
    mentions: bool = False  # also erase grains that only have one of the names
    ciphertext: bool = False  # also remove grains that cannot be decrypted any more
    seqs: tuple[int, ...] = ()  # for a release, the grains that were kept
    # also erase grains that only have one of the names, except other users' grains
    tenant: bool = False

    def takes(self, found: PersonalGrain) -> bool:
        return not found.other if self.tenant else found.own or self.mentions

    def what(self, kind: str) -> dict[str, Any]:
        return {"kind": kind, **asdict(self)}

    def covers(self, other: ErasureRequest) -> bool:
        """Whether this request includes another one."""
        return {*other.seqs} <= {*self.seqs} and {*other.numbers} <= {*self.numbers}

    @classmethod
    def of(cls, entry: QueuedErasure) -> ErasureRequest:
        what = {name: value for name, value in entry.what.items() if name != "kind"}
        try:
            for name in ("numbers", "marks", "seqs"):
                what[name] = tuple(what[name])
            return cls(**what)
        except (KeyError, TypeError):
            pass
        raise IntegrityError("the row of a queued erasure is damaged")


def under_way(reader: Reader, name: str) -> int:
    """Return the last number that a pending erasure of a name covers; 0 if none is pending."""
    marks = {tombstones.mark(key, "identity", name) for key in tombstones.keys(reader)}
    if not marks:
        return 0
    orders = (
        ErasureRequest.of(entry) for entry in erasure_queue.due(reader) if entry.kind == ERASE
    )
    return max((one.last for one in orders if not marks.isdisjoint(one.marks)), default=0)


class MarkedIdentities(Identities):
    """The names of a person, of which only the marks are known."""

    __slots__ = ("_keys", "_known", "_marks")

    def __init__(self, keys: tuple[bytes, ...], marks: tuple[bytes, ...]) -> None:
        self._names = frozenset()
        self._keys = keys
        self._marks = frozenset(marks)
        self._known: dict[str, bool] = {}  # names recur in many grains

    def __contains__(self, item: object) -> bool:
        """Whether a string is one of the names."""
        if not isinstance(item, str):
            return False
        found = self._known.get(item)
        if found is None:
            if len(self._known) >= _KNOWN:
                self._known.clear()
            marks = (tombstones.mark(key, "identity", item) for key in self._keys)
            found = any(mark in self._marks for mark in marks)
            self._known[item] = found
        return found

    def search(self) -> None:
        """Return None: without the names, each grain must be decoded."""


_PAGE = 10_000  # grains per transaction, which is one entry of the audit trail
_ROWS = 20_000  # blind rows per transaction
_DAY = 86_400_000


@dataclass(slots=True)
class Done:
    """The progress of a request."""

    keys: int = 0
    sealed: int = 0
    erased: int = 0
    named: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    kept: dict[int, tuple[str, str]] = field(default_factory=dict)
    kept_keys: list[bytes] = field(default_factory=list)
    unopened: int = 0


def _carry_out(
    context: Context, key: bytes, request: ErasureRequest, selection: Selection, days: int
) -> Done:
    """Carry out a request, and queue the scrub."""
    mentions.prepare(context.storage)
    done = Done()
    if request.numbers:
        _destroy_keys(context, request, done)
    found = (one for one in selection if one.seq <= request.last)
    for page in by_pages(found, _PAGE):
        _clear(context, page, request, done)
    context.drop_vectors()
    done.unopened = selection.unopened
    context.storage.write(
        partial(_close_request, context, key=key, request=request, done=done, days=days)
    )
    context.inner.sync()
    return done


def _destroy_keys(context: Context, request: ErasureRequest, done: Done) -> None:
    gone: dict[bytes, UserKeys] = {}  # until tombstones for their grains' addresses are written
    spent, done.kept_keys = context.storage.write(
        partial(key_destruction.destroy, context, request=request, gone=gone)
    )
    done.keys = len(gone)
    context.drop_dead_texts()
    for number in (*gone, *spent):
        work = partial(_unseal, context, keys=gone.pop(number, None), request=request)
        swept = sweep(context, number, work)
        if request.ciphertext:
            done.erased += swept
        else:
            done.sealed += swept


def sweep(context: Context, number: bytes, work: Callable[..., int]) -> int:
    """Remove the rows about the grains of a destroyed key."""
    for table in key_destruction.TABLES:
        drop = methodcaller("drop_rows", table, number, _ROWS)
        while context.storage.write(drop) >= _ROWS:
            pass
    count = after = 0
    while True:
        with context.storage.read() as reader:
            seqs = list(islice(blind_index.seqs_of(reader, number, after=after), _PAGE))
        if not seqs:
            return count
        after = seqs[-1]
        count += context.storage.write(partial(work, seqs=seqs))


def _unseal(
    context: Context,
    writer: Writer,
    seqs: Sequence[int],
    keys: UserKeys | None,
    request: ErasureRequest,
) -> int:
    """Remove the rows about encrypted grains, or the grains themselves."""
    now, code = context.settings.clock(), request.reason_code
    found = {seq: one for seq in seqs if (one := key_destruction.opened(writer, seq, keys))}
    names = [name for name, _ in found.values()]
    removal.remember(writer, names, now, code)
    if request.ciphertext:
        removal.remove_grains(writer, context.settings, found, reason_code=code)
    else:
        removal.forget_talk(writer, context.settings, names, reason_code=code)
        removal.mark_names(writer, [one.plain for one in names if one.plain is not None])
        key_destruction.drop_beside(writer, list(found))
        erasure_queue.drop(writer, found.keys())
    if names:
        context.note(writer, "erase", [name.stored for name in names], reason_code=code)
    _note_consents(context, writer, [grain for _, grain in found.values() if grain], code)
    return len(names)


def _clear(
    context: Context, page: Sequence[PersonalGrain], request: ErasureRequest, done: Done
) -> None:
    """Remove the grains of a page that the request covers."""
    wanted = [found for found in page if request.takes(found)]
    done.named += [(f.address, f.fields) for f in page if not request.takes(f)]
    if wanted:
        seqs = [found.seq for found in wanted]
        gone, kept = context.storage.write(
            partial(_take_out, context, seqs=seqs, code=request.reason_code)
        )
        done.erased += gone
        done.kept |= kept


def _take_out(
    context: Context,
    writer: Writer,
    seqs: Sequence[int],
    code: str,
    now: int | None = None,
) -> tuple[int, dict[int, tuple[str, str]]]:
    """Remove grains that no rule keeps; restrict and return the others."""
    now = context.settings.clock() if now is None else now
    found = removal.readable_many(writer, seqs)
    rules = removal.refusals(writer, context.settings, found, now)
    kept = {seq: (found[seq].address, rule) for seq, rule in rules.items()}
    gone = {seq: grain for seq, grain in found.items() if seq not in rules}
    changed = (lifecycle.restrict(writer, seq, True) for seq in kept)
    restricted = [digest for digest in changed if digest is not None]
    if restricted:
        context.note(writer, "restrict", restricted, reason_code=code)
    if gone:
        digests = [bytes.fromhex(grain.address) for grain in gone.values()]
        removal.remove_grains(writer, context.settings, gone, reason_code=code)
        context.note(writer, "erase", digests, reason_code=code)
        _note_consents(context, writer, list(gone.values()), code)
    return len(gone), kept


def _note_consents(context: Context, writer: Writer, grains: Sequence[Grain], code: str) -> None:
    """Note in the audit trail which consents were erased, with scope and times."""
    for grain in grains:
        if grain.type != "consent":
            continue
        known = field_of("scope").open_enum
        details: dict[str, int | str] = {"withdrawal": int(grain.get("is_withdrawal") is True)}
        if type(given := grain.get("created_at")) is int:
            details["given"] = given
        scope = grain.get("scope")
        if words := [word for word in known if isinstance(scope, list) and word in scope]:
            details["scope"] = ",".join(words)
        digest = bytes.fromhex(grain.address)
        context.note(writer, "erase", [digest], reason_code=code, details=details)


def _close_request(
    context: Context, writer: Writer, key: bytes, request: ErasureRequest, done: Done, days: int
) -> None:
    """Remove a request from the queue; add an entry for kept grains, and one for the scrub."""
    now = context.settings.clock()
    erasure_queue.done(writer, key)
    if done.kept or done.kept_keys:
        rest = replace(request, numbers=tuple(done.kept_keys), seqs=tuple(done.kept))
        for entry in list(erasure_queue.due(writer)):
            if entry.kind == RELEASE and rest.covers(ErasureRequest.of(entry)):
                erasure_queue.done(writer, entry.key)
        erasure_queue.add(writer, now, rest.what(RELEASE))
    erasure_queue.add(writer, now + days * _DAY, {"kind": SCRUB})


def run_request(context: Context, entry: erasure_queue.QueuedErasure, now: int) -> bool:
    """Resume a queued erasure; returns False if it must wait."""
    if entry.kind == SCRUB:
        return _scrub(context)
    if entry.kind not in (ERASE, RELEASE):
        return False
    request = ErasureRequest.of(entry)
    if request.numbers and context.settings.keys is None:
        return False  # only the holder of the keys can destroy them
    if entry.kind == RELEASE:
        return context.storage.write(partial(_release, context, entry=entry, now=now))
    with context.storage.read() as reader:
        keys = tombstones.keys(reader)
        there = reader.row(DUE, entry.key) is not None
    if not there or not keys:
        return True
    people = Selection(context.storage, MarkedIdentities(keys, request.marks))
    done = _carry_out(context, entry.key, request, people, WITHIN)
    return not done.unopened  # unreadable grains may be the person's


def _release(
    context: Context, writer: Writer, entry: erasure_queue.QueuedErasure, now: int
) -> bool:
    """Remove the grains that no rule keeps any more, then the keys that no grain needs."""
    if writer.row(DUE, entry.key) is None:
        return True
    request, ring = ErasureRequest.of(entry), context.settings.keys
    # Grains whose key another erasure destroyed meanwhile are not kept, only unreadable.
    seqs = [seq for seq in request.seqs if not destroyed(writer, seq)]
    gone, kept = _take_out(context, writer, seqs, request.reason_code, now)
    if gone:
        erasure_queue.add(writer, now + WITHIN * _DAY, {"kind": SCRUB})
    erasure_queue.done(writer, entry.key)
    left: list[bytes] = []
    for number in request.numbers:
        # Grains stored after the request are new and need the key.
        if ring is not None and next(writer.rows(KEYED, prefix=number), None) is None:
            try:
                ring.erase([ring.user_id_of(number)])
            except KeyMissingError:
                left.append(number)
            except OmsError:
                pass  # the key is destroyed already
    if kept or left:
        rest = replace(request, seqs=tuple(kept), numbers=request.numbers if kept else tuple(left))
        erasure_queue.add(writer, entry.deadline, rest.what(RELEASE))
    return not kept and not left


def scrub_due(context: Context) -> int | None:
    """Return the deadline for rewriting the files; None if no erasure requires it."""
    with context.storage.read() as reader:
        entries = (
            entry for entry in erasure_queue.due(reader) if entry.kind == erasure_queue.SCRUB
        )
        return next((entry.deadline for entry in entries), None)


def _scrub(context: Context) -> bool:
    """Rewrite the files; returns False on failure."""
    try:
        Maintenance(context).compact()  # removes the queue entry
    except OmsError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class ErasureReport:
    """The result of an erasure. It contains no name.

    Attributes:
        keys: number of destroyed keys.
        sealed: number of grains that cannot be decrypted any more.
        erased: number of removed grains.
        named: grains that only have one of the names, with the fields that have it; they stay.
        kept: grains that stay, restricted, each with the rule that keeps it.
        scrubbed: whether the files contain no removed bytes.
        scrub_due: deadline for rewriting the files, ms since 1970; None if none is pending.
        rekeyed: whether the key file was rewritten.
        incomplete: what is not done: ``kept``; ``unopened``: grains that could not be read,
            because a key is missing or they are damaged; ``key``: a key that could not be
            destroyed; ``scrub``; ``rekey``.
    """

    keys: int
    sealed: int
    erased: int
    named: tuple[tuple[str, tuple[str, ...]], ...]
    kept: tuple[tuple[str, str], ...]
    scrubbed: bool
    scrub_due: int | None
    rekeyed: bool
    incomplete: tuple[str, ...]

    __repr__ = counted

    @property
    def complete(self) -> bool:
        """Whether nothing is left to do."""
        return not self.incomplete

    @property
    def matched(self) -> bool:
        """Whether any grain has one of the names, or may have."""
        counts = self.keys, self.sealed, self.erased, self.named, self.kept
        return any(counts) or not {"unopened", "key"}.isdisjoint(self.incomplete)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON-ready values."""
        return {"complete": self.complete, **asdict(self)}


def erase(
    context: Context,
    identities: Identities | Iterable[str],
    reason_code: str,
    mentions: Literal["list", "erase", "tenant"],
    scrub: Literal["now", "queued"],
    ciphertext: bool,
    within_days: int,
    rekey: MasterKey | None,
) -> ErasureReport:
    from omsgrain.crypto.master_key import load_master

    people = Identities(identities)
    _check(reason_code, mentions, scrub, within_days)
    ring = context.settings.keys
    if rekey is not None and ring is None:
        raise SchemaError("rekey needs a store that was opened with keys", field="/rekey")
    if rekey is not None:
        load_master(rekey)  # refuse an invalid master key before anything is erased
    request = ErasureRequest(
        () if ring is None else _numbers(context, ring, people, ciphertext),
        (),
        0,
        reason_code,
        mentions=mentions == "erase",
        ciphertext=ciphertext,
        tenant=mentions == "tenant",
    )
    key, request = context.storage.write(partial(_place, context, people=people, request=request))
    context.inner.sync()  # the request must be on disk before a key is destroyed
    done = _carry_out(context, key, request, select(context.storage, people), within_days)
    incomplete = ["kept"] * bool(done.kept) + ["unopened"] * bool(done.unopened)
    incomplete += ["key"] * bool(done.kept_keys and not done.kept)
    rekeyed = False
    if rekey is not None and ring is not None:
        try:
            ring.rekey(rekey)
            rekeyed = True
        except (OmsError, OSError):
            incomplete.append("rekey")
    scrubbed = scrub == "now" and _scrub(context)
    return ErasureReport(
        done.keys,
        done.sealed,
        done.erased,
        tuple(done.named),
        tuple(done.kept.values()),
        scrubbed,
        None if scrubbed else scrub_due(context),
        rekeyed,
        (*incomplete, *(["scrub"] if not scrubbed else [])),
    )


def _numbers(
    context: Context, ring: KeyRing, people: Identities, ciphertext: bool
) -> tuple[bytes, ...]:
    """Return the numbers of a person's keys, including keys that another store destroyed."""
    live = key_destruction.numbers_of(ring, people)
    with context.storage.read() as reader:
        gone = key_destruction.left_behind(reader, ring, people, ciphertext=ciphertext)
    return tuple(dict.fromkeys((*live, *gone)))


def _place(
    context: Context, writer: Writer, people: Identities, request: ErasureRequest
) -> tuple[bytes, ErasureRequest]:
    """Queue the request, and add tombstones for the names."""
    now, shared = context.settings.clock(), tombstones.key(writer)
    marks = tuple(tombstones.mark(shared, "identity", name) for name in people)
    for name in people:
        tombstones.again(writer, "identity", name, now, request.reason_code)
    request = replace(request, marks=marks, last=writer.last_seq())
    key = erasure_queue.add(writer, now, request.what(ERASE))
    details: dict[str, int | str] = {"keys": len(request.numbers)}
    context.note(writer, "erase", [], reason_code=request.reason_code, details=details)
    return key, request


def _check(reason_code: str, mentions: str, scrub: str, within_days: int) -> None:
    check_reason(reason_code)
    if mentions not in ("list", "erase", "tenant"):
        expected = '"list", "erase" or "tenant"'
        raise SchemaError("unknown choice for mentions", field="/mentions", expected=expected)
    if scrub not in ("now", "queued"):
        raise SchemaError("unknown choice for scrub", field="/scrub", expected='"now" or "queued"')
    see_whole("within_days", within_days, 0, WITHIN)
