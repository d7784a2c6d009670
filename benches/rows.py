# SPDX-License-Identifier: Apache-2.0
"""All rows by name, in the order of the table."""

from __future__ import annotations

from benches import codec, startup, store
from benches.measure import Row

ROWS: dict[str, Row] = {row.id: row for area in (codec, store, startup) for row in area.ROWS}
