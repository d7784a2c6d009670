# SPDX-License-Identifier: Apache-2.0
"""The terminal of a command: lines, tables and progress, styled if rich is installed."""

from __future__ import annotations

import shutil
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console as RichConsole

PLAIN_WIDTH = 140  # of tables when stdout is a file: wide enough for an address beside a message

_STEP = 0.1  # seconds between two states of a plain progress line


@dataclass(frozen=True, slots=True)
class TableColumn:
    name: str  # its head
    # the width of each cell; longer text ends in an ellipsis. None: as wide as its text
    width: int | None = None
    cut: bool = False  # whether cells stay on one line and end in an ellipsis where the line ends


@dataclass(frozen=True, slots=True)
class TextTable:
    """Rows of safe text under named columns."""

    columns: tuple[TableColumn, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)

    @classmethod
    def of(cls, *names: str) -> TextTable:
        """Make a table whose columns only have names."""
        return cls(tuple(map(TableColumn, names)))


class Console:
    """A stream for people, without markup: the content of a grain is never a style."""

    def __init__(self) -> None:
        self._rich = _rich_console()

    def print(self, text: str = "", style: str | None = None) -> None:
        if self._rich is None:
            click.echo(text)
        else:
            self._rich.print(text, style=style, soft_wrap=True)

    def table(self, table: TextTable) -> None:
        if self._rich is None:
            width = shutil.get_terminal_size().columns if sys.stdout.isatty() else PLAIN_WIDTH
            click.echo("\n".join(plain_lines(table, width)))
            return
        from rich.table import Table as RichTable
        from rich.text import Text

        shown = RichTable(box=None, pad_edge=False)
        for column in table.columns:
            fixed = column.width is not None
            shown.add_column(column.name, width=column.width, no_wrap=fixed, overflow="ellipsis")
        for row in table.rows:
            shown.add_row(
                *(
                    Text(cell, no_wrap=True, overflow="ellipsis") if column.cut else cell
                    for column, cell in zip(table.columns, row, strict=True)
                )
            )
        self._rich.print(shown)


def _rich_console(err: bool = False) -> RichConsole | None:
    try:
        from rich.console import Console as RichConsole
    except ImportError:
        return None

    class Pipe(RichConsole):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # rich would exit with 1

    stream = sys.stderr if err else sys.stdout
    width = None if stream.isatty() else PLAIN_WIDTH
    return Pipe(file=stream, width=width, markup=False, highlight=False, emoji=False)


def plain_lines(table: TextTable, width: int) -> Iterator[str]:
    """Lay out a table without rich: padded columns, one line a row."""
    heads = tuple(column.name for column in table.columns)
    widths = [
        column.width or max(cells(row[at]) for row in (heads, *table.rows))
        for at, column in enumerate(table.columns)
    ]
    for at, column in enumerate(table.columns):
        if column.cut:
            others = sum(widths) - widths[at] + 2 * (len(widths) - 1)
            widths[at] = max(cells(column.name), min(widths[at], width - others))
    for row in (heads, *table.rows):
        shown = (
            _fitted(cell, room, column.cut or column.width is not None)
            for cell, room, column in zip(row, widths, table.columns, strict=True)
        )
        yield "  ".join(shown).rstrip()


def _fitted(text: str, width: int, cut: bool) -> str:
    """Pad a text; cut it if it is too long for its column."""
    if cut and cells(text) > width:
        while cells(text) > width - 1:
            text = text[:-1]
        text += "…"
    return text + " " * (width - cells(text))


def cells(text: str) -> int:
    """Count the places that a text takes in a terminal."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


@contextmanager
def progress(total: int | None, unit: str, quiet: bool) -> Iterator[Callable[[int], None]]:
    """Show progress on stderr if that is a terminal; yield the function that advances it."""
    if quiet or not sys.stderr.isatty():
        yield lambda done: None
        return
    name = unit if unit != "bytes" else "reading"
    console = _rich_console(err=True)
    if console is None:
        line = _ProgressLine(total, name)
        try:
            yield line.advance
        finally:
            line.clear()
        return
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    count = DownloadColumn() if unit == "bytes" else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), count, TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(name, total=total)
        yield lambda done: bar.advance(task, done)


class _ProgressLine:
    """One line on stderr that counts; it is removed at the end."""

    def __init__(self, total: int | None, name: str) -> None:
        self._total = "" if total is None else f" of {total:,}"
        self._name = name
        self._done = 0
        self._next = 0.0
        click.echo(f"{name} ...", nl=False, err=True)

    def advance(self, done: int) -> None:
        self._done += done
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _STEP
            click.echo(f"\r{self._name} {self._done:,}{self._total}", nl=False, err=True)

    def clear(self) -> None:
        click.echo("\r\x1b[K", nl=False, err=True)
