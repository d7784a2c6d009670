# SPDX-License-Identifier: Apache-2.0
"""What a store holds about a person, for that person: the right of access. GDPR Art. 15, 20.

    report = store.subject_report(["u-17", "did:key:z6Mk...", "ann@example.org"])
    report.complete                  # False if something could not be looked into
    report.write_json(file)          # for people
    report.write_mg("ann.mg")        # for programs

The grains stay in the store. A report keeps their numbers and reads them again, page by page, so
that it can be longer than the memory; what was erased since is not in it any more.
"""

from __future__ import annotations

import json
import os
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TextIO

from omsgrain import _core
from omsgrain.engine import acts, leaving
from omsgrain.engine.base import Base, Settings
from omsgrain.engine.rights.reported import Reported, reported, rfc3339, told_hold
from omsgrain.engine.rights.selector import Found, Identities, select
from omsgrain.errors import OmsError, StoreError, UnsupportedError
from omsgrain.store.base import Store

if TYPE_CHECKING:
    from omsgrain.container import Written
    from omsgrain.container.layout import Codec

__all__ = ["Reporting", "SubjectReport"]

_PAGE = 500  # grains a snapshot


class SubjectReport:
    """What a store holds about a person.

    Attributes:
        made_at: when, ms since 1970.
        own: how many grains are the person's.
        named: how many others bear a name of the person.
        incomplete: what could not be looked into or may not leave, in sentences.
    """

    def __init__(self, store: Store, settings: Settings, identities: Identities) -> None:
        self._store = store
        self._settings = settings
        self._identities = identities
        self._seqs = array("Q")
        self.made_at = settings.clock()
        self.own = self.named = 0
        withheld: Counter[str] = Counter()
        selection = select(store, identities)
        for found in selection:
            rule = self._withheld(found)
            if rule is not None:
                withheld[rule] += 1
                continue
            self._seqs.append(found.seq)
            self.own += found.own
            self.named += not found.own
        lacks = [
            f"grains that the rule {rule!r} keeps in the store: {count}"
            for rule, count in sorted(withheld.items())
        ]
        if selection.unopened:
            lacks.insert(
                0,
                "grains that could not be looked into, for want of a key or by damage:"
                f" {selection.unopened}",
            )
        self.incomplete = tuple(lacks)

    def __repr__(self) -> str:
        return f"<SubjectReport own={self.own} named={self.named} complete={self.complete}>"

    @property
    def complete(self) -> bool:
        """Whether everything that the store holds about the person is in it."""
        return not self.incomplete

    def _withheld(self, found: Found) -> str | None:
        """The rule that keeps a grain in the store, even from the person."""
        with self._store.read() as reader:
            grain = reader.grain(found.seq)
            held = acts.state(reader, found.seq).held
        try:
            if grain is not None:
                leaving.check(self._settings, grain, held, "access")
        except UnsupportedError as error:
            return error.rule or error.code
        except StoreError:
            raise
        except OmsError as error:  # a preset asks what the grain has not
            return error.rule or error.code
        return None

    def grains(self) -> Iterator[Reported]:
        """Walk the grains, in order of arrival; each page is a snapshot of its own."""
        for told, _ in self._pages(with_bytes=False):
            yield told

    def _pages(self, *, with_bytes: bool) -> Iterator[tuple[Reported, tuple[bytes, ...]]]:
        for start in range(0, len(self._seqs), _PAGE):
            page: list[tuple[Reported, tuple[bytes, ...]]] = []
            with self._store.read() as reader:
                for seq in self._seqs[start : start + _PAGE]:
                    grain = reader.grain(seq)
                    if grain is None or grain.sealed:  # erased since
                        continue
                    told = reported(reader, seq, grain, self._identities)
                    page.append((told, told.as_bytes() if with_bytes else ()))
            yield from page

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON-ready values, all of it in memory."""
        found: dict[str, Any] = json.loads(self.to_json())
        return found

    def to_json(self) -> str:
        """The report as readable JSON, all of it in memory."""
        return "".join(self._chunks())

    def write_json(self, file: TextIO) -> None:
        """Write the report as readable JSON, without holding it in memory.

        Args:
            file: a text file, open for writing in UTF-8; who may read it is up to you.
        """
        for chunk in self._chunks():
            file.write(chunk)

    def _chunks(self) -> Iterator[str]:
        """The report as JSON, piece by piece; what is told of several grains comes behind them."""
        head = {
            "made_at": rfc3339(self.made_at),
            "identities": list(self._identities),
            "complete": self.complete,
            "incomplete": list(self.incomplete),
            "own": self.own,
            "named": self.named,
        }
        yield _json(head)[:-2] + ',\n  "grains": ['
        consented: list[dict[str, Any]] = []
        held: list[dict[str, Any]] = []
        restricted: list[str] = []
        comma = ""
        for told in self.grains():
            yield comma + "\n    " + _json(told.to_dict()).replace("\n", "\n    ")
            comma = ","
            address = told.grain.address
            if told.grain.type == "consent":
                consented.append(told.consent())
            held += [{"address": address, **told_hold(hold)} for hold in told.holds]
            if told.state.restricted:
                restricted.append(address)
        tail = {"consents": consented, "holds": held, "restricted": restricted}
        yield "\n  ],\n" + _json(tail)[2:] + "\n"

    def write_mg(
        self, path: str | os.PathLike[str], *, codec: Codec = "none", seekable: bool = False
    ) -> Written:
        """Write the grains to a .mg file, sealed ones opened, with what became of them.

        Args:
            path: the file; one that is there is replaced when all is written.
            codec: "none", "zstd" or "lz4".
            seekable: in many frames; see ``GrainStore.export_mg``.

        Raises:
            StoreError: the file cannot be written.

        Spec: OMS §11
        """
        from omsgrain.exchange import export_mg

        states: dict[str, Mapping[str, Any]] = {}
        for told in self.grains():
            if state := leaving.told(told.state):
                states[_core.address(told.grain.blob)] = self._named_plainly(state)
        grains = (one for _, found in self._pages(with_bytes=True) for one in found)
        return export_mg(path, grains, states, codec=codec, seekable=seekable, sort=False)

    def _named_plainly(self, told: dict[str, Any]) -> dict[str, Any]:
        """A state that names what the file has: the grain that superseded it, before sealing."""
        by = told.pop("superseded_by", None)
        if by is not None:
            with self._store.read() as reader:
                seq = reader.find([bytes.fromhex(by)])[0]
                grain = None if seq is None else reader.grain(seq)
            if grain is not None and not grain.sealed:
                told["superseded_by"] = _core.address(grain.blob)
        return told


class Reporting(Base):
    """The part of a GrainStore that tells people what it holds about them."""

    def subject_report(self, identities: Identities | Iterable[str]) -> SubjectReport:
        """Gather all that the store holds about a person.

        Args:
            identities: the person's names: user ids, DIDs, e-mail addresses; compared whole.

        Raises:
            SchemaError: not the names of a person.
            StoreError: the audit trail cannot be written.

        Spec: OMS §9
        """
        report = SubjectReport(self._store, self._settings, Identities(identities))
        if not self._store.readonly:
            told: dict[str, int | str] = {
                "grains": report.own + report.named,
                "purpose": "access",
                "complete": int(report.complete),
            }
            self._store.write(lambda writer: self._note(writer, "export", [], details=told))
        return report


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)
