# SPDX-License-Identifier: Apache-2.0
"""Memories as Markdown: front matter in YAML, and the content. Both shapes, read and written.

front       the front matter of a text
names       what members are called there
reading     a text as a memory
writing     a memory as a text, and what that does not hold
"""

from __future__ import annotations

from omsgrain.formats.mif_ld.markdown.front import is_markdown
from omsgrain.formats.mif_ld.markdown.reading import read, read_bytes
from omsgrain.formats.mif_ld.markdown.writing import write

__all__ = ["is_markdown", "read", "read_bytes", "write"]
