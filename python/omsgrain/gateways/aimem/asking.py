# SPDX-License-Identifier: Apache-2.0
"""What may be asked of an export, and what is told of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

from omsgrain.counts import counted
from omsgrain.errors import SchemaError
from omsgrain.formats.aimem import urn
from omsgrain.formats.aimem.fields import Kind
from omsgrain.formats.document import Added, Loss
from omsgrain.gateways.aimem.scopes import Wanted, wanted

if TYPE_CHECKING:
    from omsgrain.privacy import Purpose

__all__ = ["PRODUCER", "Asked", "ExportReport"]

PRODUCER: Final = "omsgrain"
"""Our own producer namespace, if no other is given."""
MOST = 1_000
"""Losses that are listed; all are counted."""


@dataclass(frozen=True)
class Asked:
    """What is wanted of a tenant's memory: the options of ``export_bundle``, ``export_stream``.

    Attributes:
        scope: ``FULL``; ``DNA_ONLY``: chunks that must not decay; ``SINCE``: those of ``since``
            or later.
        since: with SINCE: a time in UTC.
        producer: our own namespace, under which grains leave that never were AIMEM.
        only_producer: only the bundle of this producer.
        together: what several producers have named leaves in one bundle, ours, each under its own
            name; readers that hold to the letter of §2.3 refuse it.
        include_embeddings: whether they leave; they can tell what they were made of.
        embedding_model: the model of those that do, if the chunks have several.
        strict: nothing that is no member of the format; the report tells what is lost by it.
        now: ms since 1970, instead of the clock.
        tenant_id: what the bundle calls the tenant, if it is not the ``user_id``.
        purpose: why, for the rules of presets and profiles, as with ``export_mg``.

    Raises:
        SchemaError: one of them cannot be; ``rule`` is the format's.
    """

    scope: str = "FULL"
    since: str | None = None
    producer: str = PRODUCER
    only_producer: str | None = None
    together: bool = False
    include_embeddings: bool = False
    embedding_model: str | None = None
    strict: bool = False
    now: int | None = None
    tenant_id: str | None = None
    purpose: Purpose = "transfer"

    def __post_init__(self) -> None:
        _ = self.wanted
        for name in (self.producer, self.only_producer):
            if name is not None and not urn.is_producer(name):
                raise SchemaError(
                    "not a producer namespace",
                    field="/producer",
                    expected="1 to 63 of a-z, 0-9 and -",
                    rule="invalid_producer",
                )
        if self.purpose not in ("move", "access", "transfer", "sale"):
            expected = "move, access, transfer or sale"
            raise SchemaError("no such purpose", field="/purpose", expected=expected)

    @cached_property
    def wanted(self) -> Wanted:
        """The scope."""
        return wanted(self.scope, self.since)

    def takes(self, producer: str) -> bool:
        """Whether the bundle of a producer is wanted."""
        return self.only_producer in (None, producer)


@dataclass(slots=True)
class ExportReport:
    """What became of an export; give an empty one to be filled.

    Attributes:
        counts: how many records of each kind left.
        producers: of the bundles.
        named: who has named what leaves; of bundles that are not together the same.
        losses: what AIMEM cannot hold of what left, or does not leave for another reason; the
            first thousand.
        lost: how many there are.
        added: what AIMEM needs and the memory does not say; the first thousand.
        passed_over: grains that are no memory of their own: parts of records, lists of documents.
        withheld: how many memories a restriction or the end of their retention keeps back, by
            reason; none for ``access``.
    """

    counts: dict[Kind, int] = field(default_factory=dict)
    producers: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    losses: list[Loss] = field(default_factory=list)
    lost: int = 0
    added: list[Added] = field(default_factory=list)
    passed_over: int = 0
    withheld: dict[str, int] = field(default_factory=dict)

    __repr__ = counted

    def lose(self, losses: Iterable[Loss]) -> None:
        """Tell of more losses, and of values that were made up."""
        for loss in losses:
            if isinstance(loss, Added):
                if len(self.added) < MOST:
                    self.added.append(loss)
                continue
            self.lost += 1
            if len(self.losses) < MOST:
                self.losses.append(loss)
