# SPDX-License-Identifier: Apache-2.0
"""Names of what a command makes. ``-`` is none: a file called so is the last that anyone wants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

_DASH = "-"
_INSTEAD = "'-' names no file here; for one that is called so write ./-"


class NewPath(click.Path):
    """The path of a file or a directory that is written."""

    def __init__(
        self, *, stdout: bool = False, dir_okay: bool = False, file_okay: bool = True
    ) -> None:
        super().__init__(dir_okay=dir_okay, file_okay=file_okay, path_type=Path)
        self._stdout = stdout

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read it; None is stdout."""
        if value == _DASH:
            return None if self._stdout else self.fail(_INSTEAD, param, ctx)
        if value == "":  # which Python takes for the directory
            self.fail("a name is expected", param, ctx)
        return super().convert(value, param, ctx)


def refuse_dash(value: str) -> None:
    """Refuse ``-`` where a path or something else can stand."""
    if value == _DASH:
        raise click.UsageError(_INSTEAD)
