# SPDX-License-Identifier: Apache-2.0
"""Validate documents in files. MIF in JSON-LD is judged here, other formats by ``verify``.

The content of a file says what it is. A file of no known format is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from omsgrain.container.layout import MAGIC
from omsgrain.counts import counted
from omsgrain.errors import FormatError, OmsError, UnsupportedError
from omsgrain.formats import yaml
from omsgrain.formats.json_text import pointer_to
from omsgrain.formats.mif_ld import document as layouts
from omsgrain.formats.mif_ld import lint
from omsgrain.formats.mif_ld.defects import LintFinding, MifLdVerdict, place_of
from omsgrain.formats.mif_ld.directory import files_in, layout_of_file, shape_of_name
from omsgrain.formats.mif_ld.document import SUFFIXES
from omsgrain.formats.mif_ld.records import LIMITS, Kind, Shape
from omsgrain.formats.mif_ld.validate import Mode, judge, memories_in
from omsgrain.formats.problems import MOST, DocumentError, Problem
from omsgrain.formats.table import CONTAINER, FORMATS, sniff_directory, sniff_file
from omsgrain.interchange.verify import VerifyOptions, verify_directory, verify_file

FORMAT: Final = "mif-ld"
_Place = tuple[str, int | None]
_HEAD: Final = 4096
_YAML_MOST: Final = 1 << 20  # bytes of an ontology, as where it is used; more would take minutes
_YAML: Final = re.compile(
    rb"^(?:ontology|entity_types|namespaces|traits|discovery):", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class FileFindings:
    """The defects found in a file."""

    name: str  # of the file
    format: str | None  # what it is; None if that is not known
    documents: int  # how many are in it
    errors: tuple[Problem, ...] = ()  # what is wrong, by place; at most a thousand
    total: int = 0  # how many errors there are
    warnings: tuple[Problem, ...] = ()  # what else is to be said
    exit_code: int = 0  # what the command line exits with for it
    # of the memories in it, what is compared with others; by pointer and line
    dated: tuple[tuple[_Place, lint.Dated], ...] = field(default=(), repr=False, compare=False)

    __repr__ = counted

    def to_dict(self) -> dict[str, Any]:
        """The defects, with the file's own values, as JSON-ready values."""
        return {
            "name": self.name,
            "format": self.format,
            "documents": self.documents,
            "total": self.total,
            "errors": [_told(one) for one in self.errors],
            "warnings": [_told(one, "warning") for one in self.warnings],
        }


class _ValidateOptions(NamedTuple):
    mode: Mode
    kind: Kind | None
    shape: Shape | None
    published: bool

    def judge(self, document: Any) -> MifLdVerdict:
        return judge(document, kind=self.kind, shape=self.shape, mode=self.mode,
                     strict_published=self.published, compare=False)  # fmt: skip

    def dated(
        self, document: Any, file: Path, line: int | None
    ) -> list[tuple[_Place, lint.Dated]]:
        """The values of a document's memories that are compared."""
        if self.mode != "extra":
            return []
        found = memories_in(document, self.kind)
        path = file.absolute().as_posix()
        return [((pointer_to(way), line), lint.dated(one, path)) for way, one in found]


def files_of(paths: Iterable[Path]) -> Iterator[Path]:
    """The files to validate: those that are named, and of a directory those of memories in it."""
    for path in paths:
        if not path.is_dir() or FORMATS[sniff_directory(path)].translated:
            yield path
            continue
        found = [one for one in files_in(path) if one.name.lower().endswith(SUFFIXES)
                 or _is_judged(_format_of(one))]  # fmt: skip
        if not found:
            raise UnsupportedError("no file of memories is in it", found=str(path),
                                   expected=", ".join(SUFFIXES))  # fmt: skip
        yield from found


def validate(
    files: Iterable[Path],
    *,
    mode: Mode = "schema",
    kind: Kind | None = None,
    shape: Shape | None = None,
    strict_published: bool = False,
    advance: Callable[[int], object] = lambda count: None,
) -> list[FileFindings]:
    """Say all that is wrong with the documents in files."""
    asked = _ValidateOptions(mode, kind, shape, strict_published)
    found = []
    for file in files:
        found.append(_validated(file, asked))
        advance(1)
    return _compared(found)


def _compared(found: list[FileFindings]) -> list[FileFindings]:
    """Files with what is to be said of their memories beside one another."""
    dated = (((at, *place), one) for at, file in enumerate(found) for place, one in file.dated)
    late: dict[int, list[Problem]] = {}
    for (at, pointer, line), one in lint.order(dated):
        told = replace(one, pointer=pointer + one.pointer, line=line)
        late.setdefault(at, []).append(told)
    for at, more in late.items():
        warnings = sorted((*found[at].warnings, *more), key=place_of)[:MOST]
        found[at] = replace(found[at], warnings=tuple(warnings))
    return found


def _validated(file: Path, asked: _ValidateOptions) -> FileFindings:
    ours = asked.kind is not None or asked.shape is not None
    try:
        told = None if ours else _format_of(file)
        if told is None or _is_judged(told):
            return _checked(file, asked)
        return _verified(file, told)
    except DocumentError as error:
        return FileFindings(str(file), FORMAT, 0, error.problems, error.total, (), error.exit_code)


def _is_judged(format: str | None) -> bool:
    """Whether documents of a format are judged here, by a mode."""
    known = FORMATS.get(format or "")
    return known is not None and "mode" in known.load_options


def _format_of(file: Path) -> str | None:
    if file.is_dir():
        return sniff_directory(file)
    with suppress(UnsupportedError):
        return sniff_file(file)
    return None


def _verified(file: Path, format: str) -> FileFindings:
    """Judge a document of another format as ``verify`` does."""
    found = (verify_directory if file.is_dir() else verify_file)(file, VerifyOptions())
    errors = [_problem(failure.error) for failure in found.failures]
    warnings = tuple(one for document in found.documents for one in document.warnings)
    totals = [document.total for document in found.documents]
    code = found.failures[0].error.exit_code if found.failures else 0
    count = found.verified if format == CONTAINER else 1
    return FileFindings(str(file), format, count, tuple(errors[:MOST]),
                   max(len(errors), *totals, 0), warnings, code)  # fmt: skip


def _problem(error: OmsError) -> Problem:
    return Problem(error.rule or error.code, error.field or "", error.message, error.expected,
                   error.found, error.line)  # fmt: skip


def _checked(file: Path, asked: _ValidateOptions) -> FileFindings:
    with file.open("rb") as source:
        data = source.read(LIMITS.document + 1)  # one more, so that it is refused
    if data.startswith(MAGIC):
        raise UnsupportedError("a container has no kind and no shape", found=str(file))
    head = data[:_HEAD].removeprefix(b"\xef\xbb\xbf").lstrip()  # of JSON, it is for it to refuse
    is_json = head.startswith((b"{", b"["))
    is_yaml = file.suffix.lower() in (".yaml", ".yml")
    named_so = is_yaml or (asked.kind == "ontology" and not is_json)
    is_markdown = not is_json and not named_so and layouts.layout_of(data) == "markdown"
    if named_so or (not is_json and not is_markdown and _YAML.search(head)):
        tree = yaml.read(data, most=_YAML_MOST, depth=LIMITS.depth)
        return _summed(file, 1, [(None, asked.judge(tree))], (), ())
    layout = layout_of_file(file.name, data)
    if not is_json and not is_markdown and layout is None:
        unknown = LintFinding("MIF-KIND", "", "the file is nothing that is known",
                          hint="JSON, lines of JSON, Markdown or YAML.")  # fmt: skip
        return FileFindings(str(file), None, 0, (unknown,), 1, (), UnsupportedError.exit_code)
    sheet = layouts.read_file(data, layout, shape=asked.shape or shape_of_name(file.name))
    lines: list[tuple[int | None, Any]] = [(None, sheet.tree)]
    if sheet.tree is None:
        lines = [(line, one) for one, (_, line) in zip(sheet.values, sheet.places, strict=True)]
    verdicts = [(line, asked.judge(one)) for line, one in lines]
    dated = tuple(pair for line, one in lines for pair in asked.dated(one, file, line))
    checked = _summed(file, len(sheet.values), verdicts, sheet.problems, sheet.warnings)
    return replace(checked, dated=dated)


def _summed(
    file: Path,
    documents: int,
    verdicts: Iterable[tuple[int | None, MifLdVerdict]],
    problems: tuple[Problem, ...],
    warnings: tuple[Problem, ...],
) -> FileFindings:
    errors, told, total = list(problems), list(warnings), len(problems)
    for line, verdict in verdicts:
        total += verdict.total + len(verdict.dropped)
        errors += _at(line, (*verdict.findings, *verdict.dropped))
        told += _at(line, verdict.warnings)
    errors.sort(key=place_of)
    code = FormatError.exit_code if errors else 0
    most = tuple(errors[:MOST]), total, tuple(told[:MOST])
    return FileFindings(str(file), FORMAT, documents, *most, code)


def _at(line: int | None, problems: Iterable[Problem]) -> Iterator[Problem]:
    for one in problems:
        yield one if line is None else replace(one, line=line)


def _told(problem: Problem, severity: str = "error") -> dict[str, Any]:
    values = problem.to_dict()
    told = {"code": values.pop("rule"), "severity": severity, **values}
    if isinstance(problem, LintFinding) and problem.value is not None:
        told["got"] = problem.value
    return told
