# SPDX-License-Identifier: Apache-2.0
"""Bundles for tests, and the contents of their files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from omsgrain.formats.aimem import document as bundle
from omsgrain.formats.aimem.fields import ARRAYS, Kind
from support.aimem_strategies import TENANT
from support.paths import ROOT

EXAMPLE = ROOT / "examples/robot-7.aimem.json"


def chunk(n: int, content: str = "Ada likes tea", **more: Any) -> dict[str, Any]:
    return {
        "id": f"urn:aimem:robots:{n}",
        "content": content,
        "memory_type": "fact",
        "created_at": "2026-04-01T09:30:00Z",
        **more,
    }


def made(*chunks: dict[str, Any], tenant: str = TENANT, **more: Any) -> bytes:
    """A good bundle, but for what is given."""
    records: dict[Kind, list[dict[str, Any]]] = {"chunk": list(chunks)}
    envelope = {
        "format": "aimem-bundle",
        "version": "1",
        "producer": "robots",
        "tenant_id": tenant,
        "exported_at": "2026-06-12T10:00:00Z",
        "scope": "FULL",
        **more,
    }
    return bundle.write_bundle(bundle.Bundle(envelope, records))


def records(path: Path) -> dict[str, Any]:
    """Return the content of a bundle without its envelope."""
    document = json.loads(path.read_bytes())
    return {name: sorted(document[name], key=str) for name in ARRAYS}
