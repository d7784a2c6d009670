# SPDX-License-Identifier: Apache-2.0
"""MIF 2.0 documents: checked, read and written. Spec: MIF 2.0."""
