# SPDX-License-Identifier: Apache-2.0
"""Verify grains, documents and signatures: in a file, in the files of a directory, in a store."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import omsgrain as og
from omsgrain import container
from omsgrain.container.layout import os_errors
from omsgrain.counts import counted
from omsgrain.crypto.cose import MAX_OVERHEAD, prove
from omsgrain.crypto.detached import SUFFIX
from omsgrain.crypto.trust import Trust, missing
from omsgrain.errors import FormatError, NotFoundError, OmsError, UnsupportedError
from omsgrain.formats.bag.mcap import MAGIC as MCAP
from omsgrain.formats.problems import DocumentError, DocumentFindings
from omsgrain.formats.table import CONTAINER, FORMATS, of_grains, sniff_directory, sniffed
from omsgrain.header import ENVELOPE_BYTE
from omsgrain.interchange import signed_files
from omsgrain.interchange.ingest import one_grain, read_blob
from omsgrain.interchange.signed_files import SignedBy
from omsgrain.store.mg_files import is_sync_file

if TYPE_CHECKING:
    from omsgrain.crypto.did import Resolver
    from omsgrain.storage.signatures import Signature
    from omsgrain.store import GrainStore

_HEAD = 4 << 10  # bytes that say what a file is
_SUFFIXES = (
    ".mg",
    ".mcap",
    ".cose",
    SUFFIX,
    *(end for one in FORMATS.values() for end in one.suffixes if end != ".md"),
)
_NAMED_BY_ADDRESS = re.compile(r"([0-9a-f]{64})(\.mg)?")


@dataclass(frozen=True, slots=True)
class Failure:
    name: str  # the file, or the store and the grain's number there
    error: OmsError
    # in a container, the part, its number and the address
    problem: container.ContainerProblem | None = None

    def to_dict(self) -> dict[str, Any]:
        where = {} if self.problem is None else self.problem.to_dict()
        return {"name": self.name, **where, "error": self.error.to_dict()}

    def __str__(self) -> str:
        """One line for a person."""
        text = f"{self.name}: {self.error}"
        if self.problem is not None and self.problem.address is not None:
            text += f"; address {self.problem.address}"
        if self.error.rule is not None:
            text += f"; rule {self.error.rule}"
        return text


@dataclass(slots=True)
class Verified:
    """The result of verification."""

    verified: int = 0  # how many grains, signed files and documents
    failures: list[Failure] = field(default_factory=list)
    signed: list[SignedBy] = field(default_factory=list)  # signatures in files that hold
    documents: list[DocumentFindings] = field(default_factory=list)  # good ones and bad ones

    __repr__ = counted

    def add(self, other: Verified) -> None:
        """Add the result for another file."""
        self.verified += other.verified
        self.failures += other.failures
        self.signed += other.signed
        self.documents += other.documents


class VerifyOptions(NamedTuple):
    trust: Trust | None = None  # whose signatures count; None if nothing must be signed
    resolver: Resolver | None = None  # finds the keys of signers
    passphrase: str | None = None  # opens documents of MIF 1.0 that are encrypted


def verify_directory(path: Path, options: VerifyOptions) -> Verified:
    """Verify the files of a directory; an unreadable file is a failure."""
    whole = Verified()
    files: list[Path] = []
    for inside, _, names in os.walk(path, onerror=partial(_unread, whole.failures)):
        files += [Path(inside, name) for name in names if _is_named(name)]
    found, read = bool(whole.failures), set(files)
    for file in sorted(files):
        if not (file.is_file() or (file.is_symlink() and not file.exists())):
            continue  # a pipe has no end
        if file.suffix == SUFFIX and (signed := file.with_suffix("")) in read:
            if signed.is_file():
                continue  # it is verified with what it signs
        address = _NAMED_BY_ADDRESS.fullmatch(file.name)
        found = True
        try:
            with os_errors("read", file):
                whole.add(verify_file(file, options, address[1] if address else None))
        except OmsError as error:
            whole.failures.append(Failure(str(file), error))
    if not found and (known := FORMATS[sniff_directory(path)]).translated:
        return _documents(known.check_directory(path))
    if not found:
        raise NotFoundError("neither a store nor blobs in the directory", expected="*.mg")
    return whole


def _is_named(name: str) -> bool:
    """Whether the name of a file says that it can be verified."""
    return name.endswith(_SUFFIXES) or _NAMED_BY_ADDRESS.fullmatch(name) is not None


def _unread(failures: list[Failure], error: OSError) -> None:
    """Note a directory that cannot be read."""
    path = Path(os.fspath(error.filename))
    try:
        with os_errors("read", path):
            raise error
    except OmsError as told:
        failures.append(Failure(str(path), told))


def verify_file(
    file: Path, options: VerifyOptions, address: str | None = None, *, of: Path | None = None
) -> Verified:
    """Verify a file of grains or signatures, or a document.

    Its first bytes say what it is: a blob, a container, envelopes, a bundle, a MIF document, a
    checkpoint, or a signature beside the file that it signs. The signature in FILE.sig is verified
    with FILE, whatever FILE is.
    """
    with file.open("rb") as stream:
        head = stream.read(_HEAD)
    if file.suffix == SUFFIX or head[:1] == ENVELOPE_BYTE:
        with file.open("rb") as stream:
            data = stream.read(-1 if head[:1] == ENVELOPE_BYTE else MAX_OVERHEAD + 1)
        if signed_files.is_detached(data) or head[:1] != ENVELOPE_BYTE:
            return _detached(data, file, address, of, options)
    if of is not None:
        what = "a signature that lies beside what it signs"
        raise UnsupportedError("it signs no other file", expected=what, found=str(file))
    found = _content(file, head, address, options)
    needs = options.trust is not None and not found.signed and not found.failures
    try:
        signed = signed_files.verify_beside(file, options.trust, options.resolver, required=needs)
    except DocumentError:
        return found  # of a bundle that breaks a rule there is no text that could be signed
    except OmsError as error:
        failures = [*found.failures, Failure(str(file), error)]
        return replace(found, verified=0, failures=failures)
    return found if signed is None else replace(found, signed=[*found.signed, signed])


def _sync_failures(file: Path) -> list[Failure]:
    """The failures of a sync file: its grains are good, its records may not be."""
    from omsgrain.sync.bundle import BundleFile

    try:
        BundleFile(file).close()
    except OmsError as error:
        return [Failure(str(file), error)]
    return []


def _content(file: Path, head: bytes, address: str | None, options: VerifyOptions) -> Verified:
    """Verify the content of a file, without the signature beside it."""
    if of_grains(head) == CONTAINER:
        if address is not None:
            raise UnsupportedError("a container has no address of its own", found=str(file))
        report = container.verify(file, errors="collect")
        failures = [Failure(str(file), found.error, found) for found in report.problems]
        if not failures and is_sync_file([file]):
            failures = _sync_failures(file)
        return Verified(report.verified, failures)
    if head[:1] == ENVELOPE_BYTE:
        return _envelopes(file, address, options)
    if head.startswith(MCAP):
        return _mcap(file, address)
    what = None if address is not None else sniffed(file)
    if what is not None and what != CONTAINER:
        return _documents(FORMATS[what].check_file(file, options.passphrase))
    try:
        if address is None and signed_files.is_statement(head):
            with file.open("rb") as stream:
                data = stream.read(signed_files.STATEMENT_LIMIT + 1)
            signed = signed_files.verify_statement(data, file, options.trust, options.resolver)
            return Verified(1, [], [] if signed is None else [signed])
        og.verify(one_grain(read_blob(file)), address)
    except OmsError as error:
        return Verified(0, [Failure(str(file), error)])
    return Verified(1, [])


def _mcap(file: Path, address: str | None) -> Verified:
    from omsgrain.interchange.mcap_grains import verify_mcap

    if address is not None:
        raise UnsupportedError("a recording has no address of its own", found=str(file))
    try:
        reports = verify_mcap(file)
    except FormatError as error:
        return Verified(0, [Failure(str(file), error)])
    failures = [Failure(str(file), one.error, one) for each in reports for one in each.problems]
    return Verified(sum(one.verified for one in reports) if reports else 1, failures)


def _documents(checked: DocumentFindings) -> Verified:
    failures = [Failure(checked.name, error) for error in checked.errors]
    return Verified(0 if failures else 1, failures, [], [checked])


def _envelopes(file: Path, address: str | None, options: VerifyOptions) -> Verified:
    found = signed_files.verify_envelopes(
        file.read_bytes(), str(file), address, options.trust, options.resolver
    )
    good = [one for one in found if isinstance(one, SignedBy)]
    bad = [
        Failure(str(file) if len(found) == 1 else f"{file}, envelope {number}", one)
        for number, one in enumerate(found)
        if isinstance(one, OmsError)
    ]
    return Verified(len(good), bad, good)


def _detached(
    data: bytes, file: Path, address: str | None, of: Path | None, options: VerifyOptions
) -> Verified:
    if address is not None:
        raise UnsupportedError("a signed file has no address of its own", found=str(file))
    try:
        found = signed_files.verify_detached(data, file, of, options.trust, options.resolver)
    except OmsError as error:
        return Verified(0, [Failure(str(file), error)])
    return Verified(1, [], [found])


def verify_store(store: GrainStore, name: str, options: VerifyOptions) -> Verified:
    """Verify all grains of a store; with ``trust`` each must be signed by a trusted key."""
    report = store.verify(errors="collect")
    failures = [Failure(f"{name}, grain {bad.index}", bad.error) for bad in report.errors]
    trust = options.trust
    if trust is None or failures:
        return Verified(report.verified, failures)
    resolver, good = trust.resolver(options.resolver), 0
    for grain in store:
        try:
            _signed_by(store.trust.signatures(grain.address), trust, resolver)
        except OmsError as error:
            failures.append(Failure(f"{name}, grain {grain.address}", error))
        else:
            good += 1
    return Verified(good, failures)


def _signed_by(found: list[Signature], trust: Trust, resolver: Resolver) -> None:
    """Require that one of a grain's signatures is by a trusted key."""
    refused: OmsError = missing()
    for one in found:
        try:
            trust.confirm(prove(one.envelope, resolver=resolver)[1].signer, resolver)
        except OmsError as error:
            refused = error
        else:
            return
    raise refused
