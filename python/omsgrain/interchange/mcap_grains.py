# SPDX-License-Identifier: Apache-2.0
"""The grains attached to an MCAP file: imported with their addresses, and verified."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from omsgrain import container
from omsgrain.container.layout import os_errors, part
from omsgrain.durable import file_path
from omsgrain.errors import FormatError
from omsgrain.formats.bag.base import BagAttachment
from omsgrain.formats.bag.mcap import McapReader
from omsgrain.store.mg_files import ImportReport

if TYPE_CHECKING:
    from omsgrain.batch import OnError
    from omsgrain.container.verify import ContainerReport
    from omsgrain.store import GrainStore

MEDIA_TYPE: Final = "application/vnd.mg"
"""The type of attached .mg files."""


@contextmanager
def attached_grains(path: str | os.PathLike[str]) -> Iterator[list[Path]]:
    """Copy the attached .mg files of an MCAP file into a directory for the moment.

    Every checksum of the MCAP file is verified first.
    """
    source = file_path(path)
    with TemporaryDirectory(prefix="omsgrain-") as folder:
        with os_errors("read", source), source.open("rb") as stream:
            reader = McapReader(stream)
            found = [one for one in reader if isinstance(one, BagAttachment)]
            found = [one for one in found if one.media_type == MEDIA_TYPE]
            first = Path(folder, "grains.mg")
            files = [first] if len(found) == 1 else [
                part(first, number) for number in range(1, len(found) + 1)
            ]  # fmt: skip
            for file, one in zip(files, found, strict=True):
                with file.open("xb") as copy:
                    copy.writelines(reader.attachment(one))
        yield files


def import_mcap(
    store: GrainStore,
    path: str | os.PathLike[str],
    *,
    errors: OnError = "raise",
    allow_erased: bool = False,
) -> ImportReport:
    """Store the grains that are attached to an MCAP file, with their states.

    Args:
        store: where they go.
        path: a file that ``export_mcap`` wrote.
        errors: as for ``import_mg``.
        allow_erased: as for ``import_mg``.

    Raises:
        FormatError: the file is damaged, or has no grains.
        OmsError: as for ``import_mg``.
    """
    with attached_grains(path) as files:
        if not files:
            text = "the file has no grains attached"
            raise FormatError(text, expected="a file of omsgrain export; ingest takes recordings")
        return store.import_mg(
            files[0].with_name("grains.mg"), errors=errors, allow_erased=allow_erased
        )


def verify_mcap(path: str | os.PathLike[str]) -> list[ContainerReport]:
    """Check every checksum of an MCAP file and every byte of the .mg files in it.

    Raises:
        FormatError: the MCAP file is damaged.
    """
    with attached_grains(path) as files:
        return [container.verify(file, errors="collect") for file in files]
