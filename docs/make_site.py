# SPDX-License-Identifier: Apache-2.0
"""Hooks of MkDocs: pages from outside docs/, generated pages, links.

Pages are read on the web, in a checkout and in the site, so they link to files by their places in
the checkout. The hooks turn such links into links inside the site, and copy linked files that are
not pages.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))

import make_commands  # noqa: E402

#: Pages from outside docs/.
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "examples/README.md": "examples.md",
    "test_vectors/README.md": "vectors.md",
    "benches/RESULTS.md": "speed.md",
}
PLACES = {page: file for file, page in PAGES.items()}
ALONG = "files"  # the folder of linked files that are not pages
LINK = re.compile(r"(?<=\]\()(?!\w+:|#|/)([^)#\s]+)")


def slug(text: str, separator: str) -> str:
    """Return the anchor of a heading, as repository hosts make it."""
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", separator)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Make anchors as the links in the pages expect them."""
    config.mdx_configs["toc"]["slugify"] = slug
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from outside docs/, and the files that pages link to."""
    for file, page in PAGES.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / file)))
    files.append(File.generated(config, "reference/commands.md", content=make_commands.content()))
    if (own := files.get_file_from_path("search.md")) is not None:
        own.dest_uri = own.url = "searching.html"  # the theme uses search.html for its results
    along = {
        there
        for file in files.documentation_pages()
        if (place := _place(file.src_uri)) is not None
        for target in LINK.findall((ROOT / place).read_text("utf-8"))
        if (there := _there(place, target)) is not None and _page(there) is None
    }
    for there in sorted(along):
        path = f"{ALONG}/{there}"
        files.append(File.generated(config, path, abs_src_path=str(ROOT / there)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links into links inside the site, and mark Python sessions as such."""
    markdown = re.sub(r"^```python\n(?=>>> )", "```pycon\n", markdown, flags=re.MULTILINE)
    place = _place(page.file.src_uri)
    if place is None:
        return markdown

    def inside(match: re.Match[str]) -> str:
        there = _there(place, match[1])
        if there is None:
            return match[1]
        target = _page(there) or f"{ALONG}/{there}"
        return os.path.relpath(target, os.path.dirname(page.file.src_uri) or ".")

    return LINK.sub(inside, markdown)


def _place(page: str) -> str | None:
    """Return the file of a page in the checkout; None for a generated page."""
    file = PLACES.get(page, f"docs/{page}")
    return file if (ROOT / file).is_file() else None


def _there(place: str, target: str) -> str | None:
    """Return the file that a link leads to; None if there is none, as in code."""
    there = os.path.normpath(os.path.join(os.path.dirname(place), target))
    return there if (ROOT / there).is_file() else None


def _page(there: str) -> str | None:
    """Return the page or the picture of a file in the checkout; None if the site has neither."""
    if there in PAGES:
        return PAGES[there]
    inside = there.startswith("docs/") and there.endswith((".md", ".svg"))
    return there.removeprefix("docs/") if inside else None
