# SPDX-License-Identifier: Apache-2.0
"""Check every byte of a container, and name the problems. Spec: OMS §11."""

from __future__ import annotations

import os
import sys
from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from omsgrain import _core
from omsgrain.batch import OnError, stops
from omsgrain.container.layout import (
    ENTRY_SIZE,
    FOOTER_SIZE,
    HEADER_SIZE,
    BrokenContainer,
    ContainerProblem,
    problem,
)
from omsgrain.container.read import Container, examine, open_file
from omsgrain.container.region import DIGEST, Block, Inside, digest
from omsgrain.container.write import PIECE, Hashing
from omsgrain.counts import counted
from omsgrain.durable import file_path
from omsgrain.errors import CorruptError, IntegrityError, OmsError

if TYPE_CHECKING:
    from omsgrain.crypto.did import Resolver

_LISTED = 1000  # problems; a hostile file could have one per byte


class _Enough(Exception):
    """There are too many problems to list the rest."""


@dataclass(frozen=True, slots=True)
class ContainerReport:
    """The result of verifying a container.

    Attributes:
        verified: The number of good grains; of sealed grains only the header is checked.
        problems: The problems, in the order of the file.
        complete: False if there are so many problems that the rest was not checked.
    """

    verified: int
    problems: list[ContainerProblem] = field(default_factory=list)
    complete: bool = True

    __repr__ = counted

    @property
    def ok(self) -> bool:
        """Whether there are no problems."""
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON-ready values."""
        problems = [problem.to_dict() for problem in self.problems]
        return {"verified": self.verified, "problems": problems, "complete": self.complete}


def verify(
    path: str | os.PathLike[str],
    *,
    errors: OnError = "raise",
    signer: str | None = None,
    resolver: Resolver | None = None,
) -> ContainerReport:
    """Check every byte of a .mg file: header, index, frames, each grain, manifest, footer.

    It also checks the flags against the grains, and that no bytes are between the parts.
    Signatures of grains are not verified, and of sealed grains only the header is. Memory does not
    grow with the file, except for the check of the deduplicated flag (8 bytes a grain) and the
    manifest.

    Args:
        path: The file.
        errors: "raise" stops at the first problem; "collect" lists all.
        signer: The DID that must have signed the file: its signature is verified first.
        resolver: Finds the key of a signer other than a did:key.

    Raises:
        StoreError: The file cannot be opened.
        SignatureError: There is no signature in ``NAME.sig``, it is not valid, or another key made
            it; with errors="collect" too.
        OmsError: The first problem, with errors="raise".
    """
    stop = stops(errors)
    path = file_path(path)
    if signer is not None:
        from omsgrain.crypto.detached import verify_file
        from omsgrain.crypto.trust import missing

        try:
            verify_file(path, signer=signer, resolver=resolver)
        except FileNotFoundError:
            if path.exists():
                raise missing() from None
    try:
        with open_file(path) as container:
            return container.verify(errors=errors)
    except BrokenContainer as broken:
        if stop:
            raise broken.problem.error from None
        return ContainerReport(0, [broken.problem])


def verify_open(container: Container, errors: OnError) -> ContainerReport:
    check = _Check(container.inside, stops(errors))
    try:
        with check.hashing:
            check.grains()
            check.manifest()
            check.footer()
    except _Enough:
        return ContainerReport(check.verified, check.problems, complete=False)
    return ContainerReport(check.verified, check.problems)


def check_footer(container: Container) -> None:
    """Check only that the file hashes to its footer."""
    check = _Check(container.inside, stop=True)
    with check.hashing:
        check.footer()


class _Check:
    def __init__(self, inside: Inside, stop: bool) -> None:
        self._inside = inside
        self._stop = stop
        self.verified = 0
        self.problems: list[ContainerProblem] = []
        self._last_time = 0
        self._in_order = inside.header.sorted  # as far as known; each false flag is reported once
        self._twins = _Twins() if inside.header.deduplicated else None
        self._blamed = -1  # the grain with a wrong index entry
        self._missing: set[bytes] = set()
        self.hashing = Hashing()  # bytes of the file whose grains were checked
        self._hashed = 0

    def _add(self, found: ContainerProblem) -> None:
        if self._stop:
            raise found.error
        if any((p.part, p.number) == (found.part, found.number) for p in self.problems):
            return  # the end of the last grain, for instance, is checked more than once
        self.problems.append(found)
        if len(self.problems) == _LISTED:
            raise _Enough

    def grains(self) -> None:
        try:
            self._missing = set(map(bytes.fromhex, self._inside.states))
        except BrokenContainer:
            pass  # checked later
        first = 0
        while first < self._inside.header.count:
            try:
                for number, offsets, block in self._inside.blocks(first):
                    self._block(number, offsets, block)
                    first = number + len(block)
                    # A thread hashes the file up to the last checked grain.
                    self._hash(self._inside.limit * first // self._inside.header.count)
            except BrokenContainer as broken:
                found = broken.problem
                if found.part == "index" and found.number is not None:
                    found = self._wrong_entry(found.number) or found
                self._add(found)
                first = max(first + 1, self._inside.after(broken.problem))
        if self._twins is not None and (suspects := self._twins.suspects()):
            self._name_twin(suspects)

    def _hash(self, end: int) -> None:
        while self._hashed < end:
            start, self._hashed = self._hashed, min(self._hashed + PIECE, end)
            self.hashing.add(self._inside.data[start : self._hashed])

    def _block(self, first: int, offsets: list[int], block: Block) -> None:
        digests, bad = examine(block)
        for i, error in bad:
            number = first + i
            if number == self._blamed:
                continue
            start = offsets[i] + self._base()
            address = digest(digests, i).hex()
            found = problem("grain", number, error, start=start, address=address)
            self._add(self._wrong_entry(number) or found)
        self.verified += len(block) - len(bad)
        if self._missing:
            self._missing.difference_update(digest(digests, i) for i in range(len(block)))
        if self._twins is not None:
            self._twins.add(digests)
        if self._in_order:
            self._check_order(first, offsets, block, [i for i, _ in bad])

    def _base(self) -> int:
        """The number to add to an offset among packed grains."""
        header = self._inside.header
        return header.grains_at - header.first_offset

    def _wrong_entry(self, number: int) -> ContainerProblem | None:
        """Return a wrong index entry, if this grain and the next are good but meet elsewhere."""
        inside = self._inside
        if number + 1 == inside.header.count:
            return None
        try:
            start, said = inside.span(number)
            length = inside.extent(start)
            if length is None or start + length == said:
                return None
            meet, end = start + length, inside.span(number + 1)[1]
            pair = [inside.slice(start, meet), inside.slice(meet, end)]
            if examine(Block.of(pair))[1]:
                return None
        except (OmsError, BrokenContainer):
            return None
        self._blamed = number + 1  # do not search for the grain at that offset
        error = CorruptError(
            "not where the grain before it ends", expected=str(meet), found=str(said)
        )
        at = HEADER_SIZE + ENTRY_SIZE * (number + 1)
        return problem("index", number + 1, error, start=at)

    def _check_order(self, first: int, offsets: list[int], block: Block, bad: list[int]) -> None:
        sizes = block.sizes.tobytes()
        i, self._last_time = _core.block_order(block.data, sizes, self._last_time, bad)
        if i is not None:
            error = CorruptError("earlier than the grain before it, in a sorted container")
            start = offsets[i] + self._base()
            self._in_order = False
            self._add(problem("grain", first + i, error, start=start))

    def _name_twin(self, suspects: set[int]) -> None:
        """Find the first duplicate grain; equal beginnings may be of different addresses."""
        known: set[bytes] = set()
        try:
            for first, offsets, block in self._inside.blocks():
                digests = examine(block)[0]
                for i, prefix in enumerate(_prefixes(digests)):
                    if prefix not in suspects:
                        continue
                    if (found := digest(digests, i)) not in known:
                        known.add(found)
                        continue
                    error = CorruptError("is a duplicate, in a deduplicated container")
                    start, address = offsets[i] + self._base(), found.hex()
                    return self._add(
                        problem("grain", first + i, error, start=start, address=address)
                    )
        except BrokenContainer:
            pass  # was reported already

    def manifest(self) -> None:
        """Check that the manifest is canonical, and that its grains exist."""
        try:
            at = self._inside.rest_at
            states = self._inside.states
        except BrokenContainer as broken:
            self._add(broken.problem)
            return
        missing = {address.hex() for address in self._missing} & states.keys()
        if missing:
            message = "names grains that are not in the container"
            error = CorruptError(message, found=str(len(missing)))
            self._add(problem("manifest", None, error, start=at, address=min(missing)))

    def footer(self) -> None:
        """Check that the file hashes to its footer."""
        data, limit = self._inside.data, self._inside.limit
        self._hash(limit)
        made, found = self.hashing.digest(), data[limit : limit + FOOTER_SIZE]
        if made == found:
            return
        message = "the file's hash differs from its footer"
        if not self.problems:
            message = f"every part is well-formed by itself, but {message}"
        error = IntegrityError(message, expected=found.hex(), found=made.hex())
        self._add(problem("footer", None, error, start=limit))


_SUSPECTS = 65536  # enough to find one, without holding all of a hostile file's


def _prefixes(digests: bytes) -> array[int]:
    """Return the first 64 bits of each digest."""
    words = array("Q", digests)
    if sys.byteorder == "little":
        words.byteswap()
    return words[:: DIGEST // words.itemsize]


class _Twins:
    """Finds possible duplicate addresses: it keeps 8 bytes of each, in 256 lists."""

    def __init__(self) -> None:
        self._lots = [array("Q") for _ in range(256)]

    def add(self, digests: bytes) -> None:
        for prefix in _prefixes(digests):
            self._lots[prefix >> 56].append(prefix)

    def suspects(self) -> set[int]:
        """Return the beginnings that occur more than once."""
        found: set[int] = set()
        for lot in self._lots:
            if len(set(lot)) < len(lot):
                found |= {prefix for prefix, n in Counter(lot).items() if n > 1}
            if len(found) >= _SUSPECTS:
                break
        return found
