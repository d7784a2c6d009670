# SPDX-License-Identifier: Apache-2.0
"""git as rows S use it: a bare repository of blobs, without trees and commits."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from benches import peer


def opened(repository: Path) -> Path:
    """Make a repository."""
    subprocess.run([peer.program("git"), "init", "-q", "--bare", str(repository)], check=True)
    return repository


def stream(blobs: Sequence[bytes]) -> bytes:
    """What ``git fast-import`` reads, with the blob's number as its mark."""
    return b"".join(
        b"blob\nmark :%d\ndata %d\n%s\n" % (number, len(blob), blob)
        for number, blob in enumerate(blobs, 1)
    )


def add(repository: Path, given: bytes) -> None:
    """Import a stream; git syncs the pack before it ends."""
    run(repository, "fast-import", "--quiet", "--export-marks=marks", given=given)


def ids(repository: Path) -> list[bytes]:
    """The ids of the blobs that were imported last, in their order."""
    lines = [line.split() for line in (repository / "marks").read_bytes().splitlines()]
    return [name for _, name in sorted((int(mark[1:]), name) for mark, name in lines)]


def read(repository: Path, names: Sequence[bytes]) -> list[bytes]:
    """The blobs with these ids, by one ``git cat-file --batch``."""
    given = b"".join(name + b"\n" for name in names)
    out, at, found = run(repository, "cat-file", "--batch", given=given), 0, []
    while at < len(out):
        start = out.index(b"\n", at) + 1
        at = start + int(out[at:start].rpartition(b" ")[2])
        found.append(out[start:at])
        at += 1  # a newline ends each
    return found


def run(repository: Path, *words: str, given: bytes) -> bytes:
    """Run a command of git; return what it prints."""
    command = [peer.program("git"), "-C", str(repository), *words]
    return subprocess.run(command, input=given, capture_output=True, check=True).stdout
