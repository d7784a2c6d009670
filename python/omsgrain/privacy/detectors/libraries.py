# SPDX-License-Identifier: Apache-2.0
"""The libraries that know the numbers of the countries; installed with an extra."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from omsgrain.errors import UnsupportedError, packages_of

__all__ = ["library"]


@cache
def library(module: str) -> Any:
    """Import a module.

    Raises:
        UnsupportedError: it is not installed. A text is not half searched.
    """
    try:
        return import_module(module)
    except ImportError:
        package = {"stdnum": "python-stdnum"}.get(module.split(".")[0], module)
        message = f"{package} is not installed"
        raise UnsupportedError(message, expected=packages_of("privacy")) from None
