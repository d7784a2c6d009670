# SPDX-License-Identifier: Apache-2.0
"""Rules about which grains may be exported, and what a manifest says of them."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from omsgrain import _core
from omsgrain.errors import UnsupportedError
from omsgrain.grain import Grain
from omsgrain.header import SIGNED_BIT
from omsgrain.storage.base import Reader, Storage
from omsgrain.storage.records import GrainStatus
from omsgrain.storage.scan import ScannedBlob, pages
from omsgrain.storage.tables import MARK

if TYPE_CHECKING:
    from omsgrain.container.region import Block
    from omsgrain.policy.rules import Purpose
    from omsgrain.store.context import Settings

_PROFILES = ("legal", "finance", "consumer")
"""The domain profiles with rules about what may leave."""

SHARING: Final = "x_sharing"
"""The field of a grain that came under a consent that says whether it may be shared."""
OVER: Final = "retention over"
RESTRICTED: Final = "restricted"
"""Why a grain is withheld from an export, as reports have it."""

_SHARED = ("transfer", "sale")
_UNDER_CONSENT = "mif1"
"""The namespace of the grains that can have it."""

Numbered: TypeAlias = tuple[int, bytes]
"""A sequence number and the blob under it, as it is stored."""

_PAGE = 1 << 18  # bytes of blobs that are read at once: more would not stay in the caches


@dataclass(slots=True)
class Leavers:
    """Which grains may leave, by their numbers.

    Attributes:
        stays: those that do not, each with the reason: `OVER` or `RESTRICTED`.
        last: the last number that the store had given. What came later no rule was asked about.
        withheld: how many of the chosen grains do not leave, by reason.
    """

    stays: Mapping[int, str]
    last: int
    withheld: Counter[str] = field(default_factory=Counter)

    def of(self, page: Iterable[Numbered]) -> list[Numbered]:
        """Those of some grains."""
        stays, last = self.stays, self.last
        return [one for one in page if one[0] <= last and one[0] not in stays]

    def count(self, page: Iterable[Numbered]) -> None:
        """Count those of some chosen grains that do not leave."""
        stays = self.stays
        self.withheld.update(stays[seq] for seq, _ in page if seq in stays and seq <= self.last)

    def count_all(self) -> None:
        """Count all that do not leave, where all grains are chosen."""
        self.withheld.update(self.stays.values())


def is_ruled(settings: Settings, grain: Grain) -> bool:
    """Whether a rule can concern a grain: a preset's, of a profile in its tags, or a consent."""
    fields = grain.fields
    return settings.preset is not None or "structural_tags" in fields or SHARING in fields


def check(settings: Settings, grain: Grain, held: bool, purpose: Purpose) -> tuple[str, ...]:
    """Refuse a grain that a profile's rule or a preset keeps in the store."""
    from omsgrain import policy

    rule = policy.check_export(grain, held, sale=purpose == "sale")
    if rule is None and purpose in _SHARED and grain.get(SHARING) is False:
        rule = "consent:sharing"
    if rule is not None:
        raise UnsupportedError("a rule keeps a grain in the store", found=grain.address, rule=rule)
    if settings.preset is None:
        return ()
    return settings.preset.check_export(grain, purpose=purpose)


def manifest_entry(state: GrainStatus) -> dict[str, Any]:
    """What a manifest says of a grain: only what is not the default, and no counts of reads."""
    said = {
        "superseded_by": state.superseded_by,
        "system_valid_to": state.system_valid_to,
        "verification_status": state.verification_status,
    }
    return {name: value for name, value in said.items() if value not in (None, "unverified")}


def under_rules(reader: Reader) -> set[int]:
    """The numbers of the grains that declare a profile with rules, or came under a consent."""
    terms = [_core.term("tag", f"profile:{name}") for name in _PROFILES]
    terms.append(_core.term("namespace", _UNDER_CONSENT))
    return {
        int.from_bytes(place[12:], "big")
        for term in terms
        for place in reader.places(term, None, False)
    }


def whole(store: Storage, last: int, *, singly: bool) -> Iterator[Block | list[ScannedBlob]]:
    """All blobs up to a number, in order of arrival."""
    after = 0
    while after < last:
        if not singly:
            with store.read() as reader:
                found = _block(reader, after, last)
            if found is not None:
                block, after = found
                yield block
                continue
        page = [entry for entry in next(pages(store, after), ()) if entry.seq <= last]
        if not page:
            return
        yield page
        after = page[-1].seq


def _block(reader: Reader, after: int, last: int) -> tuple[Block, int] | None:
    """The next blobs and the last one's number; None if they are to be looked at one by one."""
    from omsgrain.container.layout import MAX_GRAIN, MIN_GRAIN
    from omsgrain.container.region import Block

    rows_of = getattr(getattr(reader, "inner", reader), "marked_rows", None)
    if rows_of is None:
        return None
    rows, end = rows_of(after, _PAGE)
    packed = _core.pack_rows(rows, MARK) if rows and end <= last else None
    if packed is None or packed[3] & SIGNED_BIT:
        return None
    sizes = array("I", packed[1])
    if min(sizes) < MIN_GRAIN or max(sizes) > MAX_GRAIN:
        return None
    return Block(packed[0], sizes, packed[2]), end
