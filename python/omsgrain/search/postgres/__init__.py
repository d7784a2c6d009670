# SPDX-License-Identifier: Apache-2.0
"""The text index and the vectors of a store in PostgreSQL, in tables beside its own.

feed      from the store to the table of words, by sequence number
text      ``PostgresTextIndex``: the matches of a query, best first
vectors   vectors that point where a given one does, by pgvector
"""
