# SPDX-License-Identifier: Apache-2.0
"""Hints of the command line for half a word or a wrong one."""

from __future__ import annotations

import click
import pytest
from click.shell_completion import ShellComplete

from omsgrain.cli import omsgrain
from omsgrain.cli.command import contexts
from omsgrain.errors import packages_of
from support.shell import USAGE, Shell


@pytest.mark.parametrize(
    ("typed", "near"), [(["serch"], "search"), (["token", "addd"], "add"), (["qwzx"], "")]
)
def test_an_unknown_command_names_the_nearest(shell: Shell, typed: list[str], near: str) -> None:
    with pytest.raises(click.UsageError) as refused:
        omsgrain.main(typed, standalone_mode=False)
    assert ("did you mean " + near in str(refused.value)) == bool(near)
    assert shell(*typed) == USAGE


@pytest.mark.parametrize(
    ("typed", "begun", "expected"),
    [
        (["query", "s.omsg", "--type"], "be", ["belief"]),
        (["convert", "--format"], "mif", ["mif2", "mif1", "mif-ld"]),
        (["query", "s.omsg", "--status"], "un", ["unverified"]),
        (["import", "--format"], "aim", ["aimem"]),
        ([], "sear", ["search"]),
    ],
)
def test_values_complete(typed: list[str], begun: str, expected: list[str]) -> None:
    complete = ShellComplete(omsgrain, {}, "omsgrain", "_OMSGRAIN_COMPLETE")
    assert [one.value for one in complete.get_completions(typed, begun)] == expected


@pytest.mark.parametrize(("extra", "package"), [("search", "usearch"), ("arrow", "pyarrow")])
def test_a_missing_extra_says_what_to_install(extra: str, package: str) -> None:
    assert f"pip install '{package}" in packages_of(extra)


def test_presets_complete_wherever_they_are_named() -> None:
    found = set[str]()
    for context in contexts(omsgrain, "omsgrain"):
        for param in context.command.get_params(context):
            if param.name not in ("policy", "presets"):
                continue
            found.add(context.command_path)
            for begun, expected in (("h", [("hipaa", "plain")]), ("own", [("own", "file")])):
                told = param.shell_complete(context, begun)
                assert [(one.value, one.type) for one in told] == expected, context.command_path
            assert len(param.shell_complete(context, "")) == 4
    assert {"omsgrain policy", "omsgrain sync", "omsgrain due", "omsgrain export"} < found
