# SPDX-License-Identifier: Apache-2.0
"""Peers that may be missing: a row whose peer is not installed stays in the table."""

from __future__ import annotations

import shutil
from importlib import import_module
from typing import Any


class Absent(Exception):
    """A peer is not installed. Its text is the peer's name."""


def module(name: str) -> Any:
    """Import a package that omsgrain is measured against.

    Raises:
        Absent: it is not installed.
    """
    try:
        return import_module(name)
    except ImportError:
        raise Absent(name) from None


def program(name: str) -> str:
    """Find a program.

    Raises:
        Absent: it is not installed.
    """
    found = shutil.which(name)
    if found is None:
        raise Absent(name)
    return found
