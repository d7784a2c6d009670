# SPDX-License-Identifier: Apache-2.0
"""From one format to another, through what they have in common.

shaping   records to items of the model and back, by tables
words     what one format calls what another one calls otherwise
names     ids of one format as ids of another
aimem, mif2, mif1   what each format says in terms of the model
native    grains that never were a record
gather    grains to items
losses    what a format did not hold of an item
carry     grains that go along whole, and are taken back
build     items to a document
"""

from __future__ import annotations
