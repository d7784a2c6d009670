# SPDX-License-Identifier: Apache-2.0
"""The pictures are readable: texts fit, nothing overlaps, and each is said in words too."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import combinations
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest

from support.paths import ROOT

IMAGES = ROOT / "docs/images"
SVG = "{http://www.w3.org/2000/svg}"
#: Left, top, right, bottom.
Area = tuple[float, float, float, float]


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_images", ROOT / "docs/make_images.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules["make_images"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MADE = load()
PICTURES = pytest.mark.parametrize("picture", MADE.PICTURES, ids=lambda one: one.name)


def area(part: Any) -> Area:
    """Where a box or a label is."""
    if isinstance(part, MADE.Box):
        return (part.x, part.y, part.x + part.width, part.y + part.height)
    wide = width(part.style, part.text)
    left = part.x - {"start": 0.0, "middle": wide / 2, "end": wide}[part.at]
    return (left, part.y - 12, left + wide, part.y + 4)


def width(kind: str, text: str) -> float:
    letter: float = MADE.SMALL_LETTER if kind == "small" else MADE.LETTER
    return letter * len(text)


def texts(box: Any) -> Iterator[Area]:
    """Where the lines in a box are."""
    for kind, line, x, y in box.lines:
        left = x if box.style == "group" else x - width(kind, line) / 2
        yield (left, y - 12, left + width(kind, line), y + 4)


def inside(one: Area, other: Area) -> bool:
    return one[0] >= other[0] and one[1] >= other[1] and one[2] <= other[2] and one[3] <= other[3]


def overlap(one: Area, other: Area) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def parts(picture: Any, *kinds: type) -> list[Any]:
    return [part for part in picture.parts if isinstance(part, kinds)]


@PICTURES
def test_all_is_inside(picture: Any) -> None:
    whole = (4, 4, picture.width - 4, picture.height - 4)
    for part in parts(picture, MADE.Box, MADE.Label):
        assert inside(area(part), whole), part
    for arrow in parts(picture, MADE.Arrow):
        assert all(inside((x, y, x, y), whole) for x, y in arrow.points), arrow


@PICTURES
def test_texts_fit_into_their_boxes(picture: Any) -> None:
    for box in parts(picture, MADE.Box):
        left, top, right, bottom = area(box)
        for line in texts(box):
            assert inside(line, (left + 4, top + 2, right - 4, bottom - 2)), box


@PICTURES
def test_nothing_overlaps(picture: Any) -> None:
    boxes = parts(picture, MADE.Box)
    for one, other in combinations(boxes, 2):
        if one.style == "group":  # drawn before what is in it
            assert inside(area(other), area(one)) or not overlap(area(one), area(other))
            assert not any(overlap(line, area(other)) for line in texts(one)), (one, other)
        else:
            assert not overlap(area(one), area(other)), (one, other)
    for label in parts(picture, MADE.Label):
        for box in boxes:
            hidden = box.style != "group" and overlap(area(label), area(box))
            assert not hidden, (label, box)
    for one, other in combinations(parts(picture, MADE.Label), 2):
        assert not overlap(area(one), area(other)), (one, other)


@PICTURES
def test_a_picture_is_small_and_says_itself_in_words(picture: Any) -> None:
    text = (IMAGES / f"{picture.name}.svg").read_text("utf-8")
    assert len(text) < 8_000
    root = ElementTree.fromstring(text)
    assert root.attrib["role"] == "img"
    named = {one.attrib["id"] for one in root if "id" in one.attrib}
    assert named == set(root.attrib["aria-labelledby"].split())
    assert all(root.findtext(f"{SVG}{tag}") for tag in ("title", "desc"))
    styles = root.findtext(f"{SVG}style") or ""
    light, dark = styles.split("@media (prefers-color-scheme: dark)")
    assert set(re.findall(r"^\.?\w+", dark, re.MULTILINE)) <= set(
        re.findall(r"^\.?\w+", light, re.MULTILINE)
    )
    used = {one.attrib["class"] for one in root.iter() if "class" in one.attrib}
    assert used <= set(re.findall(r"^\.(\w+)", light, re.MULTILINE))


def test_the_files_are_what_the_script_draws() -> None:
    subprocess.run([sys.executable, ROOT / "docs/make_images.py", "--check"], check=True)


def test_each_picture_is_on_a_page_with_its_title() -> None:
    pages = "".join(page.read_text("utf-8") for page in ROOT.glob("docs/*.md"))
    for picture in MADE.PICTURES:
        assert f"![{picture.title}](images/{picture.name}.svg)" in pages
