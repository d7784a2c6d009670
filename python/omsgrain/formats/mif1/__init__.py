# SPDX-License-Identifier: Apache-2.0
"""Checks, reads and writes MIF 1.0 documents in JSON, YAML and JSON lines. Spec: MIF 1.0.

check       the tables of fields and rules, and the checker
document    reading and splitting of any layout; consent and counts
json_lines  the JSON lines layout
envelope    encryption
records     records as grains
format      the format object
"""
