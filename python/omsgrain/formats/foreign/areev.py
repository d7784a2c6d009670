# SPDX-License-Identifier: Apache-2.0
"""Bundles of areev, and of dejadb before it (``.mgb``): grains in the order of their writing.

    "MGB1", then operations: kind (1 byte), clock (8), address (32), length (4), blob

Numbers are little-endian. Kind 1 adds a grain. Kind 2 adds one that supersedes the grain it
derives from. Kind 3 forgets a grain, whose blob is empty from then on. The grains are imported as
they are, like those of a .mg file; a blob that does not conform becomes a conforming grain, which
keeps it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from omsgrain.errors import OmsError
from omsgrain.formats import json_text
from omsgrain.formats.base import Said
from omsgrain.formats.document import Import, Loss
from omsgrain.formats.foreign.base import (
    LEFT_OUT,
    LIMITS,
    ForeignFormat,
    ForeignLimits,
    Translation,
)
from omsgrain.formats.foreign.base import RULES as RECORD_RULES
from omsgrain.formats.problems import FIRSTS, MOST, DocumentError, DocumentFindings, Problem
from omsgrain.grain import Grain
from omsgrain.lenient import adapt

_HEAD: Final = struct.Struct("<BQ32sI")
_ADD, _SUPERSEDE, _FORGET = 1, 2, 3
_BLOB: Final = 1 << 20
RULES: Final = {
    "not_bundle": "the file is not a bundle",
    "cut_off": "the bundle is cut off",
    "unknown_operation": "the operation is unknown",
    "hash_mismatch": "the blob does not match its address",
    "not_grain": "the blob is no grain, and cannot become one",
    "no_blob": "the grain has no blob, and no operation forgets it",
}
"""The first three refuse a bundle, the others an operation."""


@dataclass(frozen=True, slots=True)
class GrainBundle:
    """The grains of a bundle."""

    blobs: dict[str, bytes] = field(default_factory=dict)  # by their addresses here
    states: dict[str, dict[str, str]] = field(default_factory=dict)  # those that were superseded
    problems: list[Problem] = field(default_factory=list)  # operations that were skipped
    dropped: list[Problem] = field(default_factory=list)  # what has no place in a store


class Areev(ForeignFormat):
    name = "areev"
    title = "a bundle of areev"
    suffixes = (".mgb",)
    translated = False
    holds_grains = True
    magic = b"MGB1"

    def sniff(self, said: Said) -> bool:
        return said.data.startswith(self.magic)

    def translate(self, data: bytes, into: Translation) -> None:
        raise DocumentError([_problem("not_bundle", 0)])

    def load(
        self, data: bytes, *, user_id: str | None = None, limits: ForeignLimits = LIMITS
    ) -> Import:
        """The current grains of a bundle; their users are those that the grains name."""
        read = self.read_grains(data, limits)
        old = [Problem("superseded", f"/{one}", "the grain was superseded") for one in read.states]
        return Import(
            self.name,
            [Grain(blob) for address, blob in read.blobs.items() if address not in read.states],
            problems=tuple(read.problems),
            dropped=(*read.dropped, *old),
            origin=self.name,
        )

    def left_out(self, found: Import) -> list[Loss]:
        return [Loss(one.pointer, "grain", one.message)
                for one in (*found.problems, *found.dropped)]  # fmt: skip

    def check_file(self, file: Path, passphrase: str | None = None) -> DocumentFindings:
        self.refuse(passphrase=passphrase)
        try:
            read = self.read_grains(self.read_bytes(file))
        except DocumentError as error:
            return DocumentFindings(str(file), self.name, {}, error.problems, error.total)
        return DocumentFindings(
            str(file), self.name, {"grains": len(read.blobs)}, tuple(read.problems[:MOST]),
            len(read.problems), tuple(read.dropped),
        )  # fmt: skip

    def read_grains(self, data: bytes, limits: ForeignLimits = LIMITS) -> GrainBundle:
        read, here = GrainBundle(), dict[str, str]()
        forgotten, missing = set[str](), dict[str, int]()
        for number, kind, name, blob in _operations(data, limits):
            if kind == _FORGET:
                forgotten.add(name)
            elif not blob:
                missing[name] = number
            elif name not in here:
                _add(read, here, name, blob, number)
            if kind == _SUPERSEDE and name in here:
                _superseded(read, here, name)
            if len(read.problems) > FIRSTS:
                raise DocumentError(read.problems)
        read.problems.extend(
            _problem("no_blob", number) for name, number in missing.items()
            if name not in forgotten and name not in here
        )  # fmt: skip
        if forgotten:
            says = f"forgotten grains, {len(forgotten)}: a store that has them keeps them"
            read.dropped.append(Problem(LEFT_OUT, "", says))
        return read


def _operations(data: bytes, limits: ForeignLimits) -> Iterator[tuple[int, int, str, bytes]]:
    """Each operation of a bundle: its number, kind, address and blob."""
    json_text.bounded(data, limits.document)
    if not data.startswith(Areev.magic):
        raise DocumentError([_problem("not_bundle", 0)])
    at, number = len(Areev.magic), 0
    while at < len(data):
        if at + _HEAD.size > len(data):
            raise DocumentError([_problem("cut_off", number, at)])
        kind, _, address, size = _HEAD.unpack_from(data, at)
        if kind not in (_ADD, _SUPERSEDE, _FORGET) or size > _BLOB:
            raise DocumentError([_problem("unknown_operation", number, at)])
        at += _HEAD.size
        blob = data[at : at + size]
        if len(blob) < size:
            raise DocumentError([_problem("cut_off", number, at)])
        if number >= limits.records:
            most = f"at most {limits.records}"
            raise DocumentError([Problem("too_many", "", RECORD_RULES["too_many"], most)])
        yield number, kind, address.hex(), blob
        at, number = at + size, number + 1


def _add(read: GrainBundle, here: dict[str, str], name: str, blob: bytes, number: int) -> None:
    if sha256(blob).hexdigest() != name:
        return read.problems.append(_problem("hash_mismatch", number))
    try:
        grain = adapt(blob)
    except OmsError:
        return read.problems.append(_problem("not_grain", number))
    here[name] = grain.address
    read.blobs[grain.address] = grain.blob


def _superseded(read: GrainBundle, here: dict[str, str], name: str) -> None:
    """Note what a grain supersedes: the grain of the bundle that it derives from."""
    new = here[name]
    parents: Any = Grain(read.blobs[new]).get("derived_from", [])
    for parent in parents if isinstance(parents, list) else []:
        old = here.get(parent)
        if old is not None and old != new:
            read.states[old] = {"superseded_by": new}


def _problem(rule: str, number: int, at: int | None = None) -> Problem:
    where = None if at is None else f"byte {at}"
    return Problem(rule, f"/{number}", RULES[rule], found=where)


AREEV: Final = Areev()
