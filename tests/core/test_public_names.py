# SPDX-License-Identifier: Apache-2.0
"""`dir()` of a public module shows its public names, and imports nothing."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from importlib import import_module

import pytest

import omsgrain as og

#: Modules of which programs import names.
PUBLIC = (
    *("omsgrain", "omsgrain.batch", "omsgrain.constructors", "omsgrain.container"),
    *("omsgrain.crypto", "omsgrain.crypto.did", "omsgrain.errors", "omsgrain.formats"),
    *("omsgrain.grain", "omsgrain.header", "omsgrain.policy", "omsgrain.privacy"),
    *("omsgrain.registry", "omsgrain.store", "omsgrain.sync"),
)


@pytest.mark.parametrize("name", PUBLIC)
def test_dir_shows_public_names(name: str) -> None:
    module = import_module(name)
    shown = dir(module)
    assert shown == sorted(set(module.__all__))
    for one in shown:
        assert one == "__version__" or not one.startswith("_")
        found = getattr(module, one)
        home = found.__module__ if inspect.isclass(found) or inspect.isroutine(found) else name
        # `PublicKey` is a union of types of a library.
        assert home.startswith("omsgrain") or one in ("PublicKey", "Time"), (one, home)


def test_the_modules_of_the_package_are_tried() -> None:
    modules = {
        getattr(og, name).__name__ for name in og.__all__ if inspect.ismodule(getattr(og, name))
    }
    assert modules < set(PUBLIC)


def test_dir_imports_nothing() -> None:
    code = f"""
import importlib, json, sys
modules = [importlib.import_module(name) for name in {PUBLIC!r}]
before = set(sys.modules)
for module in modules:
    dir(module)
print(json.dumps(sorted(set(sys.modules) - before)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []
