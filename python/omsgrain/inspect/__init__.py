# SPDX-License-Identifier: Apache-2.0
"""A store or a file of grains as one HTML page that opens offline.

store, file   where the grains come from, and the result of verification
tally         counts over all grains, in bounded memory
graph         triples as nodes and links; versions as chains
explain       the meaning of each byte of a grain
shown         one grain, explained for a reader
page          all of it as HTML: page.html, with page.css and the scripts inside
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import omsgrain as og
from omsgrain.inspect.file import of_file
from omsgrain.inspect.page import page
from omsgrain.inspect.store import Opening, of_store
from omsgrain.json_values import time_text
from omsgrain.storage.location import DirectoryLocation, Where, location_of

if TYPE_CHECKING:
    from omsgrain.crypto.did import Resolver

__all__ = [
    "GRAINS",
    "inspect",
    "page",
]

GRAINS: Final = 200
"""How many grains a page explains by default."""


def inspect(
    source: Where,
    *,
    opening: Opening | None = None,
    resolver: Resolver | None = None,
    grains: int = GRAINS,
    advance: Callable[[int], None] = lambda done: None,
) -> dict[str, Any]:
    """Read and verify a store or a file, and return the content of its page as JSON-ready values.

    A file may be damaged. ``advance`` gets the number of grains read since the last call.
    """
    location = location_of(source)
    if isinstance(location, DirectoryLocation) and location.path.is_file():
        values = of_file(location.path, resolver, grains, advance)
    else:
        location.must_exist()
        opening = opening or partial(og.open, source, readonly=True)
        values = of_store(location, opening, grains, advance)
    name = location.path.name if isinstance(location, DirectoryLocation) else str(source)
    about = {"source": name, "at": time_text(int(time.time()) * 1000), "by": og.__version__}
    return {**about, **values}
