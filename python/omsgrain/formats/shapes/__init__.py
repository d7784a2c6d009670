# SPDX-License-Identifier: Apache-2.0
"""Objects by tables of their fields: what a field is, and whether objects are as asked."""
