# SPDX-License-Identifier: Apache-2.0
"""The rules of docs/sync.md, row by row."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import omsgrain as og
from support.markdown_page import table
from support.paths import ROOT
from support.sync_stores import belief, memory, together

PAGE = ROOT / "docs/sync.md"
ROWS = table(PAGE, "about", "here", "there", "after")
STATUSES = ("verified", "contested", "retracted")

Tell = Callable[[og.GrainStore, str], None]


def nothing(store: og.GrainStore, address: str) -> None:
    """As it was put."""


def held(store: og.GrainStore, address: str) -> None:
    store.holds.add(address, authority="court", reason_code="litigation")


def released(store: og.GrainStore, address: str) -> None:
    held(store, address)
    store.holds.release(address, authority="court", reason_code="settled")


def held_again(store: og.GrainStore, address: str) -> None:
    released(store, address)
    store.holds.add(address, authority="court", reason_code="appeal")


def restricted(store: og.GrainStore, address: str) -> None:
    store.privacy.restrict(address, reason_code="dispute")


def ended(store: og.GrainStore, address: str) -> None:
    restricted(store, address)
    store.privacy.unrestrict(address, reason_code="settled")


def erased(store: og.GrainStore, address: str) -> None:
    store.delete_many([address], erased="gdpr17")


def superseded(what: str) -> Tell:
    return lambda store, address: void(store.supersede(address, belief(what, 1)))


def status(name: str) -> Tell:
    return lambda store, address: store.trust.set_verification(address, name)  # type: ignore[arg-type]


def void(_: object) -> None:
    """Nothing."""


TELL: dict[str, Tell] = {
    "present": nothing,
    "erased": erased,
    "unverified": nothing,
    "free": nothing,
    "none": nothing,
    "restricted": restricted,
    "ended": ended,
    "held": held,
    "released": released,
    "held again": held_again,
    "one": superseded("one"),
    "another": superseded("another"),
    **{name: status(name) for name in STATUSES},
}


def of_grain(store: og.GrainStore, address: str) -> str:
    if store.exists(address):
        return "held" if store.status(address).held else "present"
    try:
        store.put(belief("0"))
    except og.errors.ErasedError:
        return "erased"
    return "absent"


def of_status(store: og.GrainStore, address: str) -> str:
    return store.status(address).verification_status


def of_restriction(store: og.GrainStore, address: str) -> str:
    return "restricted" if store.status(address).restricted else "ended"


def of_hold(store: og.GrainStore, address: str) -> str:
    holds = store.holds.of(address)
    again = any(hold.reason_code == "appeal" for hold in holds)
    return "held again" if again else "held" if holds else "released"


def of_successors(store: og.GrainStore, address: str) -> str:
    return ("none", "one", "both")[len(store.status(address).successors)]


SAY = {
    "grain": of_grain,
    "status": of_status,
    "restriction": of_restriction,
    "hold": of_hold,
    "successors": of_successors,
}


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize(("about", "here", "there", "after"), ROWS)
def test_rule(about: str, here: str, there: str, after: str, full: bool) -> None:
    left, right = memory(), memory()
    (address,) = {store.put(belief("0")) for store in (left, right)}
    if "absent" in (here, there):
        left, right = (
            memory() if is_absent else store
            for store, is_absent in ((left, here == "absent"), (right, there == "absent"))
        )
    else:
        together(left, right)
    for store, became in ((left, here), (right, there)):
        if became != "absent":
            TELL[became](store, address)
    together(left, right, direction="pull", full=full)
    assert SAY[about](left, address) == after
