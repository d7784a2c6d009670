# SPDX-License-Identifier: Apache-2.0
"""Converts documents between formats, through a common model.

base      tables of records, losses, ids
aimem, mif2, mif1, mif_ld   each format in terms of the model
gather    grains to items
build     items to a document, with carried grains
convert   grains of any origin to a document, and carried grains back
"""

from __future__ import annotations
