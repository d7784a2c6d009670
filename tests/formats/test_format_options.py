# SPDX-License-Identifier: Apache-2.0
"""The types of `load` and `dump` have every option of every format; mypy refuses any other."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any

import pytest

import omsgrain as og
from omsgrain import formats
from omsgrain.formats.convert import convert
from omsgrain.formats.table import DumpOptions, LoadOptions

EVENT = og.Event(content="hello", created_at=1768471200000)


def options(*calls: Callable[..., Any]) -> set[str]:
    """The arguments by name alone."""
    return {
        name
        for call in calls
        for name, one in signature(call).parameters.items()
        if one.kind is Parameter.KEYWORD_ONLY
    }


def test_the_types_have_all_options() -> None:
    every = formats.FORMATS.values()
    assert options(*(one.load for one in every)) == set(LoadOptions.__annotations__)
    found = options(convert.dump)
    assert found | {"tenant_id"} == set(DumpOptions.__annotations__)  # for `dump` a user_id


def test_an_unknown_option_is_refused() -> None:
    """At the call, and by mypy, which reports every ignore that is not needed."""
    bundle = formats.dump([EVENT], format="aimem", user_id="ada").data
    with pytest.raises(TypeError):
        formats.load(bundle, exct=True)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        formats.dump([EVENT], format="aimem", user="ada")  # type: ignore[call-arg]
