# SPDX-License-Identifier: Apache-2.0
"""All rows by name, in the order of the table."""

from __future__ import annotations

from benches import (
    bulk,
    codec,
    expiry,
    formats,
    growth,
    memory,
    read,
    report,
    search,
    startup,
    store,
    sync,
    trust,
)
from benches.measure import Row

_AREAS = (codec, bulk, store, expiry, read, search, memory, sync, growth, startup, trust, formats)
ROWS: dict[str, Row] = {
    row.id: row
    for row in sorted((r for area in _AREAS for r in area.ROWS), key=lambda r: report.order(r.id))
}
