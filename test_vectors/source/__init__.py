# SPDX-License-Identifier: Apache-2.0
"""What the vectors are made from: one file an area."""
