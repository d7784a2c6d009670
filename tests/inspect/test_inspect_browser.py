# SPDX-License-Identifier: Apache-2.0
"""The page of ``omsgrain inspect`` in a browser."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from test_inspect import HOSTILE

import omsgrain as og
from omsgrain import inspect
from omsgrain.crypto import Ed25519Signer
from support.servers.chromium import Seen, look
from support.servers.debian import Unavailable
from support.shell import belief

pytestmark = pytest.mark.services


class Elements(HTMLParser):
    """Parts of a page: names of its elements, their ids, its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.ids: set[str] = set()
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.ids |= {value for name, value in attrs if name == "id" and value}

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    home = tmp_path_factory.mktemp("page")
    with og.open(home / "memory.omsg") as grains:
        for n in range(40):
            grains.put(
                belief(n % 7, relation="saw", object=f"s{n % 5}", created_at=n * 86_400_000)
            )
        first = grains.put(belief(90, object="tea"))
        grains.supersede(first, belief(90, object=HOSTILE))
        grains.sign(first, Ed25519Signer.generate())
    page = home / "page.html"
    page.write_text(inspect.page(inspect.inspect(home / "memory.omsg")), "utf-8")
    try:
        return look(page, home)
    except Unavailable as why:
        pytest.skip(str(why))


def test_every_part_is_drawn(seen: Seen) -> None:
    found = Elements(seen.dom)
    parts = {"verification", "types", "sensitivity", "graph", "chains", "signatures", "list"}
    assert parts <= found.ids
    assert found.names.count("circle") == 10 and found.names.count("details") == 43
    assert "✓ 43 verified" in found.text and "43 shown of 43" in found.text


def test_no_script_complains(seen: Seen) -> None:
    assert seen.said == ""


def test_content_of_grains_stays_text(seen: Seen) -> None:
    found = Elements(seen.dom)
    assert "img" not in found.names and "<title>taken" not in seen.dom
    assert "<img src=x onerror=alert(1)>\\u202e" in found.text


def test_it_has_a_picture(seen: Seen) -> None:
    assert seen.picture.startswith(b"\x89PNG") and len(seen.picture) > 20_000
