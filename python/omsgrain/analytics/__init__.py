# SPDX-License-Identifier: Apache-2.0
"""Grains as tables: Arrow batches of typed columns, and Parquet files that lose nothing.

    columns.py   which columns there are, and what stands in each
    batches.py   rows made columns
    parquet.py   Arrow batches in a file and back

Needs pyarrow: the extra ``arrow``. Nothing here is imported before a table is asked
for.
"""
