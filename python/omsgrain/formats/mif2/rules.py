# SPDX-License-Identifier: Apache-2.0
"""Every rule of a MIF 2.0 document: its id and its words.

What the format's published schema refuses breaks a rule, and so does what cannot be read at all.
What only looks wrong is a warning: the format asks its readers to be lenient.
"""

from __future__ import annotations

from typing import Final

from omsgrain.formats.reading import RULES as READING
from omsgrain.formats.shapes.field import Rule

__all__ = ["RULES", "WARNINGS"]

RULES: Final[dict[str, Rule]] = {
    **{name: Rule("1", says) for name, says in READING.items()},
    "not_object": Rule("1", "not an object"),
    "checksum_mismatch": Rule("1", "the document is not what its checksum was made of"),
    "unsupported_version": Rule("8", "not a version that is known"),
    "missing_field": Rule("2", "a required field is missing"),
    "invalid_type": Rule("2", "a value of the wrong type"),
    "too_many_bad": Rule("2", "more bad records than are reported"),
    "out_of_range": Rule("2", "a number out of range"),
}
"""Breaking one of them around the records refuses the document; in a record, that record."""

WARNINGS: Final[dict[str, Rule]] = {
    "later_version": Rule("8", "a later minor version: what is new in it is kept, not understood"),
    "invalid_checksum": Rule("1", "not a checksum"),
    "invalid_uuid": Rule("2", "not a UUID"),
    "invalid_timestamp": Rule("2", "not a time"),
    "invalid_memory_type": Rule("2.1", "a type of memory that is not in snake_case"),
    "times_out_of_order": Rule("2", "changed before it was made"),
    "duplicate_id": Rule("2", "an id that stands twice"),
    "duplicate_content": Rule("6", "a content that stands twice: kept, and not recalled"),
    "dimension_mismatch": Rule("2.3", "a vector of another length: kept, and not searched"),
    "unknown_entity": Rule("3", "an entity that is not in the document"),
    "foreign_record": Rule("6", "a record of a dialect that is not known: kept, not understood"),
    "unknown_reference": Rule("2", "a record that is not in the document"),
    "owner_not_kept": Rule("1", "a user whose name no grain can have: grains without an owner"),
}
"""Taken, and told."""
