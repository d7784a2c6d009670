# SPDX-License-Identifier: Apache-2.0
"""Any document of either version through a store: given back as it came, and taken in once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from omsgrain.errors import NotFoundError
from omsgrain.formats import Import
from omsgrain.formats.mif1.format import MIF1
from omsgrain.formats.mif2.format import MIF2
from omsgrain.interchange.mif_export import export_document
from omsgrain.interchange.mif_import import import_document
from support import mif1_documents, mif2_documents
from support.aimem_imports import holdings
from support.mif_imports import USER, kept_documents, opened

EARLY = 1_000
"""By this clock few consents are over."""
EXAMPLES = [
    *(
        (MIF2, one)
        for one in (mif2_documents.MINIMAL, mif2_documents.FULL, mif2_documents.DIALECT)
    ),
    *((MIF1, one) for one in mif1_documents.EXAMPLES),
]


def through_a_store(read: Import, document: dict[str, Any], **options: Any) -> None:
    with opened(now=EARLY) as store:
        report = import_document(store, read, user_id=USER, **options)
        assert (report.stored, report.errors) == (True, ())
        before = holdings(store)
        again = import_document(store, read, user_id=USER, **options)
        assert not again.count("imported", "updated", "renamed", "refused", "erased")
        assert holdings(store) == before
        (kept,) = kept_documents(store)
        if any(one.rule == "retention_over" for one in report.warnings):
            with pytest.raises(NotFoundError):
                export_document(store, USER, document=kept)
        data = export_document(store, USER, document=kept, purpose="access")[0].data
        assert json.dumps(json.loads(data)) == json.dumps(document)


@pytest.mark.parametrize(("convert", "document"), EXAMPLES)
@pytest.mark.parametrize("atomic", [False, True])
def test_documents_of_others(convert: Any, document: dict[str, Any], atomic: bool) -> None:
    data = json.dumps(document).encode("utf-8")
    through_a_store(convert.load(data), document, atomic=atomic)


@settings(max_examples=15)
@given(document=mif2_documents.DOCUMENTS, size=st.sampled_from([1, 2, 100]))
def test_any_document_of_mif2(document: dict[str, Any], size: int) -> None:
    read = MIF2.load(mif2_documents.spelled(document))
    through_a_store(read, document, batch_size=size)


@settings(max_examples=15)
@example(document={"mif_version": "1.0", "export": {"id": "\ufeff"}}, size=1)
@given(document=mif1_documents.DOCUMENTS, size=st.sampled_from([1, 2, 100]))
def test_any_document_of_mif1(document: dict[str, Any], size: int) -> None:
    read = MIF1.load(json.dumps(document).encode("utf-8"))
    through_a_store(read, document, batch_size=size)
