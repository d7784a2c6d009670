# SPDX-License-Identifier: Apache-2.0
"""Erasing a person: keys first, then all that stands in the clear, then the bytes left behind.

    request     in the queue, so that a crash at any point is gone on from
    keys      destroyed at once, whatever the number of grains, unless one must be kept
    grains    by pages: rows beside sealed ones, then what stands in the clear
    scrub     the store's files are rewritten, without free pages

Spec: OMS §9, §20
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from omsgrain.counts import counted
from omsgrain.errors import IntegrityError, KeyMissingError, OmsError, RangeError, SchemaError
from omsgrain.grain import Grain
from omsgrain.registry import field as field_of
from omsgrain.storage import erasure_queue, mentions, tombstones
from omsgrain.storage.base import Reader, Writer
from omsgrain.storage.erasure_queue import WITHIN, QueuedErasure
from omsgrain.storage.tables import DUE, KEYED, Table
from omsgrain.store import lifecycle
from omsgrain.store.context import Context, check_reason, destroyed
from omsgrain.store.maintenance import Maintenance
from omsgrain.store.privacy import key_destruction, removal
from omsgrain.store.privacy.identity import Identities, PersonalGrain, Selection, by_pages, select
from omsgrain.store.privacy.key_destruction import DestroyedKeys

if TYPE_CHECKING:
    from omsgrain.crypto.keyring.keyring import KeyRing
    from omsgrain.crypto.master_key import MasterKey
    from omsgrain.crypto.seal import UserKeys
    from omsgrain.crypto.signers import Signer
    from omsgrain.store.privacy.certificate import Certificate

ERASE: Final = "erase"
"""The kind of an erasure under way."""
RELEASE: Final = "release"
"""The kind of what was kept by a hold, or for a time, and goes when that ends."""
SCRUB: Final = erasure_queue.SCRUB
"""The kind of a compaction: free pages still have bytes of what was erased."""

_KNOWN = 10_000  # names that are remembered


@dataclass(frozen=True, slots=True)
class ErasureRequest:
    """What is to be erased.

    Attributes:
        numbers: of the keys.
        marks: of the names.
        last: the last number that the store had given; what came later is new.
        reason_code: a word for the reason.
        mentions: also what only bears the name.
        tenant: what belongs to another user stays, and the rest goes that bears the name.
        ciphertext: also what nobody can read any more.
        seqs: grains that were kept, of a release.
    """

    numbers: tuple[bytes, ...]
    marks: tuple[bytes, ...]
    last: int
    reason_code: str
    mentions: bool = False
    ciphertext: bool = False
    seqs: tuple[int, ...] = ()
    tenant: bool = False

    def takes(self, found: PersonalGrain) -> bool:
        """Whether a grain about the person is to go."""
        return not found.other if self.tenant else found.own or self.mentions

    def what(self, kind: str) -> dict[str, Any]:
        """The entry of the queue."""
        return {"kind": kind, **asdict(self)}

    def covers(self, other: ErasureRequest) -> bool:
        """Whether all that another one waits for is waited for by this one."""
        return {*other.seqs} <= {*self.seqs} and {*other.numbers} <= {*self.numbers}

    @classmethod
    def of(cls, entry: QueuedErasure) -> ErasureRequest:
        """Read an entry of the queue."""
        what = {name: value for name, value in entry.what.items() if name != "kind"}
        try:
            for name in ("numbers", "marks", "seqs"):
                what[name] = tuple(what[name])
            return cls(**what)
        except (KeyError, TypeError):
            pass
        raise IntegrityError("an erasure that is due cannot be read: its row is damaged")


def under_way(reader: Reader, name: str) -> int:
    """The last number that an erasure of a name still has to look at; 0 if none is under way."""
    marks = {tombstones.mark(key, "identity", name) for key in tombstones.keys(reader)}
    if not marks:
        return 0
    orders = (
        ErasureRequest.of(entry) for entry in erasure_queue.due(reader) if entry.kind == ERASE
    )
    return max((one.last for one in orders if not marks.isdisjoint(one.marks)), default=0)


class MarkedIdentities(Identities):
    """The names of a person of which only marks are known."""

    __slots__ = ("_keys", "_known", "_marks")

    def __init__(self, keys: tuple[bytes, ...], marks: tuple[bytes, ...]) -> None:
        self._names = frozenset()
        self._keys = keys
        self._marks = frozenset(marks)
        self._known: dict[str, bool] = {}  # grains say the same names again and again

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
        """No bytes can be searched for: each grain is looked into."""


_PAGE = 1_000  # grains a transaction; an entry of the audit trail tags no more
_ROWS = 20_000  # blind rows a transaction
_DAY = 86_400_000


@dataclass(slots=True)
class Done:
    """What was done of an request so far."""

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
    """Do all of an request but the scrubbing, which is put into the queue."""
    mentions.prepare(context.storage)
    done = Done()
    if request.numbers:
        _destroy_keys(context, request, done)
    found = (one for one in selection if one.seq <= request.last)
    for page in by_pages(found, _PAGE):
        _clear(context, page, request, done)
    done.unopened = selection.unopened
    context.storage.write(
        partial(_close_request, context, key=key, request=request, done=done, days=days)
    )
    context.storage.sync()
    return done


def _destroy_keys(context: Context, request: ErasureRequest, done: Done) -> None:
    """Destroy the keys of an request that no grain keeps, and what stood beside their grains."""
    before = key_destruction.DestroyedKeys()
    keys = context.storage.write(lambda writer: _destroy(context, writer, request, before))
    done.keys, done.kept_keys = len(keys.gone), keys.kept
    for number in (*keys.gone, *keys.spent):
        work = partial(_unseal, context, keys=keys.gone.pop(number, None), request=request)
        swept = sweep(context, number, work)
        if request.ciphertext:
            done.erased += swept
        else:
            done.sealed += swept


def _destroy(
    context: Context, writer: Writer, request: ErasureRequest, before: DestroyedKeys
) -> DestroyedKeys:
    now = context.settings.clock()
    keys = key_destruction.destroy(writer, context.settings, request, now, before)
    if keys.gone:
        told: dict[str, int | str] = {"keys_destroyed": len(keys.gone)}
        context.note(writer, "erase", [], reason_code=request.reason_code, details=told)
    return keys


def sweep(context: Context, number: bytes, work: Callable[..., int]) -> int:
    """Take out what stood beside the grains of a key that was destroyed."""
    for table in key_destruction.TABLES:
        drop = partial(_drop_rows, table=table, number=number)
        while context.storage.write(drop) == _ROWS:
            pass
    count, after = 0, None
    while True:
        with context.storage.read() as reader:
            seqs, after = key_destruction.sealed_page(reader, number, after, _PAGE)
        if after is None:
            return count
        count += context.storage.write(partial(work, seqs=seqs))


def _unseal(
    context: Context,
    writer: Writer,
    seqs: Sequence[int],
    keys: UserKeys | None,
    request: ErasureRequest,
) -> int:
    """Take out what stood beside some sealed grains, or these themselves."""
    now, code = context.settings.clock(), request.reason_code
    found = {seq: one for seq in seqs if (one := key_destruction.opened(writer, seq, keys))}
    names = [name for name, _ in found.values()]
    for name in names:
        removal.remember(writer, name, now, code)
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
    """Remove those of some grains that are to go."""
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
    """Remove grains that nothing keeps, and restrict the others: how many, and which."""
    now = context.settings.clock() if now is None else now
    gone: dict[int, Grain] = {}
    kept: dict[int, tuple[str, str]] = {}
    restricted: list[bytes] = []
    for seq in seqs:
        grain = removal.readable(writer, seq)
        if grain is None:
            continue
        rule = removal.refusal(writer, context.settings, grain, now)
        if rule is None:
            gone[seq] = grain
            continue
        kept[seq] = (grain.address, rule)
        if (changed := lifecycle.restrict(writer, seq, True)) is not None:
            restricted.append(changed)
    if restricted:
        context.note(writer, "restrict", restricted, reason_code=code)
    if gone:
        digests = [bytes.fromhex(grain.address) for grain in gone.values()]
        removal.remove_grains(writer, context.settings, gone, reason_code=code)
        context.note(writer, "erase", digests, reason_code=code)
        _note_consents(context, writer, list(gone.values()), code)
    return len(gone), kept


def _note_consents(context: Context, writer: Writer, grains: Sequence[Grain], code: str) -> None:
    """Keep of consents what the audit needs: that they were there, their scope and times."""
    for grain in grains:
        if grain.type != "consent":
            continue
        known = field_of("scope").open_enum
        told: dict[str, int | str] = {"withdrawal": int(grain.get("is_withdrawal") is True)}
        if type(given := grain.get("created_at")) is int:
            told["given"] = given
        scope = grain.get("scope")
        if words := [word for word in known if isinstance(scope, list) and word in scope]:
            told["scope"] = ",".join(words)
        digest = bytes.fromhex(grain.address)
        context.note(writer, "erase", [digest], reason_code=code, details=told)


def _close_request(
    context: Context, writer: Writer, key: bytes, request: ErasureRequest, done: Done, days: int
) -> None:
    """Take an request out of the queue; what was kept, and the scrubbing, go into it."""
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
    """Resume an erasure, or do what was left of one; False if it must wait."""
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
    removal.mark_erased(context.storage)  # of what an older version had removed by then
    people = Selection(context.storage, MarkedIdentities(keys, request.marks))
    done = _carry_out(context, entry.key, request, people, WITHIN)
    return not done.unopened  # what was not looked into may be the person's


def _release(
    context: Context, writer: Writer, entry: erasure_queue.QueuedErasure, now: int
) -> bool:
    """Remove what is kept no longer, and then the keys that nothing needs any more."""
    if writer.row(DUE, entry.key) is None:
        return True
    request, ring = ErasureRequest.of(entry), context.settings.keys
    # What another erasure has made unreadable since is not kept: it only cannot be opened.
    seqs = [seq for seq in request.seqs if not destroyed(writer, seq)]
    gone, kept = _take_out(context, writer, seqs, request.reason_code, now)
    if gone:
        erasure_queue.add(writer, now + WITHIN * _DAY, {"kind": SCRUB})
    erasure_queue.done(writer, entry.key)
    left: list[bytes] = []
    for number in request.numbers:
        # Grains that came after the request are new, and theirs the key is now.
        if ring is not None and next(writer.rows(KEYED, prefix=number), None) is None:
            try:
                ring.erase([ring.user_id_of(number)])
            except KeyMissingError:
                left.append(number)
            except OmsError:
                pass  # it is destroyed already
    if kept or left:
        rest = replace(request, seqs=tuple(kept), numbers=request.numbers if kept else tuple(left))
        erasure_queue.add(writer, entry.deadline, rest.what(RELEASE))
    return not kept and not left


def scrub_due(context: Context) -> int | None:
    """By when the files must be rewritten; None if nothing asks for that."""
    with context.storage.read() as reader:
        entries = (
            entry for entry in erasure_queue.due(reader) if entry.kind == erasure_queue.SCRUB
        )
        return next((entry.deadline for entry in entries), None)


def _scrub(context: Context) -> bool:
    """Rewrite the files; False if it cannot be."""
    try:
        Maintenance(context).compact()  # takes it out of the queue
    except OmsError:
        return False
    return True


def _drop_rows(writer: Writer, table: Table, number: bytes) -> int:
    return writer.drop_rows(table, number, _ROWS)


@dataclass(frozen=True, slots=True)
class ErasureReport:
    """What became of the erasure of a person. It names no person.

    Attributes:
        keys: how many keys were destroyed.
        sealed: how many grains nobody can read any more.
        erased: how many grains were removed.
        named: grains that only bear the name, with the fields that do; they stay.
        kept: grains that stay, restricted, each with the rule that keeps it.
        scrubbed: the files hold no bytes of what was removed.
        scrub_due: by when they must not, ms since 1970, if they still may.
        rekeyed: the key file was rewritten.
        incomplete: what is not done: ``kept``; ``unopened``: grains that could not be looked into,
            for want of a key or by damage; ``key``: a key that could not be destroyed; ``scrub``;
            ``rekey``.
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
        """Whether all of it is done."""
        return not self.incomplete

    @property
    def matched(self) -> bool:
        """Whether anything in the store bore one of the names, or may have."""
        counts = self.keys, self.sealed, self.erased, self.named, self.kept
        return any(counts) or not {"unopened", "key"}.isdisjoint(self.incomplete)

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON-ready values."""
        return {"complete": self.complete, **asdict(self)}


def erase(
    context: Context,
    identities: Identities | Iterable[str],
    *,
    reason_code: str,
    mentions: Literal["list", "erase", "tenant"] = "list",
    scrub: Literal["now", "queued"] = "now",
    ciphertext: bool = False,
    within_days: int = WITHIN,
    rekey: MasterKey | None = None,
) -> ErasureReport:
    """Erase a person: their keys, the grains that are theirs, and what tells of these."""
    from omsgrain.crypto.master_key import load_master

    people = Identities(identities)
    _check(reason_code, mentions, scrub, within_days)
    ring = context.settings.keys
    if rekey is not None and ring is None:
        raise SchemaError("the store was opened without keys", field="/rekey")
    if rekey is not None:
        load_master(rekey)  # one that is none must not be found out at the end
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
    context.storage.sync()  # before a key is gone the disk must know what goes with it
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
    """The numbers of a person's keys, and of those that were destroyed without this store."""
    live = key_destruction.numbers_of(ring, people)
    with context.storage.read() as reader:
        gone = key_destruction.left_behind(reader, ring, people, ciphertext=ciphertext)
    return tuple(dict.fromkeys((*live, *gone)))


