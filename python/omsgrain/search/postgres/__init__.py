# SPDX-License-Identifier: Apache-2.0
"""The text index and the vectors of a store in PostgreSQL, in tables beside its own.

feed      fills the table of words from the store, by sequence number
text      ``PostgresTextIndex``: the matches of a query, best first
vectors   the nearest vectors, by pgvector
"""
