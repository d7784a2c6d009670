# SPDX-License-Identifier: Apache-2.0
"""Which grains are exported: those that match the filters and that no rule withholds."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from omsgrain import _core
from omsgrain.errors import NotFoundError, SchemaError, UnsupportedError
from omsgrain.grain import Grain
from omsgrain.header import SIGNED_BIT
from omsgrain.query import query as queries
from omsgrain.storage import erasure_queue
from omsgrain.storage.base import Reader, ScannedBlob, damaged, pages
from omsgrain.storage.records import RESTRICTED as RESTRICTED_BIT
from omsgrain.storage.records import GrainStatus
from omsgrain.storage.tables import HOLDS, MARK, SEQUENCE, STATES
from omsgrain.store.lifecycle import status

if TYPE_CHECKING:
    from omsgrain.container.region import Block
    from omsgrain.policy.rules import Purpose
    from omsgrain.query.filters import Filters
    from omsgrain.store.context import Context, Settings

_PROFILES = ("legal", "finance", "consumer")
"""The domain profiles that restrict exports."""

SHARING: Final = "x_sharing"
"""The field that says whether a grain under a MIF 1.0 consent may be shared."""
OVER: Final = "retention over"
RESTRICTED: Final = "restricted"
"""Reasons for withholding a grain, as reports have them."""

_SHARED = ("transfer", "sale")
_UNDER_CONSENT = "mif1"
"""The namespace of grains with that field."""

Numbered: TypeAlias = tuple[int, bytes]
"""A sequence number and the blob under it, as it is stored."""

_PAGE = 1 << 18  # bytes of blobs to read at once, so that they stay in the CPU caches
_GRAINS_A_PAGE = 1_000


@dataclass(slots=True)
class Leavers:
    """Which grains may be exported, by sequence number."""

    stays: Mapping[int, str]  # grains that may not, each with the reason: `OVER` or `RESTRICTED`
    last: int  # the last sequence number when the rules were applied; later grains stay too
    # how many of the chosen grains are withheld, by reason
    withheld: Counter[str] = field(default_factory=Counter)

    def of(self, page: Iterable[Numbered]) -> list[Numbered]:
        stays, last = self.stays, self.last
        return [one for one in page if one[0] <= last and one[0] not in stays]

    def count(self, page: Iterable[Numbered]) -> None:
        stays = self.stays
        self.withheld.update(stays[seq] for seq, _ in page if seq in stays and seq <= self.last)

    def count_all(self) -> None:
        """Count all withheld grains, if all grains are chosen."""
        self.withheld.update(self.stays.values())


def is_ruled(settings: Settings, grain: Grain) -> bool:
    """Whether a rule may apply to a grain: of a preset, of a profile in its tags, or a consent."""
    fields = grain.fields
    return settings.preset is not None or "structural_tags" in fields or SHARING in fields


def check(settings: Settings, grain: Grain, held: bool, purpose: Purpose) -> tuple[str, ...]:
    """Refuse to export a grain if a profile or a preset forbids it."""
    from omsgrain import policy

    rule = policy.check_export(grain, held, sale=purpose == "sale")
    if rule is None and purpose in _SHARED and grain.get(SHARING) is False:
        rule = "consent:sharing"
    if rule is not None:
        raise UnsupportedError(
            "a rule forbids the export of this grain", found=grain.address, rule=rule
        )
    if settings.preset is None:
        return ()
    return settings.preset.check_export(grain, purpose=purpose)


def manifest_entry(state: GrainStatus) -> dict[str, Any]:
    """Return the manifest entry of a grain: states other than the default, without read counts."""
    said = {
        "superseded_by": state.superseded_by,
        "system_valid_to": state.system_valid_to,
        "verification_status": state.verification_status,
    }
    return {name: value for name, value in said.items() if value not in (None, "unverified")}


def under_rules(reader: Reader) -> set[int]:
    """Return the numbers of grains with a restricting profile, or under a consent."""
    terms = [_core.term("tag", f"profile:{name}") for name in _PROFILES]
    terms.append(_core.term("namespace", _UNDER_CONSENT))
    return {
        int.from_bytes(place[12:], "big")
        for term in terms
        for place in reader.places(term, None, False)
    }


def whole(context: Context, leavers: Leavers) -> Iterator[Block | list[Numbered]]:
    """Return all grains in storage order: in blocks if none of them is withheld."""
    after = 0
    while after < leavers.last:
        if not leavers.stays:
            with context.storage.read() as reader:
                found = _block(reader, after, leavers.last)
            if found is not None:
                block, after = found
                yield block
                continue
        page = next(pages(context.storage, after), ())
        page = [entry for entry in page if entry.seq <= leavers.last]
        if not page:
            return
        yield sound(page)
        after = page[-1].seq


def _block(reader: Reader, after: int, last: int) -> tuple[Block, int] | None:
    """Return the next blobs as a block with its last number; None to read them one by one."""
    from omsgrain.container.layout import MAX_GRAIN, MIN_GRAIN
    from omsgrain.container.region import Block

    found = reader.marked_rows(after, _PAGE)
    if found is None:
        return None
    rows, end = found
    packed = _core.pack_rows(rows, MARK) if rows and end <= last else None
    if packed is None or packed[3] & SIGNED_BIT:
        return None
    sizes = array("I", packed[1])
    if min(sizes) < MIN_GRAIN or max(sizes) > MAX_GRAIN:
        return None
    return Block(packed[0], sizes, packed[2]), end


def check_purpose(purpose: str) -> None:
    if purpose not in ("move", "access", "transfer", "sale"):
        raise SchemaError(
            "unknown purpose", field="/purpose", expected="move, access, transfer or sale"
        )


def export_plan(
    context: Context, filters: Filters, purpose: Purpose
) -> tuple[dict[str, Mapping[str, Any]], set[str], Leavers]:
    """Return the states to export, the rules that require a review, and which grains may leave."""
    check_purpose(purpose)
    states: dict[str, Mapping[str, Any]] = {}
    rules: set[str] = set()
    leavers = leavers_for(context, purpose)
    for grain in _marked(context, filters, leavers):
        try:
            state = status(context, grain.address)
        except NotFoundError:  # it was removed meanwhile
            continue
        rules.update(check(context.settings, grain, state.held, purpose))
        if entry := manifest_entry(state):
            states[grain.address] = entry
    return states, rules, leavers


def note_export(
    context: Context,
    told: Mapping[str, int | str],
    purpose: Purpose,
    rules: set[str],
    withheld: Mapping[str, int],
    actor: str | None = None,
) -> None:
    """Note an export in the audit trail, unless the store is read-only: how much, not whose."""
    if context.storage.readonly:
        return
    details: dict[str, int | str] = {**told, "purpose": purpose}
    if withheld:
        details["withheld"] = sum(withheld.values())
    if rules:
        details["review"] = ",".join(sorted(rules))[:256]
    context.storage.write(lambda w: context.note(w, "export", [], details=details, actor=actor))


def _marked(context: Context, filters: Filters, leavers: Leavers) -> Iterator[Grain]:
    """Return the chosen grains that have a state or that a rule may withhold."""
    if filters or context.settings.preset is not None:
        for page in chosen_pages(context, filters):
            leavers.count(page)
            yield from _opened(context, (seq for seq, _ in leavers.of(page)))
        return
    leavers.count_all()
    with context.storage.read() as reader:
        seqs = {SEQUENCE.unpack(key)[0] for key, _ in reader.rows(STATES)}
        seqs |= under_rules(reader)
    for seq in sorted(seqs.difference(leavers.stays)):
        if seq <= leavers.last:
            yield from _opened(context, [seq])


def _opened(context: Context, seqs: Iterable[int]) -> list[Grain]:
    """Return grains, decrypted where the store has the keys."""
    with context.storage.read() as reader:
        return [grain for seq in seqs if (grain := reader.grain(seq)) is not None]


def leavers_for(context: Context, purpose: Purpose) -> Leavers:
    """Return which grains may be exported for a purpose."""
    with context.storage.read() as reader:
        last = reader.last_seq()
        if purpose == "access":  # a person gets all of their data
            return Leavers({}, last)
        over = erasure_queue.retention_over(reader, context.settings.clock())
        if purpose == "move":
            # Held grains are evidence and must move too.
            free = (s for s in over if reader.row(HOLDS, SEQUENCE.pack(s)) is None)
            return Leavers(dict.fromkeys(free, OVER), last)
        rows = reader.rows(STATES)
        idle = (SEQUENCE.unpack(key)[0] for key, row in rows if row[0] & RESTRICTED_BIT)
        stays = dict.fromkeys(idle, RESTRICTED)
        return Leavers(stays | dict.fromkeys(over, OVER), last)


def chosen_pages(context: Context, filters: Filters) -> Iterator[list[Numbered]]:
    """Return pages of the grains that match the filters; without filters, all grains.

    They include past grains unless the filters say otherwise.
    """
    if not filters:
        yield from map(sound, pages(context.storage))
        return
    chosen: Filters = {"current": None, "bookkeeping": True, **filters}
    cursor = None
    while True:
        with context.storage.read() as reader:
            page = queries.run(
                reader,
                chosen,
                order="oldest",
                limit=_GRAINS_A_PAGE,
                cursor=cursor,
                scan=True,
            )
            digests = [bytes.fromhex(hit.address) for hit in page.results]
            seqs = [seq for seq in reader.find(digests) if seq is not None]
            found = [(seq, blob) for seq in seqs if (blob := reader.blob_at(seq)) is not None]
        yield found
        cursor = page.next_cursor
        if cursor is None:
            return


def sound(entries: list[ScannedBlob]) -> list[Numbered]:
    """Return the numbers and blobs of a page; raises for a damaged one."""
    for entry in entries:
        if not entry.sound:
            raise damaged(entry)
    return [(entry.seq, entry.blob) for entry in entries]
