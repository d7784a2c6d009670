# SPDX-License-Identifier: Apache-2.0
"""A grain's id in its source document, as the index has it."""

from __future__ import annotations

import json
import re
import unicodedata

from omsgrain.formats.source import KEY
from omsgrain.grain import Grain

_HASH = re.compile("[0-9a-f]{64}")


def origins(grain: Grain) -> tuple[str, ...]:
    """The ``id`` of the side channel, and ``sha256:`` with its ``h``: the hash of a record's text.

    Absent and unsuitable values are left out (``rust/core/src/index_rows.rs``).
    """
    value = grain.get(KEY)
    if not isinstance(value, bytes):
        return ()
    try:
        read = json.loads(value)
    except (ValueError, RecursionError):
        return ()
    if not isinstance(read, dict):
        return ()
    name, hash_ = read.get("id"), read.get("h")
    names = [unicodedata.normalize("NFC", name)] if isinstance(name, str) else []
    if isinstance(hash_, str) and _HASH.fullmatch(hash_):
        names.append(f"sha256:{hash_}")
    return tuple(dict.fromkeys(names))
