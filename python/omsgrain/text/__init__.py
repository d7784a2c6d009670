# SPDX-License-Identifier: Apache-2.0
"""The words of grains: which fields have some, and what a word is, in any script."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omsgrain.text.fields import texts
from omsgrain.text.words import split

__all__ = ["words_of"]


def words_of(fields: Mapping[str, Any]) -> set[str]:
    """All words in the texts of a grain, folded."""
    return set(split("\n".join([text for _, text in texts(fields)])))
