# SPDX-License-Identifier: Apache-2.0
"""Spans of memory operations: their names, and nothing of a memory or a user in them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import omsgrain as og
from omsgrain.errors import NotFoundError, RangeError
from omsgrain.memory import verbs


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """Collects the spans of a test; the provider of a process can be set only once."""
    found = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(found))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    yield found
    provider.shutdown()


def said(exporter: InMemorySpanExporter) -> list[tuple[str, int | None, str | None]]:
    """The name, the count and the error of each span."""
    return [
        (
            span.name,
            (span.attributes or {}).get("gen_ai.memory.record.count"),
            (span.attributes or {}).get("error.type"),
        )  # type: ignore[misc]  # the values of attributes are of many types
        for span in exporter.get_finished_spans()
    ]


def test_each_verb_has_the_span_of_the_conventions(exporter: InMemorySpanExporter) -> None:
    with og.Memory(":memory:", user="ada-lovelace") as memory:
        tea = memory.remember("Ada likes green tea.")
        memory.remember_messages(
            [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]
        )
        memory.recall("green tea")
        memory.update(tea, "Ada likes black tea.")
        memory.forget(tea)
        verbs.recall(memory.store, memory.user, "tea")
    assert said(exporter) == [
        ("create_memory", 1, None),
        ("create_memory", 2, None),
        ("search_memory", 1, None),
        ("update_memory", 1, None),
        ("delete_memory", 2, None),
        ("search_memory", 0, None),
    ]
    operations = [dict(span.attributes or {}) for span in exporter.get_finished_spans()]
    assert [each["gen_ai.operation.name"] for each in operations] == [
        span.name for span in exporter.get_finished_spans()
    ]


def test_an_error_is_named_by_its_code(exporter: InMemorySpanExporter) -> None:
    with og.Memory(":memory:", user="ada-lovelace") as memory:
        with pytest.raises(NotFoundError):
            memory.forget("0" * 64)
        with pytest.raises(RangeError):
            memory.recall("tea", limit=0)
    assert said(exporter) == [
        ("delete_memory", None, "ERR_NOT_FOUND"),
        ("search_memory", None, "ERR_RANGE"),
    ]
    spans = exporter.get_finished_spans()
    assert {span.status.status_code for span in spans} == {trace.StatusCode.ERROR}
    assert not any(span.events for span in spans)  # an exception's text is not recorded


def test_a_span_has_no_content_and_no_user(exporter: InMemorySpanExporter) -> None:
    with og.Memory(":memory:", user="ada-lovelace") as memory:
        memory.remember("Ada likes green tea.", tags=["drinks"])
        memory.recall("green tea")
    text = "".join(map(ReadableSpan.to_json, exporter.get_finished_spans()))
    for secret in ("lovelace", "tea", "drinks"):
        assert secret not in text


def test_a_program_without_opentelemetry_does_not_load_it(tmp_path: Path) -> None:
    code = """if True:
        import sys
        import omsgrain as og
        with og.Memory(":memory:", user="ada") as memory:
            memory.remember("Ada likes green tea.")
        print("opentelemetry" in sys.modules)
    """
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
