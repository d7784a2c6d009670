# SPDX-License-Identifier: Apache-2.0
"""Verify blobs wherever they lie: in a file, a directory, a store."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import omsgrain as og
from omsgrain.errors import NotFoundError, OmsError
from omsgrain.ops.lookup import read_blob

_NAMED_BY_ADDRESS = re.compile(r"([0-9a-f]{64})(\.mg)?")


@dataclass(frozen=True, slots=True)
class Failure:
    """One blob that is not what it must be: its file, or the store and its number there."""

    name: str
    error: OmsError

    def to_dict(self) -> dict[str, Any]:
        """The failure as JSON-ready values."""
        return {"name": self.name, "error": self.error.to_dict()}


@dataclass(frozen=True, slots=True)
class Verified:
    """How many blobs were verified, and which were not good."""

    verified: int
    failures: list[Failure]


def verify(path: Path, address: str | None = None) -> Verified:
    """Verify the blob, the store or the directory of blobs at the path.

    Args:
        path: a store, a file, or a directory; there the files ending in .mg and those named by an
            address are taken, the latter checked against their names.
        address: what the one blob must have.

    Raises:
        NotFoundError: a directory holds neither a store nor a blob.
        StoreError: the store cannot be read.
        OSError: a file cannot be read.
    """
    from omsgrain.store.opening import DATA_FILE

    if (path / DATA_FILE).exists():
        return _store(path)
    if not path.is_dir():
        return _files([(path, address)])
    files = []
    for file in sorted(path.rglob("*")):
        named = _NAMED_BY_ADDRESS.fullmatch(file.name)
        if file.is_file() and (named or file.suffix == ".mg"):
            files.append((file, named[1] if named else None))
    if not files:
        raise NotFoundError("neither a store nor blobs in the directory", expected="*.mg")
    return _files(files)


def _files(files: list[tuple[Path, str | None]]) -> Verified:
    failures = []
    for file, address in files:
        try:
            og.verify(read_blob(file), address)
        except OmsError as error:
            failures.append(Failure(str(file), error))
    return Verified(len(files) - len(failures), failures)


def _store(path: Path) -> Verified:
    with og.open(path, readonly=True) as store:
        report = store.verify(errors="collect")
    failures = [Failure(f"{path}, grain {bad.index}", bad.error) for bad in report.errors]
    return Verified(report.verified, failures)
