# SPDX-License-Identifier: Apache-2.0
"""Media types that the server takes and gives, by name; what a client would rather have."""

from __future__ import annotations

from typing import Final

from starlette.datastructures import Headers

__all__ = ["BLOB", "BUNDLE", "COSE_KEY", "JSON", "LINES", "VERSION", "weights"]

BUNDLE: Final = "application/aimem-bundle+json"
JSON: Final = "application/json"
LINES: Final = "application/x-ndjson"
BLOB: Final = "application/octet-stream"
COSE_KEY: Final = "application/cose-key"
VERSION: Final = "1"
"""The value that the parameter ``version`` of the bundle's media type can have."""


def weights(headers: Headers, name: str) -> dict[str, float]:
    """What a header such as ``Accept`` asks for, in lower case, and how much."""
    found: dict[str, float] = {}
    for part in ",".join(headers.getlist(name)).split(","):
        value, *parameters = (piece.strip().lower() for piece in part.split(";"))
        weight = next((p[2:] for p in parameters if p.startswith("q=")), "1")
        try:
            found[value] = float(weight)
        except ValueError:
            found[value] = 0.0
    return found
