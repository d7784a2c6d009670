# SPDX-License-Identifier: Apache-2.0
"""What takes several requests, all of it."""

from __future__ import annotations

from typing import Final

from omsgrain.conformance.http import again, exports
from omsgrain.conformance.http.story import Flow

FLOWS: Final[list[Flow]] = [*again.FLOWS, *exports.FLOWS]
