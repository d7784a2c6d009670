# SPDX-License-Identifier: Apache-2.0
"""What an erasure must leave: grains under a hold, and those that must be kept for some time yet.

Locks do not keep a grain from the person it is about; only these two do. A grain about nobody is
kept by its locks from erasures that come from other stores.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from omsgrain.engine.rights.selector import is_about_nobody
from omsgrain.engine.world import StoreWorld
from omsgrain.errors import (
    InvalidationDeniedError,
    KeyMissingError,
    OmsError,
    RangeError,
    StoreError,
)
from omsgrain.grain import Grain
from omsgrain.index import policy
from omsgrain.index.history.supersession import members
from omsgrain.store import sealing
from omsgrain.store.base import Reader
from omsgrain.store.tables import GUARDS, HOLDS, SEQUENCE

if TYPE_CHECKING:
    from omsgrain.engine.base import Settings

__all__ = ["keeps_key", "lock", "readable", "refusal"]


def refusal(reader: Reader, settings: Settings, grain: Grain, now: int) -> str | None:
    """Return the rule that keeps a grain from being erased; None if it may go.

    Args:
        reader: a snapshot or a transaction.
        settings: of the handle.
        grain: the grain, opened if it is sealed.
        now: ms since 1970.
    """
    from omsgrain.privacy import load

    if grain.sealed:
        return "key"
    act = policy.Act("erase", grain.address, now=now)
    preset = settings.preset or load(())  # what a grain says of its own retention binds always
    try:
        policy.check(StoreWorld(reader), act, hold_authorities=settings.hold_authorities)
        preset.check_delete(grain, now)
    except InvalidationDeniedError as error:
        return error.rule or error.code
    except KeyMissingError:
        return "key"  # a grain that this one derives from may hold it, and cannot be read
    return None


def lock(reader: Reader, settings: Settings, grain: Grain, now: int) -> str | None:
    """Return the rule of a policy that keeps a grain about nobody from an erasure from outside.

    Locks do not keep a grain from the person it is about. Of one that is about nobody a tombstone
    is the order of somebody elsewhere to delete it, and its policy is asked as for that.

    Args:
        reader: a snapshot or a transaction.
        settings: of the handle.
        grain: the grain, opened if it is sealed.
        now: ms since 1970.
    """
    if not is_about_nobody(grain):
        return None
    act = policy.Act("delete", grain.address, justification="erased elsewhere", now=now)
    try:
        policy.check(StoreWorld(reader), act, hold_authorities=settings.hold_authorities)
    except InvalidationDeniedError as error:
        return error.rule or error.code
    except KeyMissingError:
        return "key"
    return None


def keeps_key(reader: Reader, settings: Settings, number: bytes, now: int) -> bool:
    """Tell whether a grain that a key seals must be kept, and the key with it.

    Only those are opened that can have a reason: the time does not grow with the others, unless
    a preset has rules on how long grains must be kept.

    Args:
        reader: a transaction, in which the key is not destroyed yet.
        settings: of the handle.
        number: of the key.
        now: ms since 1970.
    """
    try:
        for seq in _candidates(reader, settings, number):
            grain = readable(reader, seq)
            if grain is not None and refusal(reader, settings, grain, now) is not None:
                return True
    except RangeError:  # too long a lineage to tell: each grain is asked then
        return True
    return False


def readable(reader: Reader, seq: int) -> Grain | None:
    """Return a grain; None if it is not there or damaged, so that nothing of it can be kept."""
    try:
        return reader.grain(seq)
    except StoreError:
        raise
    except OmsError:
        return None


def _candidates(reader: Reader, settings: Settings, number: bytes) -> Iterator[int]:
    for key, _ in reader.rows(HOLDS):
        (seq,) = SEQUENCE.unpack(key)
        if sealing.key_of(reader, seq) == number:
            yield seq
    yield from sealing.seqs_of(reader, number, kept=not _keeps_by_kind(settings))
    seen: set[int] = set()
    for key, _ in reader.rows(GUARDS):
        (guard,) = SEQUENCE.unpack(key[SEQUENCE.size :])
        if guard not in seen:
            for seq in members(reader, guard):
                seen.add(seq)
                if sealing.key_of(reader, seq) == number:
                    yield seq


def _keeps_by_kind(settings: Settings) -> bool:
    """Whether a preset keeps grains by what they are, and not by what they say of themselves."""
    if settings.preset is None:
        return False
    from omsgrain.privacy import load
    from omsgrain.privacy.retention import Keep

    always = load(()).rules
    return any(isinstance(rule, Keep) and rule not in always for rule in settings.preset.rules)
