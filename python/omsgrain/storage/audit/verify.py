# SPDX-License-Identifier: Apache-2.0
"""Are the grains of a store those that its audit trail names?"""

from __future__ import annotations

import hmac as standard
import json
from base64 import b64decode, b64encode
from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from math import inf
from typing import TYPE_CHECKING, Any, Literal

from omsgrain.counts import counted
from omsgrain.errors import FormatError, SignatureError
from omsgrain.storage.audit.log import (
    HASH,
    HEAD_RECORD,
    HEAD_VALUE,
    KEY_RECORD,
    NOTHING,
    NUMBER,
    STORING,
    TAG,
    hmac,
    link,
    note_hash,
    read_entry,
)
from omsgrain.storage.base import Reader
from omsgrain.storage.tables import AUDIT, META, NOTES

if TYPE_CHECKING:
    from omsgrain.crypto.cose import Proof
    from omsgrain.crypto.did import Resolver
    from omsgrain.crypto.signers import Signer


class Arrivals:
    """One walk over all blobs, in step with a walk over the entries.

    A grain arrived with the first entry whose last sequence number is not below its own.
    """

    __slots__ = ("_blobs", "_key", "_next")

    def __init__(self, reader: Reader, key: bytes) -> None:
        self._key = key
        self._blobs = _walk(reader)
        self._next = next(self._blobs, None)

    def skip(self, last_seq: int) -> None:
        """Pass over what arrived up to a sequence number."""
        for _ in self._until(last_seq):
            pass

    def are_named(self, body: dict[str, Any], count: int) -> bool:
        """Tell whether the grains that arrived with an entry, and are left, are those it names.

        Of a large batch this is known only while all of it is left.
        """
        if "h" not in body:
            tags = body.get("g", b"")
            known = {tags[i : i + TAG] for i in range(0, len(tags), TAG)}
            return all([self._tag(blob) in known for blob in self._until(body["s"])])
        left, all_tags = 0, standard.new(self._key, digestmod="sha256")
        for blob in self._until(body["s"]):
            left += 1
            all_tags.update(sha256(blob).digest())
        return left < count or (left == count and all_tags.digest() == body["h"])

    def _tag(self, blob: bytes) -> bytes:
        return hmac(self._key, sha256(blob).digest())[:TAG]

    def _until(self, last_seq: int) -> Iterator[bytes]:
        while self._next is not None and self._next[0] <= last_seq:
            blob = self._next[1]
            self._next = next(self._blobs, None)
            yield blob


def _walk(reader: Reader) -> Iterator[tuple[int, bytes]]:
    after = 0
    while page := reader.page(after):
        yield from page
        after = page[-1][0]


