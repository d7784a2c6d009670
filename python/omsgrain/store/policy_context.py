# SPDX-License-Identifier: Apache-2.0
"""Answer the questions of a policy check from a store."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from omsgrain import policy, registry
from omsgrain.errors import KeyMissingError, RangeError
from omsgrain.grain import Grain, text_marks
from omsgrain.header import ENCRYPTED_BIT
from omsgrain.policy.decide import PRIVILEGE
from omsgrain.query.graph import naming
from omsgrain.query.history import members
from omsgrain.storage import signatures
from omsgrain.storage.base import Reader, Writer
from omsgrain.storage.records import unpack
from omsgrain.storage.tables import GUARDS, HOLDS, LINEAGES, SEQUENCE, STATES
from omsgrain.store.context import destroyed

if TYPE_CHECKING:
    from omsgrain.store.context import Settings


def guards(reader: Reader, seq: int) -> Iterator[int]:
    """Return the numbers of the grains whose policy covers the lineage of a grain."""
    for key, _ in reader.rows(GUARDS, prefix=_name(reader, seq)):
        yield SEQUENCE.unpack(key[SEQUENCE.size :])[0]


def join(writer: Writer, old: int, new: int) -> None:
    """Join the lineages of two grains, of which the new one superseded the old one."""
    name, other = _name(writer, old), _name(writer, new)
    if name == SEQUENCE.pack(old) and other != SEQUENCE.pack(new):
        name, other = other, name  # keeps the chain of names short if many join one history
    if name != other:
        writer.set_row(LINEAGES, other, name)
        for key, _ in list(writer.rows(GUARDS, prefix=other)):
            writer.set_row(GUARDS, key, None)
            writer.set_row(GUARDS, name + key[SEQUENCE.size :], b"")
    for seq in (old, new):
        if _covers(writer.grain(seq)):
            writer.set_row(GUARDS, name + SEQUENCE.pack(seq), b"")


def extends(reader: Reader, old: int, there: int | None, new: Grain, since: int) -> bool:
    """Return whether a supersession makes a policy cover another lineage."""
    mine = _covering(reader, old)
    theirs = set[int]() if there is None else _covering(reader, there)
    fresh = there is None and _covers(new)
    if (fresh or theirs - mine) and _has_earlier(reader, old, since):
        return True
    return there is not None and bool(mine - theirs) and _has_earlier(reader, there, since)


def _covering(reader: Reader, seq: int) -> set[int]:
    """Return the numbers of the grains whose policy covers a grain's lineage, even a lone one."""
    found = set(guards(reader, seq))
    return found | {seq} if _covers(reader.grain(seq)) else found


def _has_earlier(reader: Reader, seq: int, since: int) -> bool:
    try:
        return seq <= since or min(members(reader, seq)) <= since
    except RangeError:  # too many to check
        return True


def is_same(reader: Reader, one: int, other: int) -> bool:
    """Whether supersessions join two grains."""
    return _name(reader, one) == _name(reader, other)


def leave(writer: Writer, seqs: Iterable[int]) -> None:
    """Remove deleted grains from the guards; their numbers may remain a lineage's name."""
    if next(writer.rows(GUARDS), None) is not None:
        for seq in seqs:
            writer.set_row(GUARDS, _name(writer, seq) + SEQUENCE.pack(seq), None)


def forget_lineages(writer: Writer, upto: int) -> int:
    """Drop the names of the lineages of grains up to a number that are gone; count those left.

    A row stays while others lead through it. All rows are read, so call this seldom.
    """
    names = set[bytes]()
    rows = there = 0
    for _, name in writer.rows(LINEAGES):
        names.add(name)
        rows += 1
    dropped: list[bytes] = []
    for key, _ in writer.rows(LINEAGES):
        (seq,) = SEQUENCE.unpack(key)
        if seq > upto:
            break
        if there < seq:  # the first grain from this number on
            there = next((number for number, _ in writer.page(seq - 1, 1)), upto + 1)
        if there > seq and key not in names:
            dropped.append(key)
    writer.unset_rows(LINEAGES, dropped)
    return rows - len(dropped)


def _name(reader: Reader, seq: int) -> bytes:
    """Return the name of a grain's lineage, in few steps."""
    name = SEQUENCE.pack(seq)
    while (further := reader.row(LINEAGES, name)) is not None:
        name = further
    return name


def _covers(grain: Grain | None) -> bool:
    """Whether a grain's policy covers its lineage; most grains have no policy."""
    return grain is not None and policy.FIELD in grain and policy.covers_lineage(grain)


RETAINING = frozenset(("retention_policy", "fin:retention_years"))
"""Fields that say how long a grain must be kept; the rules of ``oms.toml`` read them."""

