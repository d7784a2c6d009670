# SPDX-License-Identifier: Apache-2.0
"""Documents of other formats into a store, and out of it."""

from __future__ import annotations
