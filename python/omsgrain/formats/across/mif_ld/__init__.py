# SPDX-License-Identifier: Apache-2.0
"""MIF in JSON-LD in terms of the model: memories, whom they name, and what relates them.

The format has three types of memories; what a finer type is called stands in the namespace, as the
format advises: a decision is semantic, and in ``_semantic/decisions``. Memories are read in both
shapes, and written in shape 0.1 unless the other is asked for.
"""

from __future__ import annotations

from omsgrain.formats.across.mif_ld.reading import member_of, read
from omsgrain.formats.across.mif_ld.words import ARRAY, CARRIED, CLASSES, TITLE, TOLD
from omsgrain.formats.across.mif_ld.writing import adapt, tree, write

__all__ = ["ARRAY", "CARRIED", "CLASSES", "TITLE", "TOLD", "adapt", "member_of", "read", "tree",
           "write"]  # fmt: skip
