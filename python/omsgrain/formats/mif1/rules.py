# SPDX-License-Identifier: Apache-2.0
"""Every rule of a MIF 1.0 document: its id and its words.

What the SEP refuses breaks a rule, and so does what cannot be read at all. What only the published
schema refuses is a warning: the SEP's own samples do not keep to it.
"""

from __future__ import annotations

from typing import Final

from omsgrain.formats.reading import RULES as READING
from omsgrain.formats.shapes.field import Rule
from omsgrain.formats.yaml_reader import RULES as YAML

__all__ = ["RULES", "WARNINGS"]

RULES: Final[dict[str, Rule]] = {
    **{name: Rule("1", says) for name, says in READING.items()},
    "not_yaml": Rule("1", YAML["not_yaml"]),
    "not_object": Rule("2", "not an object"),
    "missing_field": Rule("2", "a required field is missing"),
    "invalid_type": Rule("2", "a value of the wrong type"),
    "invalid_timestamp": Rule("2", "not a time"),
    "too_many_bad": Rule("2", "more bad records than are reported"),
    "out_of_range": Rule("3.2", "a number out of range"),
    "unsupported_version": Rule("9", "not a version that is known"),
    # JSON lines
    "no_header": Rule("1", "the first line is no header"),
    "no_footer": Rule("1", "the last line is no footer: the document was cut short"),
    "count_mismatch": Rule("1", "not as many records as the footer counts"),
    "checksum_mismatch": Rule("1", "the document is not what its checksum was made of"),
    "unknown_line": Rule("1", "a line of a kind that is not known"),
    # the envelope of encryption
    "encrypted": Rule("6.2", "the document is encrypted"),
    "unknown_algorithm": Rule("6.2", "not an algorithm that is known"),
    "invalid_encryption": Rule("6.2", "a part of the envelope is not what it must be"),
    "kdf_missing": Rule("6.2", "the envelope does not say how the key is derived"),
    "kdf_too_costly": Rule("6.2", "deriving the key would cost more than is allowed"),
}
"""Breaking one of them around the records refuses the document; in a record, that record."""

WARNINGS: Final[dict[str, Rule]] = {
    "later_version": Rule("9", "a later minor version: what is new in it is kept, not understood"),
    "version_as_number": Rule("9", "the version is a number, and should be a text"),
    "missing_field": Rule("2", "a field is missing that the published schema requires"),
    "invalid_type": Rule("2", "a value of the wrong type, where nothing depends on it"),
    "null_value": Rule("2", "null, where the published schema has none"),
    "invalid_timestamp": Rule("2", "not a time"),
    "out_of_range": Rule("2", "a number out of the range of the published schema"),
    "unknown_value": Rule("3.1", "a value that is not known: kept, not understood"),
    "id_form": Rule("3", "an id of another form than that of the published schema"),
    "invalid_checksum": Rule("2", "not a checksum"),
    "unknown_checksum": Rule("2", "a checksum by a rule that is not known, or of other content"),
    "content_length": Rule("3", "a content without text, or longer than the published schema has"),
    "invalid_vector": Rule("3.3", "a vector of something but numbers: kept, and not searched"),
    "dimension_mismatch": Rule("3.3", "a vector of another length: kept, and not searched"),
    "redaction_span": Rule("6.1", "a redaction whose place and length do not agree"),
    "duplicate_id": Rule("3", "an id that stands twice"),
    "duplicate_content": Rule("3", "a content that stands twice: kept, and not recalled"),
    "unknown_end": Rule("5", "an edge of something that is not in the document"),
    "line_member": Rule("1", "a member of a line that is no part of a record: not kept"),
    "count_differs": Rule("7", "not as many as the document says of itself"),
    "unknown_reference": Rule("3", "a record that is not in the document"),
    "owner_not_kept": Rule("2", "a user whose name no grain can have: grains without an owner"),
}
"""Taken, and told."""
