# SPDX-License-Identifier: Apache-2.0
"""From one format to another, through what they have in common.

base      tables of records, what is lost of an item, ids
aimem, mif2, mif1, mif_ld   what each format says in terms of the model
gather    grains to items
build     items to a document, with the grains that go along whole
convert   grains of any origin to a document, and the grains in a document back
"""

from __future__ import annotations
