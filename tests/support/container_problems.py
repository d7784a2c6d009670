# SPDX-License-Identifier: Apache-2.0
"""The problems of a container, by every way of reading it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from containers import saved
from omsgrain import container
from omsgrain.container import ContainerProblem
from omsgrain.errors import OmsError


def problems(room: Path, data: bytes) -> list[ContainerProblem]:
    """What `verify` finds. Raising gives the first of it, and reading gives nothing but errors."""
    path = saved(room, data)
    found = container.verify(path, errors="collect").problems
    if found:
        with pytest.raises(OmsError) as caught:
            container.verify(path)
        assert (caught.value.code, str(caught.value)) == (found[0].error.code, str(found[0]))
        assert all(0 <= (p.error.offset or 0) for p in found)
    try:
        with container.read(path) as opened:
            for number in range(min(len(opened), 20)):
                attempt(partial(opened.__getitem__, number))
            attempt(lambda: list(opened))
            attempt(lambda: opened.manifest)
    except OmsError:
        pass
    return found


def attempt(use: Callable[[], object]) -> None:
    try:
        use()
    except OmsError as error:
        assert error.offset is not None
