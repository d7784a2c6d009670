# SPDX-License-Identifier: Apache-2.0
"""Adapters are apart: none needs another one, or a framework that is not its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from layers import MODULES, imports
from support.frameworks import FRAMEWORKS

_ROOM = "integrations"
#: By name, the files of each.
ADAPTERS = {
    name: [path for path, module in MODULES.items() if module.split(".")[1:3] == [_ROOM, name]]
    for name in {module.split(".")[2] for module in MODULES.values() if f".{_ROOM}." in module}
    if name != "entries"
}


def test_each_adapter_of_a_framework_has_its_tests() -> None:
    assert set(FRAMEWORKS) == set(ADAPTERS) - {"mem0"}


@pytest.mark.parametrize("name", sorted(ADAPTERS))
def test_an_adapter_imports_no_other(name: str) -> None:
    import ast

    trees = [ast.parse(path.read_text("utf-8")) for path in ADAPTERS[name]]
    found = [one for tree in trees for one in imports(tree)]
    others = {f"omsgrain.integrations.{other}" for other in ADAPTERS.keys() - {name}}
    assert not [one for _, one in found if one.startswith(tuple(others))]


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_an_adapter_without_its_framework_says_what_to_install(name: str) -> None:
    code = (
        "import sys\n"
        f"sys.modules[{FRAMEWORKS[name][1].split('.')[0]!r}] = None\n"
        "from omsgrain.errors import UnsupportedError\n"
        "import omsgrain.integrations, omsgrain.integrations.entries\n"
        f"try:\n    import omsgrain.integrations.{name}\n"
        "except UnsupportedError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install " in done.stdout
