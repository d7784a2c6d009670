# SPDX-License-Identifier: Apache-2.0
"""What is kept of a document beside its records, so that it can be given back.

A record that is stored already in another form stands beside it as a duplicate, which is no
memory: it is given back with the document, and never recalled.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from omsgrain.engine.recording import Step
from omsgrain.formats import raw
from omsgrain.formats.document import manifest
from omsgrain.formats.problems import Problem
from omsgrain.gateways.mif.arriving import NATIVE, Document
from omsgrain.gateways.mif.deciding import Decision
from omsgrain.gateways.mif.planning import Plan
from omsgrain.gateways.mif.versions import version

__all__ = ["Keeping"]

_GONE: Final = ""


class Keeping:
    """A document that is to be kept, if all its records are stored as they came.

    Args:
        document: as it arrived.
        wanted: whether it is to be kept at all.

    Attributes:
        warnings: why it could not be.
    """

    def __init__(self, document: Document, wanted: bool) -> None:
        self._document, self._wanted = document, wanted
        self.warnings: list[Problem] = []
        self._addresses = {
            array: [_GONE] * len(listed) for array, listed in document.manifest.arrays.items()
        }
        self._steps: list[Step] = []

    def note(self, plan: Plan, decision: Decision, step: Step | None) -> None:
        """Note which grain a record is.

        Args:
            plan: what was to be done with it.
            decision: what became of it.
            step: by which it was put.
        """
        listed = self._addresses.get(plan.one.place.array)
        if not self._wanted or listed is None or decision.fate in ("refused", "erased"):
            return
        at = plan.one.place.at
        if step is not None and step.grain is not None:
            listed[at] = step.grain.address
        elif plan.stored is not None:
            listed[at] = plan.stored
        elif plan.one.is_duplicate:
            self._beside(at, listed, Step("", None, plan.one.grain, plan.one.parts))
        elif plan.one.kind != NATIVE:
            one, document = plan.one, self._document
            built = version(one.format).table.to_duplicate(
                one.kind,
                document.record_of(one),
                of=plan.of or one.id or "-",
                owner=document.owner,
            )
            self._beside(at, listed, Step("", None, built.grain, tuple(built.parts)))

    def _beside(self, at: int, listed: list[str], step: Step) -> None:
        if step.grain is not None:
            listed[at] = step.grain.address
            self._steps.append(step)

    def steps(self, until: int | None) -> list[Step]:
        """What is to be put; nothing if the document cannot be kept.

        Args:
            until: when all of it must be gone, ms since 1970.
        """
        if not self._wanted or not self._document.manifest.id:
            return []
        if self._document.bad or any(_GONE in listed for listed in self._addresses.values()):
            self.warnings.append(self.not_kept())
            return []
        document = self._document
        whole = replace(document.manifest, arrays=self._addresses, text=())
        by_address = {part.address: part for part in document.text}
        text = raw.gather(list(by_address), by_address.__getitem__) if by_address else None
        grains = manifest(whole, created_at=document.created_at, user_id=document.owner, text=text)
        steps = [*self._steps, *(Step("", None, grain) for grain in grains)]
        return [replace(one, until=until) for one in steps]

    def not_kept(self) -> Problem:
        """The warning that it is not kept."""
        says = "the document is not kept, as not all of its records are stored as they came"
        return Problem("document_not_kept", "", says)
