# SPDX-License-Identifier: Apache-2.0
"""Storage backends: the interface, the tables, LMDB, PostgreSQL and memory."""

from __future__ import annotations
