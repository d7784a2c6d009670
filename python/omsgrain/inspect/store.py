# SPDX-License-Identifier: Apache-2.0
"""The content of a page about a store."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import omsgrain as og
from omsgrain.errors import ErasedError, IntegrityError, KeyMissingError, NotFoundError
from omsgrain.inspect.graph import chains, triples
from omsgrain.inspect.shown import FAILURES, failure, moment, said, shown
from omsgrain.inspect.tally import Newest, Tally
from omsgrain.query.envelope import standing
from omsgrain.storage.location import Location
from omsgrain.storage.records import GrainStatus
from omsgrain.store.context import context_of
from omsgrain.store.maintenance import check_text

Opening: TypeAlias = Callable[[], og.GrainStore]
"""Opens the store, read-only."""

_SUPERSEDED: Final = 2_000  # the newest grains whose chains are shown


def of_store(
    location: Location, opening: Opening, count: int, advance: Callable[[int], None]
) -> dict[str, Any]:
    """Check, verify and show a store; arguments and errors are those of ``inspect``."""
    # In a separate process: a damaged page can kill the process that reads it.
    checked = location.check()
    if checked.ok:
        with opening() as store:
            checked = check_text(context_of(store), checked)
    problems = [f"{one.where}: {one.message}" for one in checked.problems[:FAILURES]]
    checks = [{"name": "index and states", "ok": checked.ok, "problems": problems}]
    tally = Tally()
    values: dict[str, Any] = {
        "kind": "store", "checks": checks, "verified": 0, "failures": [], "signers": {},
        "graph": triples(()), **chains(()), "shown": [], "restricted": 0,
    }  # fmt: skip
    if not any(one.where in ("file", "head") for one in checked.problems):
        try:
            with opening() as store:
                audited = store.audit.verify()
                problems = [f"entry {x.number}: {x.message}" for x in audited.problems[:FAILURES]]
                checks.append({"name": "audit trail", "ok": audited.ok, "problems": problems})
                values |= _read(store, count, tally, advance)
        except IntegrityError as error:  # the page shows what was read before
            values["failures"] = [failure("continued reading", error)]
    return {**values, **tally.values()}


def _read(
    store: og.GrainStore, count: int, tally: Tally, advance: Callable[[int], None]
) -> dict[str, Any]:
    report = store.verify(errors="collect")
    newest = Newest(count)
    for grain in store:
        tally.add(grain)
        newest.add(grain)
        advance(1)
    states = {grain.address: _state(store, grain.address) for grain in newest}
    usable = [grain for grain in newest if not states[grain.address].restricted]
    signers = {grain.address: _signers(store, grain.address) for grain in usable}
    return {
        "verified": report.verified,
        "failures": [failure(f"grain {bad.index}", bad.error) for bad in report.errors[:FAILURES]],
        "signers": {address: found for address, found in signers.items() if found},
        "graph": triples(usable),
        **chains(_supersessions(store), lambda address: _version(store, address)),
        "shown": [
            shown(grain, states[grain.address], signers[grain.address]) for grain in usable[:count]
        ],
        "restricted": len(newest) - len(usable),
    }


def _state(store: og.GrainStore, address: str) -> GrainStatus:
    try:
        return store.status(address)
    except NotFoundError:  # another process has deleted it
        return GrainStatus()


def _signers(store: og.GrainStore, address: str) -> list[dict[str, Any]]:
    try:
        found = store.trust.signatures(address)
    except NotFoundError:
        return []
    return [{"signer": one.signer, "iat": moment(one.iat), "proven": one.proven} for one in found]


def _supersessions(store: og.GrainStore) -> list[tuple[str, str]]:
    kept: deque[str] = deque(maxlen=_SUPERSEDED)
    kept.extend(one.address for one in store.changes() if one.kind == "supersede")
    old = dict.fromkeys(kept)
    return [(one, new) for one in old for new in _state(store, one).successors]


def _version(store: og.GrainStore, address: str) -> dict[str, Any]:
    try:
        grain, state = store.get(address), store.status(address)
    except (NotFoundError, ErasedError, KeyMissingError) as error:
        return {"says": f"({error.message})", "type": None, "standing": error.code}
    says = "(restricted)" if state.restricted else said(grain)
    return {"says": says, "type": grain.type, "standing": standing(state)}
