# SPDX-License-Identifier: Apache-2.0
"""Pipes where a file is looked into before it is read: there is nobody who writes it again."""

from __future__ import annotations

from pathlib import Path


def refuse_pipe(path: Path) -> None:
    """Refuse a pipe, such as that of ``<(...)``, whose second reading would wait without end."""
    if path.is_fifo():
        from omsgrain.formats.sniff import read_once

        raise read_once()
