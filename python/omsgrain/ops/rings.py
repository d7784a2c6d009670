# SPDX-License-Identifier: Apache-2.0
"""Key files: make them, count what is in them, and change what they are wrapped with."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omsgrain.errors import KeyMissingError

if TYPE_CHECKING:
    from omsgrain.crypto.master_key import MasterKey

_KEY = 32


def make_master(file: Path) -> None:
    """Write a random master key into a new file, in hex, that only its owner may read."""
    from omsgrain.crypto import private_file

    private_file.write_new(file, os.urandom(_KEY).hex().encode() + b"\n")


def key_of_text(text: str | None) -> bytes:
    """Read a master key that is written in hex or base64."""
    from omsgrain.crypto.master_key import parse_key

    # As many letters as a key has bytes are a password, and not a key.
    data = b"" if text is None else text.encode(errors="replace")
    key = None if len(data) == _KEY else parse_key(data)
    if key is None:
        found = "nothing" if text is None else None
        raise KeyMissingError(
            "no master key", expected=f"{_KEY} bytes in hex or base64", found=found
        )
    return key


def create_keys(file: Path, master: MasterKey) -> dict[str, Any]:
    """Make a new key file; errors are those of ``KeyRing.create``. Gives what is in it."""
    from omsgrain.crypto.keyring.keyring import KeyRing

    with KeyRing.create(file, master=master) as ring:
        return asdict(ring.stats())


def keys_status(file: Path, master: MasterKey) -> dict[str, Any]:
    """Count what is in a key file; errors are those of ``KeyRing.open``."""
    from omsgrain.crypto.keyring.keyring import KeyRing

    with KeyRing.open(file, master=master) as ring:
        return asdict(ring.stats())


def rewrap(file: Path, master: MasterKey, new: MasterKey) -> dict[str, Any]:
    """Wrap a key file under another master key; errors are those of ``KeyRing.rewrap``."""
    from omsgrain.crypto.keyring.keyring import KeyRing

    with KeyRing.open(file, master=master) as ring:
        ring.rewrap(new)
        return asdict(ring.stats())


def rekey(file: Path, master: MasterKey, new: MasterKey) -> dict[str, Any]:
    """Write a key file anew under fresh keys; errors are those of ``KeyRing.rekey``."""
    from omsgrain.crypto.keyring.keyring import KeyRing

    with KeyRing.open(file, master=master) as ring:
        ring.rekey(new)
        return asdict(ring.stats())


def backup_keys(file: Path, master: MasterKey, target: Path) -> dict[str, Any]:
    """Copy a key file into a new one; errors are those of ``KeyRing.backup``."""
    from omsgrain.crypto.keyring.keyring import KeyRing

    with KeyRing.open(file, master=master) as ring:
        ring.backup(target)
        return {**asdict(ring.stats()), "path": str(target)}
