# SPDX-License-Identifier: Apache-2.0
"""Where grains are kept: the contract, the tables, LMDB on disk, dicts in memory."""

from __future__ import annotations
