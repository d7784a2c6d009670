# SPDX-License-Identifier: Apache-2.0
"""Search by words (``text``), by vectors (``vectors``), and by both (``rank``)."""
