# SPDX-License-Identifier: Apache-2.0
"""Draw docs/images/*.svg from the labels and places in this file, for light and dark pages.

``--check`` writes nothing and exits 1 if a picture is out of date. tests/docs/test_images.py
checks that texts fit into their boxes and nothing overlaps.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Literal

FOLDER = Path(__file__).with_name("images")
#: Pixels from one line of text to the next, and of a letter at most, in the size of a label.
LEADING, LETTER, SMALL_LETTER = 18, 7.6, 6.6
STYLE = """\
text { font: 14px system-ui, "Segoe UI", Roboto, Helvetica, Arial, sans-serif; fill: #1f2328 }
.small { font-size: 12px; fill: #57606a }
.head { font-weight: 600 }
.box { fill: #f6f8fa; stroke: #8c959f }
.blue { fill: #ddf4ff; stroke: #0969da }
.green { fill: #dafbe1; stroke: #1a7f37 }
.gone { fill: none; stroke: #cf222e; stroke-dasharray: 5 4 }
.group { fill: none; stroke: #8c959f }
.option { fill: none; stroke: #8c959f; stroke-dasharray: 5 4 }
.line { fill: none; stroke: #57606a; stroke-width: 1.5 }
.time { fill: none; stroke: #8c959f; stroke-dasharray: 3 4 }
.tip { fill: #57606a }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.small { fill: #9da7b3 }
.box { fill: #21262d; stroke: #6e7681 }
.blue { fill: #0c2d6b; stroke: #58a6ff }
.green { fill: #033a16; stroke: #3fb950 }
.gone { stroke: #ff7b72 }
.line { stroke: #9da7b3 }
.tip { fill: #9da7b3 }
}"""

Style = Literal["box", "blue", "green", "gone", "group", "option"]


@dataclass(frozen=True)
class Box:
    """A box; its first line is the heading of a group, or a label, the others are small."""

    x: int
    y: int
    width: int
    height: int
    text: str
    style: Style = "box"

    @property
    def lines(self) -> list[tuple[str, str, int, int]]:
        """Class, text and place of each line; those of a group begin at its left upper corner."""
        first, *more = self.text.split("\n")
        if self.style == "group":
            return [("head", first, self.x + 12, self.y + 22)]
        middle = self.x + self.width // 2
        top = self.y + (self.height - LEADING * len(more)) // 2 + 5
        rows = [("", first), *(("small", line) for line in more)]
        return [(kind, line, middle, top + LEADING * i) for i, (kind, line) in enumerate(rows)]


@dataclass(frozen=True)
class Arrow:
    """A line with a tip, through points."""

    points: tuple[tuple[int, int], ...]
    both: bool = False
    tip: bool = True
    style: Literal["line", "time"] = "line"


@dataclass(frozen=True)
class Label:
    """A text that stands free; ``at`` says which end of it is at the place."""

    x: int
    y: int
    text: str
    at: Literal["start", "middle", "end"] = "start"
    style: Literal["", "small", "head"] = "small"


@dataclass(frozen=True)
class Picture:
    """A picture: its size, what it shows in words, and its parts in the order of drawing."""

    name: str
    width: int
    height: int
    title: str
    says: str
    parts: tuple[Box | Arrow | Label, ...]


LAYOUT = Picture(
    "store-layout",
    720,
    440,
    "The layout of a store",
    "A store is a directory. data.mdb holds four kinds of tables: BLOBS, INDEX, STATE and BLIND."
    " A commit writes blobs and states. Index rows wait in the memtable of the process and are"
    " written in sorted runs. Text and vector indexes are optional files. The key file and the"
    " master key are kept elsewhere.",
    (
        Box(16, 16, 440, 408, "memory.omsg/", "group"),
        Box(32, 52, 408, 216, "data.mdb", "group"),
        Box(48, 88, 180, 76, "BLOBS\nwritten at the commit", "blue"),
        Box(244, 88, 180, 76, "INDEX\nfollows from the blobs", "blue"),
        Box(48, 176, 180, 76, "STATE\nstates, holds, audit trail", "blue"),
        Box(244, 176, 180, 76, "BLIND\nfinds encrypted grains", "blue"),
        Box(32, 284, 124, 44, "head"),
        Box(174, 284, 124, 44, "writer.lock"),
        Box(316, 284, 124, 44, "lock.mdb"),
        Box(32, 344, 195, 64, "text.db\nmade by a search", "option"),
        Box(245, 344, 195, 64, "vectors-1.usearch\nmade by a search", "option"),
        Box(520, 16, 184, 196, "a process", "group"),
        Box(536, 52, 152, 56, "put\none commit"),
        Arrow(((536, 70), (440, 70))),
        Label(488, 62, "commit", "middle"),
        Box(536, 128, 152, 68, "memtable\nnewest index rows"),
        Arrow(((536, 150), (424, 150))),
        Label(488, 142, "runs", "middle"),
        Box(520, 236, 184, 188, "kept elsewhere", "group"),
        Box(536, 272, 152, 60, "key file\na key for each user", "green"),
        Box(536, 348, 152, 60, "master key\nwraps the key file", "green"),
    ),
)

TIMES = Picture(
    "supersession",
    720,
    316,
    "A supersession and its two times",
    "The store learns on 15 January that Ada prefers green tea, since 1 January. On 1 February it"
    " learns that she prefers coffee, since 20 January, and the second grain supersedes the first."
    " A query with known_at 25 January finds green tea, the answer of that day. A query with"
    " valid_at 25 January finds coffee.",
    (
        Label(20, 48, "green tea", style=""),
        Label(20, 68, "superseded"),
        Label(20, 144, "coffee", style=""),
        Label(20, 164, "current"),
        Box(160, 16, 540, 34, "true in the world, from valid_from", "blue"),
        Box(290, 56, 220, 34, "known to the store", "green"),
        Box(340, 112, 360, 34, "true in the world, from valid_from", "blue"),
        Box(510, 152, 190, 34, "known to the store", "green"),
        Arrow(((400, 90), (400, 112)), tip=False, style="time"),
        Arrow(((400, 146), (400, 238)), tip=False, style="time"),
        Arrow(((140, 214), (704, 214))),
        Label(160, 234, "1 Jan", "middle"),
        Label(290, 234, "15 Jan, put", "middle"),
        Label(510, 234, "1 Feb, supersede", "middle"),
        Label(682, 234, "today", "middle"),
        Label(400, 256, "25 Jan", "middle", "head"),
        Label(
            400, 280, "known_at finds green tea: what the store held true on that day", "middle"
        ),
        Label(400, 302, "valid_at finds coffee: what was true on that day", "middle"),
    ),
)

ERASURE = Picture(
    "erasure",
    720,
    484,
    "The erasure of a person",
    "Before the erasure the key file has a key for Mira and one for Noor, and the store and its"
    " backup hold grains that these keys encrypt. The erasure destroys Mira's key. Her encrypted"
    " grains are unreadable then, in the store and in the backup. Her unencrypted grains are"
    " removed from the store, and a tombstone stays; older backups still have them. Noor's grains"
    " stay readable. An old key file with its master key still opens older backups.",
    (
        Label(180, 28, "before", "middle", "head"),
        Label(540, 28, "after", "middle", "head"),
        Box(16, 44, 328, 96, "key file", "group"),
        Box(32, 80, 140, 44, "Mira's key", "green"),
        Box(188, 80, 140, 44, "Noor's key", "green"),
        Box(16, 156, 328, 136, "store", "group"),
        Box(32, 192, 92, 84, "Mira\nencrypted", "blue"),
        Box(134, 192, 92, 84, "Mira\nunencrypted"),
        Box(236, 192, 92, 84, "Noor\nencrypted", "blue"),
        Box(16, 308, 328, 136, "an older backup", "group"),
        Box(32, 344, 92, 84, "Mira\nencrypted", "blue"),
        Box(134, 344, 92, 84, "Mira\nunencrypted"),
        Box(236, 344, 92, 84, "Noor\nencrypted", "blue"),
        Arrow(((350, 220), (370, 220))),
        Box(376, 44, 328, 96, "key file", "group"),
        Box(392, 80, 140, 44, "destroyed", "gone"),
        Box(548, 80, 140, 44, "Noor's key", "green"),
        Box(376, 156, 328, 136, "store", "group"),
        Box(392, 192, 92, 84, "Mira\nunreadable", "gone"),
        Box(494, 192, 92, 84, "tombstone\nan HMAC"),
        Box(596, 192, 92, 84, "Noor\nencrypted", "blue"),
        Box(376, 308, 328, 136, "an older backup", "group"),
        Box(392, 344, 92, 84, "Mira\nunreadable", "gone"),
        Box(494, 344, 92, 84, "Mira\nunencrypted"),
        Box(596, 344, 92, 84, "Noor\nencrypted", "blue"),
        Label(
            360, 470, "An old key file with its master key still opens older backups.", "middle"
        ),
    ),
)

SYNC = Picture(
    "sync",
    720,
    424,
    "A sync of two stores",
    "The robot's store and the hub greet each other with their ids, the end of their feeds and"
    " their positions. They exchange holds and tombstones that differ. Then each sends the grains"
    " and states that the other lacks. The receiver commits each batch together with its position,"
    " so that the next sync resumes after an interruption.",
    (
        Box(40, 16, 160, 44, "robot.omsg", "blue"),
        Box(520, 16, 160, 44, "hub.omsg", "blue"),
        Arrow(((120, 60), (120, 408)), tip=False, style="time"),
        Arrow(((600, 60), (600, 408)), tip=False, style="time"),
        Label(360, 88, "hello: id of the store, namespaces", "middle"),
        Arrow(((124, 98), (596, 98))),
        Label(360, 130, "greeting: id, end of the feed, position in the other's feed", "middle"),
        Arrow(((596, 140), (124, 140))),
        Label(360, 180, "holds, then tombstones, where they differ", "middle"),
        Arrow(((124, 190), (596, 190)), both=True),
        Label(360, 230, "batches: grains and states after the position", "middle"),
        Arrow(((124, 240), (596, 240))),
        Box(500, 256, 200, 52, "one commit\nbatch and position", "green"),
        Label(360, 334, "batches: grains and states after the position", "middle"),
        Arrow(((596, 344), (124, 344))),
        Box(20, 360, 200, 52, "one commit\nbatch and position", "green"),
    ),
)

PICTURES = (LAYOUT, TIMES, ERASURE, SYNC)


def text(kind: str, x: int, y: int, says: str, at: str) -> str:
    """Return a text."""
    named = f' class="{kind}"' if kind else ""
    anchor = "" if at == "start" else f' text-anchor="{at}"'
    return f'<text{named} x="{x}" y="{y}"{anchor}>{escape(says, quote=False)}</text>'


def drawn(part: Box | Arrow | Label) -> Iterator[str]:
    """Yield the elements of a part."""
    if isinstance(part, Label):
        yield text(part.style, part.x, part.y, part.text, part.at)
    elif isinstance(part, Box):
        yield (
            f'<rect class="{part.style}" x="{part.x}" y="{part.y}" width="{part.width}"'
            f' height="{part.height}" rx="6"/>'
        )
        at = "start" if part.style == "group" else "middle"
        yield from (text(kind, x, y, line, at) for kind, line, x, y in part.lines)
    else:
        points = " ".join(f"{x},{y}" for x, y in part.points)
        tips = ' marker-end="url(#tip)"' * part.tip + ' marker-start="url(#tip)"' * part.both
        yield f'<polyline class="{part.style}" points="{points}"{tips}/>'


def svg(picture: Picture) -> str:
    """Return a picture."""
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {picture.width} {picture.height}"'
        f' width="{picture.width}" height="{picture.height}" role="img"'
        ' aria-labelledby="title desc">',
        f'<title id="title">{escape(picture.title, quote=False)}</title>',
        f'<desc id="desc">{escape(picture.says, quote=False)}</desc>',
        f"<style>\n{STYLE}\n</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7"'
        ' markerHeight="7" orient="auto-start-reverse"><path class="tip" d="M0 0 8 4 0 8z"/>'
        "</marker></defs>",
        *(line for part in picture.parts for line in drawn(part)),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Draw the pictures, or compare them with ``--check``."""
    if arguments not in ([], ["--check"]):
        print("usage: make_images.py [--check]", file=sys.stderr)
        return 2
    pictures = {FOLDER / f"{picture.name}.svg": svg(picture) for picture in PICTURES}
    if arguments:
        old = {path: path.read_text("utf-8") for path in FOLDER.glob("*")}
        if old != pictures:
            print("docs/images is out of date: run docs/make_images.py", file=sys.stderr)
        return int(old != pictures)
    FOLDER.mkdir(exist_ok=True)
    for path, image in pictures.items():
        path.write_text(image, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
