# SPDX-License-Identifier: Apache-2.0
"""What domain profiles say of a grain that is to leave the store. Spec: OMS, domain profiles."""

from __future__ import annotations

from omsgrain.grain import Grain
from omsgrain.policy.reach import texts

_PII = 2
_PRIVILEGED = ("attorney_client", "work_product")
#: Fields that say whom a grain is about.
_PERSON = ("user_id", "subject_did")


def profiles(grain: Grain) -> frozenset[str]:
    """The profiles that the grain declares. Only where one is declared do its rules hold."""
    tags = texts(grain.get("structural_tags"))
    return frozenset(tag.removeprefix("profile:") for tag in tags if tag.startswith("profile:"))


def is_privileged(grain: Grain) -> bool:
    """Whether a legal privilege covers it; one that is elided counts, as it cannot be read."""
    if "legal" not in profiles(grain):
        return False
    return grain.get("legal:privilege") in _PRIVILEGED or "legal:privilege" in _elided(grain)


def check_export(grain: Grain, held: bool, *, sale: bool = False) -> str | None:
    """Whether a profile's rule forbids that a grain leaves the store.

    Args:
        grain: the grain.
        held: whether a hold covers it, the store's own or one in its blob.
        sale: whether it is sold, or goes to a data broker.

    Returns:
        The name of the rule that forbids it, or None: ``legal:privilege``,
        ``finance:processing_basis``, ``consumer:processing_basis``, ``consumer:opted_out``.
    """
    declared = profiles(grain)
    if is_privileged(grain) and not held:
        return "legal:privilege"
    if sale and "consumer" in declared and grain.get("con:ccpa_opted_out") is True:
        return "consumer:opted_out"
    if not grain.get("processing_basis") and _identifies(grain):
        for name in ("finance", "consumer"):
            if name in declared:
                return f"{name}:processing_basis"
    return None


def _identifies(grain: Grain) -> bool:
    """Whether it says whom it is about, by a field or by its own classification."""
    elided = _elided(grain)
    named = any(grain.get(name) or name in elided for name in (*_PERSON, "fin:account_id"))
    return named or grain.header.sensitivity >= _PII


def _elided(grain: Grain) -> frozenset[str]:
    hidden = grain.get("_elided")
    return frozenset(hidden) if isinstance(hidden, dict) else frozenset()
