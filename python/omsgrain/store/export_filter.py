# SPDX-License-Identifier: Apache-2.0
"""Which grains may be exported, and their entries in a manifest."""

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


@dataclass(slots=True)
class Leavers:
    """Which grains may be exported, by sequence number.

    Attributes:
        stays: grains that may not, each with the reason: `OVER` or `RESTRICTED`.
        last: the last sequence number when the rules were applied; later grains stay too.
        withheld: how many of the chosen grains are withheld, by reason.
    """

    stays: Mapping[int, str]
    last: int
    withheld: Counter[str] = field(default_factory=Counter)

    def of(self, page: Iterable[Numbered]) -> list[Numbered]:
        """Return the grains of a page that may be exported."""
        stays, last = self.stays, self.last
        return [one for one in page if one[0] <= last and one[0] not in stays]

    def count(self, page: Iterable[Numbered]) -> None:
        """Count the chosen grains of a page that are withheld."""
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


def whole(store: Storage, last: int, *, singly: bool) -> Iterator[Block | list[ScannedBlob]]:
    """Return all blobs up to a sequence number, in storage order."""
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
    """Return the next blobs as a block with its last number; None to read them one by one."""
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