def certify(
    context: Context,
    report: ErasureReport,
    signer: Signer,
    *,
    reason_code: str,
    of: Literal["person", "tenant"] = "person",
    iat: int | None = None,
) -> Certificate:
    """Certify an erasure: a signed statement without names, for the person or a regulator."""
    from omsgrain.storage.audit.verify import checkpoint
    from omsgrain.store.privacy.certificate import Certificate

    with context.storage.read() as reader:
        end = checkpoint(reader)
    now = context.settings.clock()
    made = Certificate.of_report(report, end, reason_code=reason_code, of=of, time=now)
    return made.signed(signer, iat=iat)


def _place(
    context: Context, writer: Writer, people: Identities, request: ErasureRequest
) -> tuple[bytes, ErasureRequest]:
    """Put the request into the queue, and remember that these names were erased."""
    now, shared = context.settings.clock(), tombstones.key(writer)
    marks = tuple(tombstones.mark(shared, "identity", name) for name in people)
    for name in people:
        tombstones.again(writer, "identity", name, now, request.reason_code)
    request = replace(request, marks=marks, last=writer.last_seq())
    key = erasure_queue.add(writer, now, request.what(ERASE))
    told: dict[str, int | str] = {"keys": len(request.numbers)}
    context.note(writer, "erase", [], reason_code=request.reason_code, details=told)
    return key, request


def _check(reason_code: str, mentions: str, scrub: str, within_days: int) -> None:
    check_reason(reason_code)
    if mentions not in ("list", "erase", "tenant"):
        expected = '"list", "erase" or "tenant"'
        raise SchemaError("what to do with names", field="/mentions", expected=expected)
    if scrub not in ("now", "queued"):
        raise SchemaError("when to scrub", field="/scrub", expected='"now" or "queued"')
    if type(within_days) is not int or not 0 <= within_days <= WITHIN:
        raise RangeError("not a time for erasing", field="/within_days", expected="0 to 30 days")
