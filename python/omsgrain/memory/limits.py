# SPDX-License-Identifier: Apache-2.0
"""The kinds of memories and the limits of a recall, without the formats behind them.

An MCP server lists its tools by these, before it loads a format.
"""

from __future__ import annotations

from typing import Final

TYPES: Final = ("observation", "decision", "learning", "error", "context", "conversation")
"""Kinds of memories that MIF 2.0 names; others are allowed."""
MOST: Final = 100
"""The most memories of one recall."""
