# SPDX-License-Identifier: Apache-2.0
"""What a detector is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

__all__ = ["HOLE", "Detector", "KeyAware", "Spans"]

Spans = Iterator[tuple[int, int]]
"""Where something stands: the first code point, and the one after the last."""

HOLE = "\0"
"""Stands for what is redacted already. Detectors of ours never match across it."""


class Detector(Protocol):
    """Finds one type of thing in a text.

    Attributes:
        type: what stands in the marker, such as ``email``: a-z and _, at most 32.
        secret: whether it gives access to something (a key), or is about a person (a phone).
    """

    @property
    def type(self) -> str: ...  # noqa: D102 - described above

    @property
    def secret(self) -> bool: ...  # noqa: D102 - described above

    def find(self, text: str) -> Spans:
        """Yield where it stands, in any order; spans may overlap.

        Args:
            text: a view of the text. Digits, spaces, dashes, quotes and full-width letters of
                any script are in ASCII, and what was redacted before is a hole. A second view,
                of a text that has such, is without what nobody sees, and with entities of HTML
                and compatibility forms as plain letters. Places are those of the view.
        """
        ...


@runtime_checkable
class KeyAware(Detector, Protocol):
    """A detector that also learns from the key of an object under which a text stands."""

    def find_under(self, key: str, text: str) -> Spans:
        """Yield what it finds because of the key; ``find`` is asked besides."""
        ...
