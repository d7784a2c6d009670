# SPDX-License-Identifier: Apache-2.0
"""What the person allowed when a document was made. Spec: MIF 1.0 §6.3."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from omsgrain.formats import times
from omsgrain.formats.mif1.fields import FORMAT
from omsgrain.formats.source import Source
from omsgrain.grain import Grain

__all__ = ["STAYS", "Consent", "is_consent"]

STAYS: Final = "it stays with the document that it came in"
"""Why a consent is in no other document."""

_DAY: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class Consent:
    """The consent of a document; what it does not say is None.

    Attributes:
        exported_by: who asked for the export.
        purpose: what for.
        retention_days: how many days the records may be kept.
        sharing_allowed: whether they may be passed on.
        gdpr_basis: the legal basis.
        timestamp: when that was said, as it was spelled.
    """

    exported_by: str | None = None
    purpose: str | None = None
    retention_days: int | None = None
    sharing_allowed: bool | None = None
    gdpr_basis: str | None = None
    timestamp: str | None = None

    @classmethod
    def of(cls, block: Mapping[str, Any] | None) -> Consent | None:
        """Read the ``consent`` of a document that was checked; None if it has none."""
        if not isinstance(block, Mapping):
            return None
        days, shares = block.get("retention_days"), block.get("sharing_allowed")
        names = ("exported_by", "purpose", "gdpr_basis", "timestamp")
        texts = {name: block[name] for name in names if isinstance(block.get(name), str)}
        return cls(
            **texts,
            retention_days=int(days) if isinstance(days, int | float) else None,
            sharing_allowed=shares if isinstance(shares, bool) else None,
        )

    @property
    def shares(self) -> bool:
        """Whether the records may be passed on: unless the person said that they may not."""
        return self.sharing_allowed is not False

    def expires_at(self, created: int) -> int | None:
        """Until when the records may be kept; None: no end was set.

        Args:
            created: when the document was made, ms since 1970; it counts where the consent
                does not say itself when it was given.

        Returns:
            ms since 1970.
        """
        if self.retention_days is None:
            return None
        given = None if self.timestamp is None else times.parse(self.timestamp, floating=True)
        return (created if given is None else given.millis) + self.retention_days * _DAY


def is_consent(grain: Grain) -> bool:
    """Whether a grain is the consent of a document: that belongs to it, and is in no other."""
    source = Source.of(grain) if grain.type == "state" else None
    return source is not None and (source.format, source.kind) == (FORMAT, "consent")
