# SPDX-License-Identifier: Apache-2.0
"""Finding grains."""

from __future__ import annotations

from typing import Any

from omsgrain.engine.base import Base
from omsgrain.index.query import Order, Page, Time, run

__all__ = ["Finding"]


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
        created_after: Time | None = None,
        created_before: Time | None = None,
        order: Order = "newest",
        limit: int = 50,
        cursor: str | None = None,
        count: bool = False,
        explain: bool = False,
    ) -> Page:
        """Find grains that match every filter given.

        A grain is found from the moment its put returns, in this process and in others.

        Args:
            type: name of a grain type, or its byte.
            namespace: the whole namespace.
            subject: the subject; with ``relation`` and ``object`` any of the eight patterns.
            relation: the relation.
            object: the object: a string, or what else the grain holds there.
            user_id: the user.
            session_id: the session.
            run_id: the run.
            tag: one of the structural tags.
            created_after: created at this time or later: ms since 1970, an aware datetime or RFC
                3339 text.
            created_before: created before this time, so that neighbouring spans share no grain.
            order: "newest" first and then by address, or "oldest", its exact reverse.
            limit: results a page, 1 to 10,000.
            cursor: ``next_cursor`` of the page before; the filters must be the same.
            count: also count all that match, which may read them all.
            explain: also say how the query was answered.

        Raises:
            SchemaError: a filter or cursor that cannot be.
            RangeError: the limit.

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
        }
        with self._store.read() as reader:
            return run(
                reader,
                filters,
                created_after=created_after,
                created_before=created_before,
                order=order,
                limit=limit,
                cursor=cursor,
                count=count,
                explain=explain,
            )
