# SPDX-License-Identifier: Apache-2.0
"""Media types that the server takes and gives, by name."""

from __future__ import annotations

from typing import Final

__all__ = ["BLOB", "BUNDLE", "COSE_KEY", "JSON", "LINES", "VERSION"]

BUNDLE: Final = "application/aimem-bundle+json"
JSON: Final = "application/json"
LINES: Final = "application/x-ndjson"
BLOB: Final = "application/octet-stream"
COSE_KEY: Final = "application/cose-key"
VERSION: Final = "1"
"""The value that the parameter ``version`` of the bundle's media type can have."""
