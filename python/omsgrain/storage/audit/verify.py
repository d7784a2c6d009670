# SPDX-License-Identifier: Apache-2.0
"""Verify that the grains of a store are those in its audit trail, and the chain itself."""

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
from omsgrain.storage.audit.gaps import STATED, closed, has_gaps
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
    """An iteration over all blobs, in step with the entries.

    A grain belongs to the first entry whose last sequence number reaches its own.
    """

    def __init__(self, reader: Reader, key: bytes) -> None:
        self._key = key
        self._blobs = _walk(reader)
        self._next = next(self._blobs, None)

    def skip(self, last_seq: int) -> None:
        for _ in self._until(last_seq):
            pass

    def are_named(self, body: dict[str, Any], count: int) -> bool:
        """Return whether an entry names the grains that it added and that are left.

        For a large batch, this is known only while all of it is left.
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
_MOST = 1_000  # characters; one line of four values
_MOST_SIGNED = 4_000  # a signature contains its signer's DID, which can be long
_KIND = "omsgrain audit checkpoint 1"
_KEYS = {"hash", "kind", "number", "time"}


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The end of an audit trail at some time. Kept outside the store, it proves the tail.

    Attributes:
        number: the number of the last entry; 0 for an empty trail.
        hash: its hash, 64 hex digits.
        time: its time, ms since 1970.
        signature: a COSE_Sign1 over the JSON without it; None if unsigned.
    """

    number: int
    hash: str
    time: int
    signature: bytes | None = None

    def to_json(self) -> str:
        """Return one line of JSON, always identical for the same checkpoint."""
        row = {"hash": self.hash, "kind": _KIND, "number": self.number, "time": self.time}
        if self.signature is not None:
            row["signature"] = b64encode(self.signature).decode("ascii")
        return json.dumps(row, separators=(",", ":"), sort_keys=True)

    def signed(self, signer: Signer, *, iat: int | None = None) -> Checkpoint:
        """Return the checkpoint with a signature, so that its keeper need not be trusted.

        Args:
            signer: the signer.
            iat: the time of the signature in epoch seconds; default: left out.

        Raises:
            SignatureError: the signer returned an invalid signature.
        """
        from omsgrain.crypto.detached import sign_detached

        return replace(self, signature=sign_detached(self.signed_bytes(), signer, iat=iat))

    def proof(self, *, resolver: Resolver | None = None, signer: str | None = None) -> Proof:
        """Verify the signature.

        Args:
            resolver: resolves DIDs other than did:key.
            signer: the DID that must have signed; default: any.

        Returns:
            The proof, with the signer.

        Raises:
            SignatureError: the signature is missing, invalid, or of another signer.
            DidError: no key was found for the signer's DID.
            CorruptError: the signature is malformed.
        """
        from omsgrain.crypto.detached import verify_detached

        if self.signature is None:
            raise SignatureError("the checkpoint is not signed")
        found = verify_detached(self.signature, self.signed_bytes(), resolver=resolver)
        if signer not in (None, found.signer):
            raise SignatureError("another signer signed the checkpoint")
        return found

    def signed_bytes(self) -> bytes:
        """Return the bytes that the signature covers."""
        return replace(self, signature=None).to_json().encode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Checkpoint:
        """Parse what ``to_json`` returned.

        Args:
            text: the JSON.

        Raises:
            FormatError: it is not a checkpoint.
        """
        try:
            row = json.loads(text) if len(text) < _MOST_SIGNED else None
        except (ValueError, RecursionError):
            row = None
        signature = row.pop("signature", None) if isinstance(row, dict) else None
        most = _MOST if signature is None else _MOST_SIGNED
        if not isinstance(row, dict) or row.keys() != _KEYS or len(text) >= most:
            raise FormatError("not an audit checkpoint", expected=_KIND)
        if row["kind"] != _KIND:
            raise FormatError("unknown kind of checkpoint", field="/kind", expected=_KIND)
        for name in ("number", "time"):
            if type(row[name]) is not int or not 0 <= row[name] < 2**64:
                raise FormatError("invalid number", field=f"/{name}", expected="0 to 2^64 - 1")
        digits = row["hash"]
        if type(digits) is not str or len(digits) != 2 * HASH or set(digits) - _DIGITS:
            raise FormatError("invalid hash", field="/hash", expected="64 hex digits")
        return cls(row["number"], digits, row["time"], _signature(signature))


