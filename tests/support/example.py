# SPDX-License-Identifier: Apache-2.0
"""The programs in examples/, which are not a package."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

from support.paths import ROOT

EXAMPLES = ROOT / "examples"


def load(name: str) -> ModuleType:
    """Import a program by its path without suffix."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # tasks in other processes look it up there
    spec.loader.exec_module(module)
    return module
