# SPDX-License-Identifier: Apache-2.0
"""A store or a file of grains as one HTML page that opens offline.

store, file   where the grains come from, and what verifying them found
tally         what is counted of all of them, in bounded memory
graph         triples as nodes and links; versions as chains
shown         one grain taken apart, for a reader
page          all of it as HTML: page.html, with page.css and the scripts inside
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import omsgrain as og
from omsgrain.inspect.file import of_file
from omsgrain.inspect.page import page
from omsgrain.inspect.store import of_store
from omsgrain.json_values import time_text
from omsgrain.storage.location import DirectoryLocation, Where, location_of

__all__ = [
    "GRAINS",
    "inspect",
    "page",
]

GRAINS: Final = 200
"""How many grains a page shows whole, if it is not told."""


def inspect(
    source: Where, *, grains: int = GRAINS, advance: Callable[[int], None] = lambda done: None
) -> dict[str, Any]:
    """Look at all grains of a store or a file, and verify them.

    Args:
        source: a store; or a file: a container, envelopes in a row, or one blob, which may be
            damaged.
        grains: how many of the newest are shown whole.
        advance: is told how many grains more were looked at.

    Returns:
        What the page shows, as JSON-ready values.

    Raises:
        UnsupportedError: it is none of these.
        StoreError: it is not there (NotFoundError), or cannot be read.
    """
    home = location_of(source)
    if isinstance(home, DirectoryLocation) and home.path.is_file():
        values = of_file(home.path, grains, advance)
    else:
        home.must_exist()
        values = of_store(source, grains, advance)
    name = home.path.name if isinstance(home, DirectoryLocation) else str(source)
    about = {"source": name, "at": time_text(int(time.time()) * 1000), "by": og.__version__}
    return {**about, **values}
