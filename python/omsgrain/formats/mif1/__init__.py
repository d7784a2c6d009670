# SPDX-License-Identifier: Apache-2.0
"""MIF 1.0 documents, in JSON, YAML and JSON lines: checked, read and written. Spec: MIF 1.0.

check       the table of fields, and what is wrong with a document
document    a document of any layout, read and taken apart; its consent, its counts
json_lines  the layout in lines
envelope    a document under a passphrase
records     its records as grains
format      all of it as a format
"""
