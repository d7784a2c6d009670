# SPDX-License-Identifier: Apache-2.0
"""Finding grains by what they say, whose they are, and when."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

from omsgrain.engine.base import Base
from omsgrain.grain import Grain
from omsgrain.index import query as queries
from omsgrain.index.filters import conditions
from omsgrain.index.query import Order, Page, Time
from omsgrain.store.state import Verification

__all__ = ["Finding"]

_digest = bytes.fromhex


class Finding(Base):
    """The part of a GrainStore that answers questions."""

    def query(
        self,
        *,
        type: str | int | None = None,
        namespace: str | None = None,
        subject: str | None = None,
        relation: str | None = None,
        object: Any = None,
        user_id: str | None = None,
        session_id: str | None = None,
        run_id: str | None = None,
        tag: str | None = None,
        origin: str | None = None,
        created_after: Time | None = None,
        created_before: Time | None = None,
        valid_at: Time | None = None,
        known_at: Time | None = None,
        current: bool | None = True,
        verification_status: Verification | None = None,
        min_confidence: float | None = None,
        words: str | None = None,
        order: Order = "newest",
        limit: int = 50,
        cursor: str | None = None,
        count: bool = False,
        explain: bool = False,
        scan: bool = False,
        sealed: bool = True,
        bookkeeping: bool = False,
        **unknown: NoReturn,
    ) -> Page:
        """Find grains that match every filter given.

        A grain is found from the moment its put returns, in this process and in others.

        Args:
            type: name of a grain type, or its byte.
            namespace: the whole namespace, or ``robots:*`` for all that begin with ``robots:``.
            subject: the subject; with ``relation`` and ``object`` any of the eight patterns.
            relation: the relation.
            object: the object: a string, or what else the grain holds there.
            user_id: the user.
            session_id: the session.
            run_id: the run.
            tag: one of the structural tags.
            origin: the id that the grain had in a document of another format, such as a URN.
            created_after: created at this time or later: ms since 1970, an aware datetime or RFC
                3339 text.
            created_before: created before this time, so that neighbouring spans share no grain.
            valid_at: true at this time, by ``valid_from`` and ``valid_to``.
            known_at: held to be so by the store at this time: neither later than it learned it
                nor after it was superseded.
            current: True: no grains that were superseded, retracted or restricted. False: only
                those. None: all.
            verification_status: what verification found.
            min_confidence: at least this confidence, 0 to 1.
            words: all of these words are in its texts, whatever their case and order.
            order: "newest" first and then by address, or "oldest", its exact reverse.
            limit: results a page, 1 to 10,000.
            cursor: ``next_cursor`` of the page before; the filters must be the same.
            count: also count all that match, which may read them all.
            explain: also say how the query was answered.
            scan: allow a query that no index answers to read every grain.
            sealed: look among sealed grains, too, those that the keys of the store open. They can
                be asked for exact values and words; with False anything can be asked of the rest.
            bookkeeping: also the grains that keep what is around the records of documents.
            **unknown: none; a filter of another name is refused, with those that there are.

        Raises:
            SchemaError: a filter or cursor that cannot be.
            RangeError: the limit, or the confidence.
            UnsupportedError: no index answers, and ``scan`` was not given; or there are sealed
                grains, and they cannot be asked that.

        Spec: OMS §28.1
        """
        filters = {
            "type": type,
            "namespace": namespace,
            "subject": subject,
            "relation": relation,
            "object": object,
            "user_id": user_id,
            "session_id": session_id,
            "run_id": run_id,
            "tag": tag,
            "origin": origin,
        }
        if unknown:
            conditions(unknown)  # refuses them, and names those there are
        with self._store.read() as reader:
            page = queries.run(
                reader,
                filters,
                valid_at=valid_at,
                known_at=known_at,
                current=current,
                verification_status=verification_status,
                min_confidence=min_confidence,
                words=words,
                created_after=created_after,
                created_before=created_before,
                order=order,
                limit=limit,
                cursor=cursor,
                count=count,
                explain=explain,
                scan=scan,
                sealed=sealed,
                bookkeeping=bookkeeping,
            )
        if self._counts:
            self._count_reads([_digest(hit.content_address) for hit in page.results])
        return page

    def match(
        self, subject: str | None = None, relation: str | None = None, object: Any = None
    ) -> Iterator[Grain]:
        """Walk the current grains with a subject, relation and object, newest first.

        Args:
            subject: the subject; None stands for any.
            relation: the relation; None stands for any.
            object: the object; None stands for any.

        Raises:
            SchemaError: what cannot be a subject, relation or object.
        """
        return queries.match(self._store.read, subject, relation, object)
