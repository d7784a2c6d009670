# SPDX-License-Identifier: Apache-2.0
"""The text index and the neighbours of a store in PostgreSQL, in tables beside its own.

rows        what the tables have of a grain
sessions    transactions on them
feeding     from the store to them, by sequence number
phrases     phrases of a query as SQL
finding     the matches of a query, best first
index       ``PostgresTextIndex``
neighbours  vectors that point where a given one does, by pgvector
"""
