# SPDX-License-Identifier: Apache-2.0
"""The tables of the text index, which ``search/postgres`` fills and asks.

    texts   store_id ++ last number seen; a grain it has, by number and digest; grains, words;
            rows deleted since they were wiped out; key
    words   store_id, seq ++ how many words, the words of three columns in their order, the
            different ones as tsvector, whether these are left out

Neither is cut into parts: a search would have to look into an index of words for each.

Row-level security hides the rows of other stores, but does not let PostgreSQL use the index of
words: it would have to look at rows before it knows whether they may be seen. So it is not forced
on the owner of the tables, who names the store in each statement; other roles ask ``matching``.
That runs with the owner's rights, and gives the rows of a store to who brings the key of its row
in ``texts``, which row-level security shows to nobody else.
"""

from __future__ import annotations

from collections.abc import Iterator

from omsgrain.store.postgres.schema import SCHEMA, stored_table

__all__ = ["TEXTS", "WORDS", "text_tables"]

TEXTS, WORDS = f"{SCHEMA}.texts", f"{SCHEMA}.words"

_COLUMNS = "seq, size, says, about, more, wide"
_FOUND = f"SELECT {', '.join(f'w.{name}' for name in _COLUMNS.split(', '))} FROM {WORDS} w "
_MAY = f"EXISTS (SELECT 1 FROM {TEXTS} t WHERE t.store_id = $1 AND t.key = $2)"


def text_tables(tuned: bool, policies: bool) -> Iterator[str]:
    """Make the statements for the tables of the text index.

    Args:
        tuned: whether the engine knows PostgreSQL's settings of an index.
        policies: whether tenants are kept apart by row-level security.
    """
    yield from stored_table(
        TEXTS,
        "last_seq bigint NOT NULL, known bigint NOT NULL, digest bytea NOT NULL, "
        "grains bigint NOT NULL, size bigint NOT NULL, gone bigint NOT NULL, "
        "key uuid NOT NULL DEFAULT gen_random_uuid()",
        "",
        0,
        policies,
    )
    yield from stored_table(
        WORDS,
        "seq bigint NOT NULL, size integer NOT NULL, says text NOT NULL, about text NOT NULL, "
        "more text NOT NULL, words tsvector NOT NULL, wide boolean NOT NULL",
        "seq",
        0,
        policies,
    )
    # Rows that wait for their place in the index are looked through at every search, in kB.
    waiting = " WITH (gin_pending_list_limit = 256)" if tuned else ""
    yield f"CREATE INDEX words_by_word ON {WORDS} USING gin (words){waiting}"
    yield f"CREATE INDEX words_wide ON {WORDS} (store_id) WHERE wide"
    if policies:
        yield f"ALTER TABLE {TEXTS} NO FORCE ROW LEVEL SECURITY"
        yield f"ALTER TABLE {WORDS} NO FORCE ROW LEVEL SECURITY"
        yield (
            f"CREATE FUNCTION {SCHEMA}.matching(bigint, uuid, tsquery) RETURNS TABLE "
            "(seq bigint, size integer, says text, about text, more text, wide boolean) "
            "LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$ "
            # What is asked begins with the number of a store: its rows come by the index of words.
            f"{_FOUND} WHERE w.store_id + 0 = $1 AND w.words @@ $3 AND {_MAY} UNION ALL "
            f"{_FOUND} WHERE w.store_id = $1 AND w.wide AND {_MAY} $$"
        )