_BINDING = frozenset((policy.FIELD, "derived_from"))
"""Fields with a policy, or with grains whose policy may apply."""

_RULED = frozenset(("consent", "goal"))
"""Types that have rules of their own."""


def is_bound(grain: Grain) -> bool:
    """Whether a grain itself can have a policy that applies to it; sealed ones can."""
    return grain.sealed or grain.type in _RULED or not _BINDING.isdisjoint(grain.fields)


_KEEPING = _BINDING | RETAINING | PRIVILEGE
_SHORT = {field.short for field in registry.FIELDS if field.name in _KEEPING}
_MARKS = text_marks(sorted(_KEEPING | _SHORT))
_FREE = frozenset(kind.byte for kind in registry.TYPES if kind.name not in _RULED)


def may_keep(blobs: Sequence[bytes]) -> set[int]:
    """Return the positions of the blobs whose grains a rule of their own may keep.

    All others need not be decoded: nothing in them says so.
    """
    others = (i for i, b in enumerate(blobs) if b[1] & ENCRYPTED_BIT or b[2] not in _FREE)
    return {*_MARKS.find(list(blobs)), *others}


def check_retention(
    settings: Settings, grain: Grain, now: int, approvals: Collection[str] = ()
) -> tuple[str, ...]:
    """Refuse to delete a grain that must be kept; returns the rules that require a review."""
    if settings.preset is None and RETAINING.isdisjoint(grain.fields):
        return ()
    from omsgrain.policy.presets import load

    preset = settings.preset or load(())  # a grain's own retention always applies
    return preset.check_delete(grain, now, approvals=approvals)


_NOBODY: Mapping[str, tuple[str, ...]] = MappingProxyType({})


class PolicyContext:
    """The grains of one snapshot, by address."""

    __slots__ = ("_new", "_reader", "_signed")

    def __init__(
        self,
        reader: Reader,
        *new: Grain,
        signed: Mapping[str, tuple[str, ...]] = _NOBODY,
        near: Mapping[str, Grain] = MappingProxyType({}),
    ) -> None:
        self._reader = reader
        self._signed = signed
        self._new = {**near, **{grain.address: grain for grain in new}}

    def check(self, act: policy.Act, settings: Settings) -> tuple[str, ...]:
        """Refuse an act that a policy denies; returns the rules that require a review."""
        if not settings.delegation and self._is_free(act):
            return ()
        verdict = policy.check(
            self,
            act,
            hold_authorities=settings.hold_authorities,
            delegation=settings.delegation,
        )
        return verdict.rules if verdict.review else ()

    def _is_free(self, act: policy.Act) -> bool:
        """Whether ``policy.check`` surely permits an act without a review.

        It does for most grains: they have no policy, no type with rules, no sources and no hold,
        and no policy covers their lineage.
        """
        target, seq = self.grain(act.address), self._seq(act.address)
        if target is None or seq is None:
            return False
        if is_bound(target) or (act.new is not None and is_bound(act.new)):
            return False
        return not self.held(act.address) and next(guards(self._reader, seq), None) is None

    def grain(self, address: str) -> Grain | None:
        """Return the grain at an address; None if it is missing or its key was destroyed."""
        if address in self._new:
            return self._new[address]
        seq = self._seq(address)
        grain = None if seq is None else self._reader.grain(seq)
        if seq is not None and grain is not None and grain.sealed:
            if destroyed(self._reader, seq):
                return None  # a lost policy neither permits nor denies
            raise KeyMissingError(
                "the grain is encrypted, and its policy cannot be read without the key"
            )
        return grain

    def children(self, address: str) -> Iterator[str]:
        for _, grain in naming(self._reader, address, "derived_from"):
            yield grain.address

    def successors(self, address: str) -> tuple[str, ...]:
        seq = self._seq(address)
        row = None if seq is None else self._reader.row(STATES, SEQUENCE.pack(seq))
        return unpack(row).successors

    def guards(self, address: str) -> Iterator[str]:
        seq = self._seq(address)
        for guard in () if seq is None else guards(self._reader, seq):
            grain = self._reader.grain(guard)
            if grain is not None:
                yield grain.address

    def held(self, address: str) -> bool:
        seq = self._seq(address)
        return seq is not None and self._reader.row(HOLDS, SEQUENCE.pack(seq)) is not None

    def signers(self, address: str) -> tuple[str, ...]:
        seq = self._seq(address)
        found = () if seq is None else signatures.signers(self._reader, seq)
        return tuple(sorted({*found, *self._signed.get(address, ())}))

    def _seq(self, address: str) -> int | None:
        return self._reader.find([bytes.fromhex(address)])[0]