_DIGITS = set("0123456789abcdef")
_MOST = 1_000  # letters; one line of four values
_MOST_SIGNED = 4_000  # a signature names its signer, whose DID can be long
_KIND = "omsgrain audit checkpoint 1"
_KEYS = {"hash", "kind", "number", "time"}


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where an audit trail ended at some time; kept outside of the store it proves the tail.

    Attributes:
        number: the last entry; 0 before the first.
        hash: its hash, 64 hex digits.
        time: its time, ms since 1970.
        signature: a COSE_Sign1 over the line of JSON without it; None of an unsigned one.
    """

    number: int
    hash: str
    time: int
    signature: bytes | None = None

    def to_json(self) -> str:
        """One line of JSON, always the same for the same checkpoint, so that it can be signed."""
        row = {"hash": self.hash, "kind": _KIND, "number": self.number, "time": self.time}
        if self.signature is not None:
            row["signature"] = b64encode(self.signature).decode("ascii")
        return json.dumps(row, separators=(",", ":"), sort_keys=True)

    def signed(self, signer: Signer, *, iat: int | None = None) -> Checkpoint:
        """The same checkpoint with a signature: its keeper need not be trusted.

        Args:
            signer: who signs.
            iat: when, in epoch seconds; left out, if not given.

        Raises:
            SignatureError: the signer gave no signature that holds.
        """
        from omsgrain.crypto.detached import sign_detached

        return replace(self, signature=sign_detached(self.signed_bytes(), signer, iat=iat))

    def proof(self, *, resolver: Resolver | None = None, signer: str | None = None) -> Proof:
        """Verify the signature.

        Args:
            resolver: finds the key of a DID that is no did:key.
            signer: the DID that must have signed; without one, anybody may have.

        Returns:
            Who signed.

        Raises:
            SignatureError: there is none, it does not hold, or it is somebody else's.
            DidError: no key was found for the signer's DID.
            CorruptError: it is no signature.
        """
        from omsgrain.crypto.detached import verify_detached

        if self.signature is None:
            raise SignatureError("the checkpoint is not signed")
        found = verify_detached(self.signature, self.signed_bytes(), resolver=resolver)
        if signer not in (None, found.signer):
            raise SignatureError("the checkpoint is signed by somebody else")
        return found

    def signed_bytes(self) -> bytes:
        """What the signature is made over."""
        return replace(self, signature=None).to_json().encode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Checkpoint:
        """Read what ``to_json`` wrote.

        Raises:
            FormatError: it is something else.
        """
        try:
            row = json.loads(text) if len(text) < _MOST_SIGNED else None
        except (ValueError, RecursionError):
            row = None
        signature = row.pop("signature", None) if isinstance(row, dict) else None
        most = _MOST if signature is None else _MOST_SIGNED
        if not isinstance(row, dict) or row.keys() != _KEYS or len(text) >= most:
            raise FormatError("not a checkpoint of an audit trail", expected=_KIND)
        if row["kind"] != _KIND:
            raise FormatError("not a checkpoint that is known", field="/kind", expected=_KIND)
        for name in ("number", "time"):
            if type(row[name]) is not int or not 0 <= row[name] < 2**64:
                raise FormatError("not a number", field=f"/{name}", expected="0 to 2^64 - 1")
        digits = row["hash"]
        if type(digits) is not str or len(digits) != 2 * HASH or set(digits) - _DIGITS:
            raise FormatError("not a hash", field="/hash", expected="64 hex digits")
        return cls(row["number"], digits, row["time"], _signature(signature))


def _signature(text: object) -> bytes | None:
    if text is None:
        return None
    try:
        if isinstance(text, str):
            return b64decode(text, validate=True)
    except ValueError:
        pass
    raise FormatError("not a signature", field="/signature", expected="base64")


def checkpoint(reader: Reader) -> Checkpoint:
    """Return the end of the trail as its record says; ``verify`` first if you doubt it."""
    head = reader.row(META, HEAD_RECORD)
    if head is None or len(head) != HEAD_VALUE.size:
        return Checkpoint(0, NOTHING.hex(), 0)
    number, digest = HEAD_VALUE.unpack(head)
    row = reader.row(AUDIT, NUMBER.pack(number))
    body = None if row is None else read_entry(row)
    return Checkpoint(number, digest.hex(), 0 if body is None else body["t"])


@dataclass(frozen=True, slots=True)
class AuditProblem:
    """Something that a verification found.

    Attributes:
        number: the entry that it is about, if it is about one.
        message: what is wrong.
        where: ``chain``: entries are not those that were written. ``note``: a note is not.
            ``store``: the chain may be as it was, and the store holds more or less than it says.
    """

    number: int | None
    message: str
    where: Literal["chain", "note", "store"] = "chain"


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What a verification found.

    Attributes:
        ok: nothing is wrong.
        entries: how many entries there are.
        problems: what is wrong, the first thousand.
        notes: how many notes are there and as they were written.
        notes_gone: how many were erased.
    """

    ok: bool
    entries: int
    problems: tuple[AuditProblem, ...]
    notes: int = 0
    notes_gone: int = 0

    __repr__ = counted


def verify(
    reader: Reader, checkpoint: Checkpoint | None = None, *, grains: bool = False
) -> AuditReport:
    """Verify the whole trail. It never raises on damaged rows: it reports them.

    Args:
        reader: the snapshot.
        checkpoint: an end that the trail once had, kept outside of the store. Without one, a tail
            that was cut off together with the record of the end cannot be seen.
        grains: also read every grain and look whether it is the one that was put.

    Returns:
        What was found. An entry is named by its number; where two entries do not fit together and
        each fits to itself, the later one is named.
    """
    found = _Verification(reader, checkpoint, grains)
    problems: list[AuditProblem] = []
    broken = False
    for problem in found.problems():
        broken = True
        if len(problems) < _MOST:
            problems.append(problem)
    return AuditReport(not broken, found.entries, tuple(problems), found.notes, found.gone)


@dataclass(slots=True)
class _Last:
    """What the next entry must follow: the one before it, and whether that one was in its place.

    ``hashes`` are what it says its hash is and, if that is not so, what it should be: where only
    the former was damaged, the entries behind it are sound. Behind an entry that is out of place
    or cannot be read, it is unknown whether the next one is to blame.
    """

    number: int = 0
    hashes: tuple[bytes, ...] = (NOTHING,)
    in_place: bool = True
    body: dict[str, Any] | None = None


