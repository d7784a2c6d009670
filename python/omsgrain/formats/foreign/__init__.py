# SPDX-License-Identifier: Apache-2.0
"""The memory of other systems: formats that are read, and whose records become MIF 2.0."""
