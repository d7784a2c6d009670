# SPDX-License-Identifier: Apache-2.0
"""The rights of the people that grains are about. Spec: OMS §9.

selector      which grains are about a person; the one selector of all that follows
reported      one grain of a report
report        what the store holds about a person
restricting   grains that are kept and not used
consent       which consents stand
withdrawing   withdrawing one, and what goes with it
running       the erasures that are due
keeping       what an erasure must leave
orders        erasures under way, in the queue
unkeying      destroying keys, and what was found by them
removal       what goes with a grain that is erased
carrying      carrying out an order to erase
erasing       erasing a person
replaying     erasing again what came back with a backup
"""

from __future__ import annotations

from omsgrain.store.privacy.consent import Withdrawing
from omsgrain.store.privacy.report import Reporting
from omsgrain.store.privacy.restriction import Restricting
from omsgrain.store.privacy.tombstone_replay import Replaying

__all__ = [
    "Rights",
]


class Rights(Withdrawing, Replaying, Restricting, Reporting):
    """The part of a GrainStore that answers to the people it knows of."""
