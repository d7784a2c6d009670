# SPDX-License-Identifier: Apache-2.0
"""What a store holds about a person, for that person: the right of access. GDPR Art. 15, 20.

    report = store.privacy.report(["u-17", "did:key:z6Mk...", "ann@example.org"])
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
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, TextIO

from omsgrain import _core, registry
from omsgrain.errors import OmsError, StoreError, UnsupportedError
from omsgrain.grain import Grain
from omsgrain.header import SIGNED_BIT
from omsgrain.storage import signatures
from omsgrain.storage.base import Reader, Storage
from omsgrain.storage.records import GrainStatus
from omsgrain.storage.signatures import Signature
from omsgrain.storage.tables import SEALED, SEQUENCE
from omsgrain.store import export_filter, lifecycle
from omsgrain.store import holds as holding
from omsgrain.store.context import Context, Settings
from omsgrain.store.holds import Hold
from omsgrain.store.privacy import consent as consents
from omsgrain.store.privacy.identity import OWN, Identities, PersonalGrain, fields_of, select

if TYPE_CHECKING:
    from omsgrain.container.layout import Codec
    from omsgrain.container.write import WrittenContainer

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_TIMES = tuple(field.name for field in registry.FIELDS if field.kind == "datetime")


@dataclass(frozen=True, slots=True)
class Reported:
    """A grain about the person, with what is known of it.

    Attributes:
        seq: its number.
        grain: the grain, opened if it is sealed; its address is the one it is stored under.
        own: it is the person's; if not, it bears a name that others may have too.
        fields: where it names the person.
        sealed: it is stored sealed.
        state: what became of it.
        holds: who keeps it from being changed or erased.
        signatures: of those who signed it.
        withdrawn: of a consent, whether it was withdrawn.
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
        """What is known of it, as JSON-ready values; times also as RFC 3339."""
        state = {name: said for name, said in asdict(self.state).items() if said}
        state["verification_status"] = self.state.verification_status
        fields = json.loads(self.grain.to_json())
        told: dict[str, Any] = {
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
            told["holds"] = [told_hold(hold) for hold in self.holds]
        if self.signatures:
            told["signatures"] = [
                {"signer": one.signer, "iat": one.iat, "proven": one.proven}
                for one in self.signatures
            ]
        if self.grain.type == "consent":
            told["withdrawn"] = self.withdrawn
        return told

    def consent(self) -> dict[str, Any]:
        """What a consent is in a few words."""
        grain = self.grain
        names = ("is_withdrawal", "prior_consent", "grantee_did", "scope", "created_at")
        told = {name: grain[name] for name in names if name in grain}
        return {"address": grain.address, **told, "withdrawn": self.withdrawn}

    def as_bytes(self) -> tuple[bytes, ...]:
        """The grain as it stands in a file: its blob, or an envelope for each of its signers."""
        blob = self.grain.blob
        if blob[1] & SIGNED_BIT:
            return tuple(one.envelope for one in self.signatures)
        return (blob,)


def reported(reader: Reader, seq: int, grain: Grain, identities: Identities) -> Reported:
    """Gather what is known of a grain about a person."""
    fields = fields_of(grain, identities)
    withdrawn = False
    if grain.type == "consent" and grain.get("is_withdrawal") is not True:
        withdrawn = not consents.stands(reader, seq)
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


def told_hold(hold: Hold) -> dict[str, Any]:
    """A hold as JSON-ready values."""
    return {
        "authority": hold.authority,
        "reason_code": hold.reason_code,
        "since": rfc3339(hold.since),
    }


def _times(fields: Mapping[str, Any]) -> dict[str, str]:
    """The fields that are times, as RFC 3339."""
    found = {name: rfc3339(fields[name]) for name in _TIMES if type(fields.get(name)) is int}
    return {name: time for name, time in found.items() if time is not None}


def rfc3339(ms: int) -> str | None:
    """A time as RFC 3339; None outside of the years 1 to 9999."""
    try:
        moment = _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return None
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


_PAGE = 500  # grains a snapshot


class SubjectReport:
    """What a store holds about a person.

    Attributes:
        made_at: when, ms since 1970.
        own: how many grains are the person's.
        named: how many others bear a name of the person.
        incomplete: what could not be looked into or may not leave, in sentences.
    """

    def __init__(self, store: Storage, settings: Settings, identities: Identities) -> None:
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

    def _withheld(self, found: PersonalGrain) -> str | None:
        """The rule that keeps a grain in the store, even from the person."""
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
        """Write the report as readable JSON, without holding it in memory."""
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
    ) -> WrittenContainer:
        """Write the grains to a .mg file, sealed ones opened, with what became of them.

        Spec: OMS §11
        """
        from omsgrain.store.state_merge import export_mg

        states: dict[str, Mapping[str, Any]] = {}
        for told in self.grains():
            if state := export_filter.manifest_entry(told.state):
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


def report(context: Context, identities: Identities | Iterable[str]) -> SubjectReport:
    """Gather all that the store holds about a person."""
    made = SubjectReport(context.storage, context.settings, Identities(identities))
    if not context.storage.readonly:
        told: dict[str, int | str] = {
            "grains": made.own + made.named,
            "purpose": "access",
            "complete": int(made.complete),
        }
        context.storage.write(lambda writer: context.note(writer, "export", [], details=told))
    return made


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)
