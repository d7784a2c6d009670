# SPDX-License-Identifier: Apache-2.0
"""Documents and files that are taken into a store, once and again, and given back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from io import BytesIO
from pathlib import Path
from typing import Final, TypeAlias

from containers import reclosed
from fuzz import seeds
from fuzz.documents import with_checksum
from fuzz.target import Run, Target
from omsgrain.errors import OmsError
from omsgrain.formats.aimem import document
from omsgrain.interchange.aimem_export import export_bundle
from omsgrain.interchange.aimem_import import import_bundle
from omsgrain.interchange.mif_export import export_document
from omsgrain.interchange.mif_import import import_document
from omsgrain.storage.memory import MemoryStorage
from omsgrain.store import GrainStore

_USER: Final = "ada"
Step: TypeAlias = Callable[[GrainStore, bytes], object]


def _twice(take: Step, give: Step) -> Callable[[Path], AbstractContextManager[Run]]:
    """Taken in again, nothing changes; whatever came in can be given back."""

    @contextmanager
    def opened(room: Path) -> Iterator[Run]:
        def run(data: bytes) -> None:
            with GrainStore(MemoryStorage()) as store:
                refusal = _refused(take, store, data)
                events = [change.seq for change in store.changes()]
                again = _refused(take, store, data)
                assert type(again) is type(refusal), "refused once, and once not"
                assert [change.seq for change in store.changes()] == events, "it changes again"
                assert store.maintenance.check().ok
                assert store.audit.verify().ok
                give(store, data)
            if refusal is not None:
                raise refusal

        yield run

    return opened


def _refused(take: Step, store: GrainStore, data: bytes) -> OmsError | None:
    try:
        take(store, data)
    except OmsError as refusal:
        return refusal
    return None


def _bundle(*, lines: bool) -> Target:
    def take(store: GrainStore, data: bytes) -> None:
        source = BytesIO(data) if lines else document.read_bundle(data)
        import_bundle(store, source, keep_document=bool(len(data) & 1), batch_size=3)

    def give(store: GrainStore, _: bytes) -> None:
        for tenant in {str(grain["user_id"]) for grain in store if "user_id" in grain}:
            export_bundle(store, tenant)

    form = "lines" if lines else "document"
    return Target(
        _twice(take, give), lambda: seeds.documents("aimem", form), "lines" if lines else "json",
        None if lines else with_checksum,
    )  # fmt: skip


def _mif(format: str) -> Target:
    def take(store: GrainStore, data: bytes) -> None:
        import_document(store, data, user_id=_USER, format=format, batch_size=3)

    def give(store: GrainStore, _: bytes) -> None:
        export_document(store, _USER, format=format)

    return Target(_twice(take, give), lambda: seeds.documents(format), "json")


@contextmanager
def _mg(room: Path) -> Iterator[Run]:
    path, out = room / "in.mg", room / "out.mg"

    def take(store: GrainStore, data: bytes) -> None:
        path.write_bytes(data)
        store.import_mg(path, errors="collect")

    def give(store: GrainStore, _: bytes) -> None:
        store.export_mg(out)

    with _twice(take, give)(room) as run:
        yield run


TARGETS = {
    "import aimem": _bundle(lines=False),
    "import aimem lines": _bundle(lines=True),
    "import mif2": _mif("mif2"),
    "import mif1": _mif("mif1"),
    "import mif-ld": _mif("mif-ld"),
    "import mg": Target(_mg, seeds.containers, mend=lambda data: reclosed(data)),
}
