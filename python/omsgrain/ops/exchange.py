# SPDX-License-Identifier: Apache-2.0
"""Bring grains from a store to .mg files and back."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import omsgrain as og
from omsgrain import container

if TYPE_CHECKING:
    from omsgrain.batch import OnError
    from omsgrain.container import Written
    from omsgrain.container.layout import Codec
    from omsgrain.exchange import ImportReport


def export_mg(
    store: Path,
    file: Path,
    filters: Mapping[str, Any],
    *,
    codec: Codec = "none",
    sort: bool = False,
    replace: bool = False,
) -> Written:
    """Write the grains that match the filters; all of them without any.

    Args:
        store: where from.
        file: where to.
        filters: those of ``GrainStore.query``; with them the oldest grains come first, without in
            order of arrival.
        codec: how to pack.
        sort: by created_at.
        replace: a file that is there.

    Raises:
        FileExistsError: it is there, and ``replace`` was not given.
        OmsError: as ``GrainStore.export_mg``.
    """
    if not replace and os.path.lexists(file):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(file))
    order = {"order": "oldest"} if filters else {}
    with og.open(store, readonly=True) as grains:
        return grains.export_mg(file, codec=codec, sort=sort, **filters, **order)


def import_mg(store: Path, file: Path, *, errors: OnError = "raise") -> ImportReport:
    """Take the grains of a .mg file into a store, which is made if it is not there.

    What is no .mg file is refused before a store is made.

    Raises:
        OmsError: as ``GrainStore.import_mg``.
    """
    for part in container.parts(file):
        container.read(part).close()
    with og.open(store) as grains:
        return grains.import_mg(file, errors=errors)
