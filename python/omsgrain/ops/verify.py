# SPDX-License-Identifier: Apache-2.0
"""Verify grains wherever they lie: in a file of one or of many, a directory, a store."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import omsgrain as og
from omsgrain import container
from omsgrain.container.files import os_errors
from omsgrain.container.layout import MAGIC
from omsgrain.errors import NotFoundError, OmsError, UnsupportedError
from omsgrain.ops import bundles, mif_files
from omsgrain.ops.bundles import Document
from omsgrain.ops.lookup import read_blob
from omsgrain.ops.opening import open_store
from omsgrain.ops.signed import ENVELOPE, SIGNATURE, SignedBy, detached, is_detached, opened
from omsgrain.store.home import Directory, Where, home_of

_SUFFIXES = (".mg", ".cose", SIGNATURE, *bundles.SUFFIXES, *mif_files.SUFFIXES)
_NAMED_BY_ADDRESS = re.compile(r"([0-9a-f]{64})(\.mg)?")


@dataclass(frozen=True, slots=True)
class Failure:
    """One thing that is not what it must be.

    Attributes:
        name: the file, or the store and the grain's number there.
        error: why.
        problem: of a container: which part of it, its number, the address.
    """

    name: str
    error: OmsError
    problem: container.Problem | None = None

    def to_dict(self) -> dict[str, Any]:
        """The failure as JSON-ready values."""
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


@dataclass(frozen=True, slots=True)
class Verified:
    """What was verified.

    Attributes:
        verified: how many grains, signed files and bundles.
        failures: what was not good.
        signed: signatures in files that hold.
        documents: bundles, good or bad.
    """

    verified: int
    failures: list[Failure]
    signed: list[SignedBy] = field(default_factory=list)
    documents: list[Document] = field(default_factory=list)


def verify(
    path: Where,
    address: str | None = None,
    *,
    of: Path | None = None,
    trust: Sequence[str] = (),
    passphrase: str | None = None,
) -> Verified:
    """Verify the file of grains or signatures, the store or the directory of such at the path.

    What a file is, its first bytes tell: a blob, a container, envelopes, a bundle, a MIF document,
    or a signature that lies beside what it signs.

    Args:
        path: a store, a file, or a directory; there the files ending in .mg, .cose, .sig,
            .aimem.json, .mif.json and the like, and those named by an address are taken, the
            latter checked against their names. What cannot be read there is a failure; the
            others are verified.
        address: what the one grain must have.
        of: what a signature signs, if that is not called as it without .sig.
        trust: files of public keys, or DIDs: whose signatures of bundles count.
        passphrase: opens documents of MIF 1.0 that are encrypted.

    Raises:
        NotFoundError: a directory holds neither a store nor a file of grains.
        UnsupportedError: an address for a container, which has none, or ``of`` for what is no
            detached signature.
        StoreError: the store cannot be read.
        OSError: the one file cannot be read.
    """
    home = home_of(path)
    if not isinstance(home, Directory) or home.exists():
        return _store(path)
    path = home.path
    if not path.is_dir():
        return _file(path, address, of, trust, passphrase)
    return _directory(path, trust, passphrase)


def _directory(path: Path, trust: Sequence[str], passphrase: str | None) -> Verified:
    """Verify the files of a directory; one that cannot be read is a failure like others."""
    whole = Verified(0, [])
    files: list[Path] = []
    for inside, _, names in os.walk(path, onerror=partial(_unread, whole.failures)):
        files += [Path(inside, name) for name in names if _is_named(name)]
    verified, found = 0, bool(whole.failures)
    for file in sorted(files):
        if not (file.is_file() or (file.is_symlink() and not file.exists())):
            continue  # a pipe has no end
        address = _NAMED_BY_ADDRESS.fullmatch(file.name)
        try:
            with os_errors("read", file):
                if file.suffix == SIGNATURE and bundles.is_bundle(file.with_suffix("")):
                    continue  # it is read with the bundle
                found = True
                one = _file(file, address[1] if address else None, None, trust, passphrase)
        except OmsError as error:
            whole.failures.append(Failure(str(file), error))
            found = True
            continue
        verified += one.verified
        whole.failures.extend(one.failures)
        whole.signed.extend(one.signed)
        whole.documents.extend(one.documents)
    if not found:
        raise NotFoundError("neither a store nor blobs in the directory", expected="*.mg")
    return replace(whole, verified=verified)


def _is_named(name: str) -> bool:
    """Whether a file is called as one that can be verified."""
    return name.endswith(_SUFFIXES) or _NAMED_BY_ADDRESS.fullmatch(name) is not None


def _unread(failures: list[Failure], error: OSError) -> None:
    """Note a directory that cannot be read."""
    path = Path(os.fspath(error.filename))
    try:
        with os_errors("read", path):
            raise error
    except OmsError as told:
        failures.append(Failure(str(path), told))


def _file(
    file: Path,
    address: str | None,
    of: Path | None,
    trust: Sequence[str],
    passphrase: str | None,
) -> Verified:
    with file.open("rb") as stream:
        head = stream.read(len(MAGIC))
    if of is not None and head[:1] != ENVELOPE:
        raise _signs_none(file)
    if head == MAGIC:
        if address is not None:
            raise UnsupportedError("a container has no address of its own", found=str(file))
        report = container.verify(file, errors="collect")
        return Verified(
            report.verified, [Failure(str(file), found.error, found) for found in report.problems]
        )
    if head[:1] == ENVELOPE:
        return _signed(file, address, of, trust)
    what = None if address is not None else bundles.sniffed(file)
    if what is not None and what.format in mif_files.FORMATS:
        return _document(mif_files.verify_mif(file, what.format, passphrase))
    if what is not None:
        return _document(bundles.verify_bundle(file, trust))
    try:
        og.verify(read_blob(file), address)
    except OmsError as error:
        return Verified(0, [Failure(str(file), error)])
    return Verified(1, [])


def _document(found: Document) -> Verified:
    failures = [Failure(found.name, error) for error in found.errors]
    signed = [] if found.signed is None else [found.signed]
    return Verified(0 if failures else 1, failures, signed, [found])


def _signed(file: Path, address: str | None, of: Path | None, trust: Sequence[str]) -> Verified:
    data = file.read_bytes()
    found: list[SignedBy | OmsError]
    if is_detached(data):
        if address is not None:
            raise UnsupportedError("a signed file has no address of its own", found=str(file))
        try:
            found = [_detached(data, file, of, trust)]
        except OmsError as error:
            found = [error]
    elif of is not None:
        raise _signs_none(file)
    else:
        found = opened(data, str(file), address)
    good = [one for one in found if isinstance(one, SignedBy)]
    bad = [
        Failure(str(file) if len(found) == 1 else f"{file}, envelope {number}", one)
        for number, one in enumerate(found)
        if isinstance(one, OmsError)
    ]
    return Verified(len(good), bad, good)


def _signs_none(file: Path) -> UnsupportedError:
    what = "a signature that lies beside what it signs"
    return UnsupportedError("it signs no other file", expected=what, found=str(file))


def _detached(data: bytes, file: Path, of: Path | None, trust: Sequence[str]) -> SignedBy:
    signed = of or file.with_name(file.name.removesuffix(SIGNATURE))
    if signed == file or not bundles.is_bundle(signed):
        return detached(data, file, of)
    # Of a bundle not the bytes are signed, but what they say.
    proof = bundles.signer_of(data, bundles.signed_text_of(signed), trust)
    return SignedBy(str(signed), proof.signer, proof.iat)


def _store(path: Where) -> Verified:
    with open_store(path, readonly=True) as store:
        report = store.verify(errors="collect")
    failures = [Failure(f"{path}, grain {bad.index}", bad.error) for bad in report.errors]
    return Verified(report.verified, failures)