class _Verification:
    """One pass over the entries, and over the grains beside them if they are asked for."""

    def __init__(self, reader: Reader, checkpoint: Checkpoint | None, grains: bool) -> None:
        self.reader = reader
        self.checkpoint = checkpoint or Checkpoint(0, NOTHING.hex(), 0)
        self.key = reader.row(META, KEY_RECORD)
        self.arrivals = Arrivals(reader, self.key) if grains and self.key else None
        self.entries = self.notes = self.gone = self.erased = 0
        self.last = _Last()

    def problems(self) -> Iterator[AuditProblem]:
        for place, row in self.reader.rows(AUDIT):
            if len(place) != NUMBER.size:
                yield AuditProblem(None, "a row whose key is no number")
                continue
            self.entries += 1
            yield from self._entry(NUMBER.unpack(place)[0], place, row)
        yield from self._end()
        yield from self._notes()
        yield from self._store()

    def _entry(self, number: int, place: bytes, row: bytes) -> Iterator[AuditProblem]:
        last = self.last
        follows = number == last.number + 1
        if not follows:
            yield _missing(last.number + 1, number - 1)
        stated = row[:HASH]
        hashes = [link(before, row[HASH:]) for before in last.hashes]
        linked = stated in hashes
        body = read_entry(row)
        in_place = body is not None and body["i"] == number
        if body is None:
            yield AuditProblem(number, "the entry cannot be read")
        elif not in_place:
            yield AuditProblem(number, f"entry {body['i']} is in its place")
        elif follows and last.in_place and not linked:
            what = "the entry was changed, or does not follow from the one before it"
            yield AuditProblem(number, what)
        elif number == 1 and body.get("k") != sha256(self.key or b"").digest():
            yield AuditProblem(1, "the key of the tags is not the one that the trail began with")
        if body is not None and ("m" in body or "x" in body):
            yield from self._note(number, place, body)
        if number == self.checkpoint.number and stated.hex() != self.checkpoint.hash:
            yield AuditProblem(number, "the entry is not the one that the checkpoint names")
        if body is not None and in_place:
            yield from self._account(number, last.body if follows else None, body)
        known = (stated,) if linked or not follows else (stated, hashes[0])
        self.last = _Last(number, known, in_place, body if in_place else None)

    def _note(self, number: int, place: bytes, body: dict[str, Any]) -> Iterator[AuditProblem]:
        self.erased += body.get("x", 0)
        if "m" not in body:
            return
        row = self.reader.row(NOTES, place)
        if row is None:
            self.gone += 1
            return
        self.notes += 1
        if note_hash(row) != body["m"]:
            yield AuditProblem(number, "the note was changed", "note")

    def _account(
        self, number: int, before: dict[str, Any] | None, body: dict[str, Any]
    ) -> Iterator[AuditProblem]:
        """What came and went between two entries must be what the later one tells of."""
        count = body.get("n", len(body.get("g", b"")) // TAG)
        if number == 1 and body["o"] in STORING and body["c"] == count:
            before = {"s": 0, "c": 0}  # the trail is as old as the store
        if before is None:
            if self.arrivals is not None:
                self.arrivals.skip(body["s"])
            return
        grown = body["c"] - before["c"]
        least, most = _growth(body["o"], count)
        if not least <= grown <= most:
            what = f"the store changed by {grown:+} grains where the entry is about {count}"
            yield AuditProblem(number, what, "store")
        if body["s"] < before["s"]:
            yield AuditProblem(number, "the sequence numbers went back", "store")
        if self.arrivals is not None and not self.arrivals.are_named(body, count):
            yield AuditProblem(number, "other grains are in the store than it names", "store")

    def _end(self) -> Iterator[AuditProblem]:
        row, last = self.reader.row(META, HEAD_RECORD), self.last
        end = last.number
        if row is None:
            if self.entries or self.key is not None:
                yield AuditProblem(None, "the record of the end is gone")
        elif len(row) != HEAD_VALUE.size:
            yield AuditProblem(None, "the record of the end cannot be read")
        else:
            end, digest = HEAD_VALUE.unpack(row)
            if end == last.number and digest != last.hashes[0]:
                yield AuditProblem(
                    end, "the entry is not the one that the record of the end names"
                )
            elif end < last.number:
                yield AuditProblem(end + 1, "there are entries behind the record of the end")
        end = max(end, self.checkpoint.number)
        if end > last.number:
            yield _missing(last.number + 1, end)

    def _notes(self) -> Iterator[AuditProblem]:
        more = sum(1 for _ in self.reader.rows(NOTES)) - self.notes
        if more > 0:
            yield AuditProblem(None, f"{more} notes belong to no entry", "note")
        if self.gone > self.erased:
            what = f"{self.gone - self.erased} notes are gone that no entry erased"
            yield AuditProblem(None, what, "note")

    def _store(self) -> Iterator[AuditProblem]:
        body = self.last.body
        if body is None:
            return
        if (grown := self.reader.count() - body["c"]) != 0:
            what = f"the store changed by {grown:+} grains since the last entry"
            yield AuditProblem(None, what, "store")
        elif self.reader.last_seq() != body["s"]:
            yield AuditProblem(None, "the store was changed since the last entry", "store")


def _missing(first: int, last: int) -> AuditProblem:
    if first >= last:
        return AuditProblem(first, "the entry is missing")
    return AuditProblem(first, f"the entries {first} to {last} are missing")


def _growth(operation: str, count: int) -> tuple[float, float]:
    """By how many grains a store may grow with an operation on so many."""
    bounds: dict[str, tuple[float, float]] = {
        "put": (count, count),
        "import": (0, count),
        "supersede": (0, 1),
        "sign": (0, 1),
        "delete": (-count, -count),
        "erase": (-count, 0),
        "restore": (-inf, inf),
    }
    return bounds.get(operation, (0, 0))
