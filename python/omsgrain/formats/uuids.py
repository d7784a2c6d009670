# SPDX-License-Identifier: Apache-2.0
"""UUIDs as texts."""

from __future__ import annotations

import re

__all__ = ["is_uuid"]

_UUID = re.compile(r"[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}")


def is_uuid(text: str) -> bool:
    """Whether a text is a UUID with its hyphens, of any version; letters may be large."""
    return _UUID.fullmatch(text) is not None
