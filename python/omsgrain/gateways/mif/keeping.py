# SPDX-License-Identifier: Apache-2.0
"""What is kept of a document beside its records, so that it can be given back.

Where some of its records are not stored, it is kept without these, and without what other systems
say of them in it. Of what was erased nothing is kept, also if the record is not in the document.

A record that is stored already in another form stands beside it as a duplicate, which is no
memory: it is given back with the document, and never recalled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from omsgrain.engine.recording import Step
from omsgrain.formats import raw, vendors
from omsgrain.formats.document import manifest
from omsgrain.formats.problems import Problem
from omsgrain.gateways.mif.arriving import NATIVE, Arrived, Document
from omsgrain.gateways.mif.deciding import Decision
from omsgrain.gateways.mif.planning import Plan
from omsgrain.gateways.mif.versions import version

__all__ = ["Keeping"]

_GONE: Final = ""


class Keeping:
    """A document that is to be kept, as far as its records are stored as they came.

    Args:
        document: as it arrived.
        wanted: whether it is to be kept at all.

    Attributes:
        warnings: why it could not be, or not whole.
    """

    def __init__(self, document: Document, wanted: bool) -> None:
        self._document, self._wanted = document, wanted
        self.warnings: list[Problem] = []
        self._addresses = {
            array: [_GONE] * len(listed) for array, listed in document.manifest.arrays.items()
        }
        self._steps: list[Step] = []
        self._left = set[str]()
        self._kept = set[str]()
        self._erased = False

    def note(self, plan: Plan, decision: Decision, step: Step | None) -> None:
        """Note which grain a record is.

        Args:
            plan: what was to be done with it.
            decision: what became of it.
            step: by which it was put.
        """
        listed = self._addresses.get(plan.one.place.array)
        taken = decision.fate not in ("refused", "erased")
        self._erased |= decision.fate == "erased"
        if plan.one.id is not None:
            (self._kept if taken else self._left).add(plan.one.id)
        if not self._wanted or listed is None or not taken:
            return
        at = plan.one.place.at
        if plan.one.original is not None:
            grain, parts = plan.one.original
            self._duplicate(at, listed, plan.one._replace(grain=grain, parts=parts), None)
        elif step is not None and step.grain is not None:
            listed[at] = step.grain.address
        elif plan.stored is not None:
            listed[at] = plan.stored
        elif plan.one.is_duplicate:
            self._beside(at, listed, Step("", None, plan.one.grain, plan.one.parts))
        elif plan.one.kind != NATIVE:
            self._duplicate(at, listed, plan.one, plan.of)

    def _duplicate(self, at: int, listed: list[str], one: Arrived, of: str | None) -> None:
        """Keep a record as it came beside what is stored of it."""
        document = self._document
        built = version(one.format).table.to_duplicate(
            one.kind, document.record_of(one), of=of or one.id or "-", owner=document.owner
        )
        self._beside(at, listed, Step("", None, built.grain, tuple(built.parts)))

    def _beside(self, at: int, listed: list[str], step: Step) -> None:
        if step.grain is not None:
            listed[at] = step.grain.address
            self._steps.append(step)

    def steps(self, until: int | None, erased: Callable[[set[str]], set[str]]) -> list[Step]:
        """What is to be put; nothing if nothing of the document is kept.

        Args:
            until: when all of it must be gone, ms since 1970.
            erased: tells which of some ids are those of records that were erased.
        """
        document = self._document
        if not self._wanted or not document.manifest.id:
            return []
        arrays = {
            pointer: [one for one in listed if one is not _GONE]
            for pointer, listed in self._addresses.items()
        }
        envelope = document.manifest.envelope
        said = vendors.keys(envelope)
        gone = (said & self._left - self._kept) | erased(said)
        part = bool(document.bad or gone) or arrays != self._addresses
        if self._erased and not any(arrays.values()):
            self.warnings.append(self.not_kept())
            return []
        if part:
            says = "the document is kept without what was not taken of it"
            self.warnings.append(Problem("document_kept_in_part", "", says))
            envelope = vendors.without(envelope, gone)
        whole = replace(document.manifest, arrays=arrays, envelope=envelope, text=())
        by_address = {} if part else {one.address: one for one in document.text}
        text = raw.gather(list(by_address), by_address.__getitem__) if by_address else None
        grains = manifest(
            whole,
            created_at=document.created_at,
            user_id=document.owner,
            text=text,
            keyed=said & self._kept - gone,
        )
        steps = [*self._steps, *(Step("", None, grain) for grain in grains)]
        return [replace(one, until=until) for one in steps]

    def not_kept(self) -> Problem:
        """The warning that it is not kept."""
        says = "the document is not kept: it was erased, or the store refuses a part of it"
        return Problem("document_not_kept", "", says)
