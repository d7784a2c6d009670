# SPDX-License-Identifier: Apache-2.0
"""Plain words: counts the phrases that readers stumble over, and refuses more of them.

It reads the comments and texts of the package (docstrings, help, messages), the pages, and the
comments of the Rust sources. The ceilings only go down.
`python tests/words.py --list WORD` prints each place.
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "python/omsgrain"
PAGES = [
    page
    for page in [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
    if page.parent.name != "reference"  # made of docstrings, which are read where they are
]
RUST = [path for path in sorted(ROOT.glob("rust/**/*.rs")) if "target" not in path.parts]
RUST_COMMENT = re.compile(r"(?:^|\s)//[/!]?(?:\s(.*)|$)")
GENERATED = {"conformance.md", "fields.md"}

#: Phrase -> how it is found in a comment, a text or a paragraph.
PHRASES = {
    "stand": r"\bstands?\b(?!-)",
    "anew": r"\banew\b",
    "told": r"\btold\b",
    "nobody": r"\bnobody\b",
    "whose it is": r"\bwhose (?:it is|they are)\b",
    "a free relative as subject": (
        r"(?:^|\. )(?:What|Who|Whoever|Whatever|Whose|Of what) (?!is\b.*\?)[a-z]"
    ),
}
#: Phrase -> how often it may occur in the package and in the pages.
CEILINGS = {
    "stand": (7, 0),
    "anew": (0, 0),
    "told": (7, 0),
    "nobody": (0, 0),
    "whose it is": (1, 0),
    "a free relative as subject": (18, 0),
}

#: Phrase -> how often it may occur in the comments of the Rust sources.
RUST_CEILINGS = dict.fromkeys(CEILINGS, 0)


def texts(file: Path) -> Iterator[tuple[int, str]]:
    """Yield the comments and string literals of a module, with their lines."""
    with tokenize.open(file) as stream:
        for token in tokenize.generate_tokens(io.StringIO(stream.read()).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string.lstrip("#: ")
            elif token.type == tokenize.STRING:
                for number, line in enumerate(token.string.splitlines(), token.start[0]):
                    yield number, line.strip(" \"'rbfRBF")


def rust_comments(file: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of the comments of a Rust source."""
    for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
        if found := RUST_COMMENT.search(line):
            yield number, (found[1] or "").lstrip("*- ")


def paragraphs(page: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a page outside of blocks, headings and lists of contents."""
    inside = False
    for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
        if line.startswith("```"):
            inside = not inside
        elif not inside and not line.startswith(("#", "- [")):
            yield number, line.lstrip("-*#|> 0123456789.")


def places() -> dict[str, tuple[list[str], list[str], list[str]]]:
    """Return where each phrase occurs: in the package, in the pages, and in Rust comments."""
    patterns = {phrase: re.compile(pattern) for phrase, pattern in PHRASES.items()}
    found: dict[str, tuple[list[str], list[str], list[str]]] = {
        phrase: ([], [], []) for phrase in PHRASES
    }
    sources = (
        (sorted(PACKAGE.rglob("*.py")), texts),
        ([page for page in PAGES if page.name not in GENERATED], paragraphs),
        (RUST, rust_comments),
    )
    for number, (files, read) in enumerate(sources):
        for file in files:
            for line, text in read(file):
                for phrase, pattern in patterns.items():
                    place = f"{file.relative_to(ROOT)}:{line}: {text.strip()[:90]}"
                    found[phrase][number].extend(place for _ in pattern.finditer(text))
    return found


def main() -> int:
    """Print what is over its ceiling; 1 if anything is."""
    found = places()
    if sys.argv[1:2] == ["--list"]:
        print(*[place for part in found[sys.argv[2]] for place in part], sep="\n")
        return 0
    failed = 0
    for phrase, ceilings in CEILINGS.items():
        for where, there, ceiling in zip(
            ("package", "pages", "Rust sources"),
            found[phrase],
            (*ceilings, RUST_CEILINGS[phrase]),
            strict=True,
        ):
            if len(there) > ceiling:
                failed = 1
                print(f"{phrase!r} occurs {len(there)} times in the {where}, of {ceiling}:")
                print(*there[-5:], sep="\n")
    return failed


if __name__ == "__main__":
    sys.exit(main())
