# SPDX-License-Identifier: Apache-2.0
"""Report what a store has about a person, for the right of access. GDPR Art. 15, 20.

    report = store.privacy.report(["u-17", "did:key:z6Mk...", "ann@example.org"])
    report.complete                  # False if some grains could not be read
    report.write_json(file)          # for people
    report.write_mg("ann.mg")        # for programs

A report keeps only the numbers of grains and reads them page by page, so it can exceed the memory.
Grains that are erased meanwhile are left out.
"""

from __future__ import annotations

import json
import os
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TextIO

from omsgrain import _core, registry
from omsgrain.errors import OmsError, StoreError, UnsupportedError
from omsgrain.grain import Grain
from omsgrain.header import SIGNED_BIT
from omsgrain.json_values import time_text
from omsgrain.storage import signatures
from omsgrain.storage.base import Reader, Transactions
from omsgrain.storage.records import GrainStatus
from omsgrain.storage.signatures import Signature
from omsgrain.storage.tables import SEALED, SEQUENCE
from omsgrain.store import export_filter, lifecycle
from omsgrain.store import holds as holding
from omsgrain.store.context import Settings
from omsgrain.store.holds import Hold
from omsgrain.store.privacy import consent as consents
from omsgrain.store.privacy.identity import OWN, Identities, PersonalGrain, fields_of, select

if TYPE_CHECKING:
    from omsgrain.container.layout import Codec
    from omsgrain.container.write import WrittenContainer

_TIMES = tuple(field.name for field in registry.FIELDS if field.kind == "datetime")


@dataclass(frozen=True, slots=True)
class Reported:
    """A grain about the person, with its state.

    Attributes:
        seq: its sequence number.
        grain: the grain, decrypted; its address is the stored one.
        own: whether it is the person's; if not, it only has a name that others may have too.
        fields: the fields that name the person.
        sealed: whether it is stored encrypted.
        state: its status.
        holds: its holds.
        signatures: its signatures.
        withdrawn: for a consent, whether it was withdrawn.
    """

    seq: int
    grain: Grain
    own: bool
    fields: tuple[str, ...]
    sealed: bool
    state: GrainStatus
    holds: tuple[Hold, ...]
    signatures: tuple[Signature, ...]
    withdrawn: bool

    def to_dict(self) -> dict[str, Any]:
        """Return the grain and its state as JSON-ready values; times also as RFC 3339."""
        state = {name: said for name, said in asdict(self.state).items() if said}
        state["verification_status"] = self.state.verification_status
        fields = json.loads(self.grain.to_json())
        row: dict[str, Any] = {
            "address": self.grain.address,
            "type": self.grain.type,
            "own": self.own,
            "fields": list(self.fields),
            "sealed": self.sealed,
            "grain": fields,
            "state": state,
            "times": _times({**fields, **state}),
        }
        if self.holds:
            row["holds"] = [hold_row(hold) for hold in self.holds]
        if self.signatures:
            row["signatures"] = [
                {"signer": one.signer, "iat": one.iat, "proven": one.proven}
                for one in self.signatures
            ]
        if self.grain.type == "consent":
            row["withdrawn"] = self.withdrawn
        return row

    def consent(self) -> dict[str, Any]:
        grain = self.grain
        names = ("is_withdrawal", "prior_consent", "grantee_did", "scope", "created_at")
        summary = {name: grain[name] for name in names if name in grain}
        return {"address": grain.address, **summary, "withdrawn": self.withdrawn}

    def as_bytes(self) -> tuple[bytes, ...]:
        """Return the grain as a file has it: its blob, or one envelope per signer."""
        blob = self.grain.blob
        if blob[1] & SIGNED_BIT:
            return tuple(one.envelope for one in self.signatures)
        return (blob,)


def reported(reader: Reader, seq: int, grain: Grain, identities: Identities) -> Reported:
    fields = fields_of(grain, identities)
    withdrawn = False
    if grain.type == "consent" and grain.get("is_withdrawal") is not True:
        withdrawn = not consents.is_valid(reader, seq)
    return Reported(
        seq,
        grain,
        not OWN.isdisjoint(fields),
        fields,
        reader.row(SEALED, SEQUENCE.pack(seq)) is not None,
        lifecycle.state_of(reader, seq),
        holding.holds(reader, seq),
        tuple(signatures.signatures(reader, seq)),
        withdrawn,
    )


def hold_row(hold: Hold) -> dict[str, Any]:
    return {
        "authority": hold.authority,
        "reason_code": hold.reason_code,
        "since": time_text(hold.since),
    }


