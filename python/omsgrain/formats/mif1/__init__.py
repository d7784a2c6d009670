# SPDX-License-Identifier: Apache-2.0
"""MIF 1.0 documents, in JSON, YAML and JSON lines: checked, read and written. Spec: MIF 1.0.

fields      the table of fields; what the checks, the schema and the tests go by
check       what is wrong with a document
layouts     its three layouts: JSON itself, json_lines and YAML, which yaml_writer writes
document    a document that was checked
records     its records as grains
convert     all of it as grains, and back
envelope    a document under a passphrase
consent     what the person allowed
metadata    what a document says of itself, counted anew
checksum    by whose rule its checksum was made
"""
