# SPDX-License-Identifier: Apache-2.0
"""The binding needs the GIL, and says so until it no longer does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from omsgrain import _core

ROOT = Path(__file__).resolve().parents[2]
CI: dict[str, Any] = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text("utf-8"))


def test_the_module_says_that_it_uses_the_gil() -> None:
    source = (ROOT / "rust/py/src/lib.rs").read_text("utf-8")
    modules = re.findall(
        r"#\[(?:pyo3::)?pymodule(?:\(([^)]*)\))?\]\s*(?:pub )?mod _core\b", source
    )
    assert modules == ["gil_used = true"]


def test_the_gil_is_on_when_the_module_is_loaded() -> None:
    """A free-threaded interpreter switches it on for a module that asks; others always have it."""
    code = (
        "import sys, omsgrain._core; sys.exit(not getattr(sys, '_is_gil_enabled', lambda: True)())"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


def test_the_module_is_of_the_stable_abi() -> None:
    """No free-threaded interpreter before 3.15 loads such a module, so none meets it by chance."""
    assert Path(str(_core.__file__)).name.startswith(("_core.abi3", "_core.pyd"))


def test_no_wheel_is_for_a_free_threaded_python() -> None:
    given = [
        text
        for name in (".github/workflows/ci.yml", "pyproject.toml", "Makefile")
        for text in (ROOT / name).read_text("utf-8").splitlines()
        if re.search(r"\b(cp)?3\.?1\d+t\b|freethread|free-thread", text)
    ]
    assert given == []
    for python in CI["jobs"]["test"]["strategy"]["matrix"]["python"]:
        assert re.fullmatch(r"3\.\d+", python)


def test_ci_runs_the_sanitizer_before_a_release() -> None:
    assert {"run": "make sanitize"} in CI["jobs"]["sanitize"]["steps"]
    assert "sanitize" in CI["jobs"]["release"]["needs"]
    makefile = (ROOT / "Makefile").read_text("utf-8")
    recipe = makefile[makefile.index("\nsanitize:") : makefile.index("FUZZ_SECONDS ?=")]
    assert "-p omsgrain-py" in recipe and "libasan" in recipe
    bound = re.findall(r"(\w+\.py)", makefile[makefile.index("BOUND :=") :].split("sanitize:")[0])
    assert len(bound) > 10
    for name in bound:  # the wildcard passes over a file that is not there
        assert list(ROOT.glob(f"tests/*/test_{name}")), name
    assert all(list((ROOT / "tests").rglob(f"test_{name}")) for name in bound)