def _times(fields: Mapping[str, Any]) -> dict[str, str]:
    found = {name: time_text(fields[name]) for name in _TIMES if type(fields.get(name)) is int}
    return {name: time for name, time in found.items() if time is not None}


_PAGE = 500  # grains per snapshot


class SubjectReport:
    """Everything that a store has about a person.

    Attributes:
        made_at: time of the report, ms since 1970.
        own: number of grains that are the person's.
        named: number of other grains that have one of the names.
        incomplete: sentences about grains that could not be read or may not be exported.
    """

    def __init__(self, store: Transactions, settings: Settings, identities: Identities) -> None:
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
            f"grains that the rule {rule!r} withholds: {count}"
            for rule, count in sorted(withheld.items())
        ]
        if selection.unopened:
            lacks.insert(
                0,
                "grains that could not be read, because a key is missing or they are damaged:"
                f" {selection.unopened}",
            )
        self.incomplete = tuple(lacks)

    def __repr__(self) -> str:
        return f"<SubjectReport own={self.own} named={self.named} complete={self.complete}>"

    @property
    def complete(self) -> bool:
        """Whether the report has everything that the store has about the person."""
        return not self.incomplete

    def _withheld(self, found: PersonalGrain) -> str | None:
        """Return the rule that withholds a grain even from the person."""
        with self._store.read() as reader:
            grain = reader.grain(found.seq)
            held = lifecycle.state_of(reader, found.seq).held
        try:
            if grain is not None:
                export_filter.check(self._settings, grain, held, "access")
        except UnsupportedError as error:
            return error.rule or error.code
        except StoreError:
            raise
        except OmsError as error:  # the grain lacks a field that a preset requires
            return error.rule or error.code
        return None

    def grains(self) -> Iterator[Reported]:
        """Iterate over the grains in storage order, page by page."""
        for start in range(0, len(self._seqs), _PAGE):
            page: list[Reported] = []
            with self._store.read() as reader:
                for seq in self._seqs[start : start + _PAGE]:
                    grain = reader.grain(seq)
                    if grain is not None and not grain.sealed:  # not erased meanwhile
                        page.append(reported(reader, seq, grain, self._identities))
            yield from page

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON-ready values, in memory."""
        found: dict[str, Any] = json.loads(self.to_json())
        return found

    def to_json(self) -> str:
        """Return the report as readable JSON, in memory."""
        return "".join(self._chunks())

    def write_json(self, file: TextIO) -> None:
        """Write the report as readable JSON, page by page.

        Args:
            file: an open text file.
        """
        for chunk in self._chunks():
            file.write(chunk)

    def _chunks(self) -> Iterator[str]:
        """Return the report as JSON in pieces; summaries follow the grains."""
        head = {
            "made_at": time_text(self.made_at),
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
        for one in self.grains():
            yield comma + "\n    " + _json(one.to_dict()).replace("\n", "\n    ")
            comma = ","
            address = one.grain.address
            if one.grain.type == "consent":
                consented.append(one.consent())
            held += [{"address": address, **hold_row(hold)} for hold in one.holds]
            if one.state.restricted:
                restricted.append(address)
        tail = {"consents": consented, "holds": held, "restricted": restricted}
        yield "\n  ],\n" + _json(tail)[2:] + "\n"

    def write_mg(
        self, path: str | os.PathLike[str], *, codec: Codec = "none", seekable: bool = False
    ) -> WrittenContainer:
        """Write the decrypted grains with their states to a .mg file. Spec: OMS §11.

        Args:
            path: the file. An existing file is replaced.
            codec: "none", "zstd" or "lz4".
            seekable: compress in frames of about 1 MiB.
        """
        from omsgrain import container

        states: dict[str, Mapping[str, Any]] = {}
        for one in self.grains():
            if state := export_filter.manifest_entry(one.state):
                states[_core.address(one.grain.blob)] = self._named_plainly(state)
        grains = (blob for one in self.grains() for blob in one.as_bytes())
        return container.write(
            path, grains, manifest=states, codec=codec, seekable=seekable, check=False
        )

    def _named_plainly(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return the state with the plain address of the superseding grain, as the file has it."""
        by = state.pop("superseded_by", None)
        if by is not None:
            with self._store.read() as reader:
                seq = reader.find([bytes.fromhex(by)])[0]
                grain = None if seq is None else reader.grain(seq)
            if grain is not None and not grain.sealed:
                state["superseded_by"] = _core.address(grain.blob)
        return state


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)
