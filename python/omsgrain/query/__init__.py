# SPDX-License-Identifier: Apache-2.0
"""Finding grains: the terms that a filter names, and the walk that answers a query."""

from __future__ import annotations