def _signature(text: object) -> bytes | None:
    if text is None:
        return None
    try:
        if isinstance(text, str):
            return b64decode(text, validate=True)
    except ValueError:
        pass
    raise FormatError("invalid signature", field="/signature", expected="base64")


def checkpoint(reader: Reader) -> Checkpoint:
    """Return the end of the trail by its record, without verifying the trail."""
    head = reader.row(META, HEAD_RECORD)
    if head is None or len(head) != HEAD_VALUE.size:
        return Checkpoint(0, NOTHING.hex(), 0)
    number, digest = HEAD_VALUE.unpack(head)
    row = reader.row(AUDIT, NUMBER.pack(number))
    body = None if row is None else read_entry(row)
    return Checkpoint(number, digest.hex(), 0 if body is None else body["t"])


@dataclass(frozen=True, slots=True)
class AuditProblem:
    """A finding of a verification.

    Attributes:
        number: the number of the entry concerned, or None.
        message: what is wrong.
        where: ``chain``: an entry was changed, moved or dropped. ``note``: a note was changed or
            is missing. ``store``: the store has more or fewer grains than the chain says.
    """

    number: int | None
    message: str
    where: Literal["chain", "note", "store"] = "chain"


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The result of a verification.

    Attributes:
        ok: whether nothing is wrong.
        entries: number of entries.
        problems: the first thousand findings.
        notes: number of intact notes.
        notes_gone: number of erased notes.
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
    """Verify the whole trail. Damaged rows are reported, and never raise.

    Where two entries do not fit, the later one is named. ``grains``: also read every grain, and
    compare it with its entry.
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
    """The previous entry, which the next one must follow, and whether it was in its place.

    ``hashes`` are its stated hash and, if that is wrong, the correct one: if only the stated hash
    was damaged, the following entries are sound. After an entry that is out of place or
    unreadable, the next one cannot be judged.
    """

    number: int = 0
    hashes: tuple[bytes, ...] = (NOTHING,)
    in_place: bool = True
    body: dict[str, Any] | None = None


class _Verification:
    def __init__(self, reader: Reader, checkpoint: Checkpoint | None, grains: bool) -> None:
        self.reader = reader
        self.checkpoint = checkpoint or Checkpoint(0, NOTHING.hex(), 0)
        self.key = reader.row(META, KEY_RECORD)
        self.arrivals = Arrivals(reader, self.key) if grains and self.key else None
        self.entries = self.notes = self.gone = self.erased = 0
        self.last = _Last()
        self.may_have_gaps = has_gaps(reader)
        self.gaps = self.stated = NOTHING  # over the gaps so far, and as an entry states it
        self.missing: list[AuditProblem] = []  # the gaps so far; the first thousand are enough

    def problems(self) -> Iterator[AuditProblem]:
        for place, row in self.reader.rows(AUDIT):
            if len(place) != NUMBER.size:
                yield AuditProblem(None, "a row has an invalid key")
                continue
            self.entries += 1
            yield from self._entry(NUMBER.unpack(place)[0], place, row)
        yield from self._end()
        yield from self._notes()
        yield from self._store()

    def _entry(self, number: int, place: bytes, row: bytes) -> Iterator[AuditProblem]:
        last = self.last
        follows = number == last.number + 1
        stated = row[:HASH]
        if not follows:
            problem = _missing(last.number + 1, number - 1)
            if not self.may_have_gaps:
                yield problem
            elif len(self.missing) < _MOST:
                self.missing.append(problem)
            if self.may_have_gaps and last.number < self.checkpoint.number < number:
                what = "the entry of the checkpoint was dropped with its grains"
                yield AuditProblem(self.checkpoint.number, what)
            self.gaps = closed(self.gaps, last.number + 1, number - 1, stated)
        hashes = [link(before, row[HASH:]) for before in last.hashes]
        linked = stated in hashes
        body = read_entry(row)
        in_place = body is not None and body["i"] == number
        if body is None:
            yield AuditProblem(number, "the entry cannot be read")
        elif not in_place:
            yield AuditProblem(number, f"entry {body['i']} has taken its place")
        elif follows and last.in_place and not linked:
            what = "the entry was changed, or does not follow from the previous one"
            yield AuditProblem(number, what)
        elif number == 1 and body.get("k") != sha256(self.key or b"").digest():
            yield AuditProblem(1, "the key of the tags is not the original one")
        if body is not None and ("m" in body or "x" in body):
            yield from self._note(number, place, body)
        if body is not None and body["o"] == "retain":
            self.stated = _stated(body)
        if number == self.checkpoint.number and stated.hex() != self.checkpoint.hash:
            yield AuditProblem(number, "the entry differs from the checkpoint")
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
        """Compare the change between two entries with what the later one says."""
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
            what = f"the store changed by {grown:+} grains but the entry is about {count}"
            yield AuditProblem(number, what, "store")
        if body["s"] < before["s"]:
            yield AuditProblem(number, "the sequence numbers decrease", "store")
        if self.arrivals is not None and not self.arrivals.are_named(body, count):
            yield AuditProblem(number, "the store has other grains than the entry names", "store")

    def _end(self) -> Iterator[AuditProblem]:
        if self.gaps != self.stated:
            yield from self.missing
        row, last = self.reader.row(META, HEAD_RECORD), self.last
        end = last.number
        if row is None:
            if self.entries or self.key is not None:
                yield AuditProblem(None, "the record of the end is missing")
        elif len(row) != HEAD_VALUE.size:
            yield AuditProblem(None, "the record of the end is damaged")
        else:
            end, digest = HEAD_VALUE.unpack(row)
            if end == last.number and digest != last.hashes[0]:
                yield AuditProblem(end, "the entry differs from the record of the end")
            elif end < last.number:
                yield AuditProblem(end + 1, "there are entries after the record of the end")
        end = max(end, self.checkpoint.number)
        if end > last.number:
            yield _missing(last.number + 1, end)

    def _notes(self) -> Iterator[AuditProblem]:
        more = sum(1 for _ in self.reader.rows(NOTES)) - self.notes
        if more > 0:
            yield AuditProblem(None, f"{more} notes belong to no entry", "note")
        if self.gone > self.erased:
            what = f"{self.gone - self.erased} notes are missing that no entry erased"
            yield AuditProblem(None, what, "note")

    def _store(self) -> Iterator[AuditProblem]:
        body = self.last.body
        if body is None:
            return
        if (grown := self.reader.count() - body["c"]) != 0:
            what = f"the store changed by {grown:+} grains since the last entry"
            yield AuditProblem(None, what, "store")
        elif self.reader.last_seq() != body["s"]:
            yield AuditProblem(None, "the store changed since the last entry", "store")


def _stated(body: dict[str, Any]) -> bytes:
    """Return the hash over all gaps that an entry states; it is nothing if it states none."""
    text = body.get("d", {}).get(STATED)
    try:
        return bytes.fromhex(text) if isinstance(text, str) else NOTHING
    except ValueError:
        return NOTHING


def _missing(first: int, last: int) -> AuditProblem:
    if first >= last:
        return AuditProblem(first, "the entry is missing")
    return AuditProblem(first, f"the entries {first} to {last} are missing")


def _growth(operation: str, count: int) -> tuple[float, float]:
    """Return the minimum and maximum growth of a store by an operation on so many grains."""
    bounds: dict[str, tuple[float, float]] = {
        "put": (count, count),
        "import": (0, count),
        "supersede": (0, 1),
        "sign": (0, 1),
        "delete": (-count, -count),
        "retain": (-count, -count),
        "erase": (-count, 0),
        "restore": (-inf, inf),
    }
    return bounds.get(operation, (0, 0))
