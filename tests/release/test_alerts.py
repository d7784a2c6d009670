# SPDX-License-Identifier: Apache-2.0
"""The alerts of deploy/ and the figures in docs/operations.md are those that Prometheus gets."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

import omsgrain as og
from omsgrain.bridge.bridge import BridgeCounts
from omsgrain.bridge.metrics import metrics_text
from omsgrain.server.metrics import RequestCounts, text_of
from support.markdown_page import table
from support.paths import ROOT
from support.servers.debian import needed

RULES = ROOT / "deploy/prometheus-rules.yml"
PAGE = ROOT / "docs/operations.md"
ALERTS = [
    rule for group in yaml.safe_load(RULES.read_text("utf-8"))["groups"] for rule in group["rules"]
]
_LONG_AGO = {"type": "event", "content": "old", "created_at": 1_000_000_000_000}


def exported(path: Path) -> dict[str, str]:
    """The kinds of all figures by the names of their samples, of a store that has all of them."""
    counts = RequestCounts(["/v1/grains"])
    counts.add("/v1/grains", 200, 1, 0.1)
    with og.open(path, keep="7d", max_bytes="16MiB") as store:
        store.put(_LONG_AGO)
        store.put(og.Event(content="new"))
        store.maintenance.retain(keep="7d")
        text = metrics_text(store, BridgeCounts()) + text_of(counts.figures())
    return {
        sample.name: family.type
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def named(text: str) -> set[str]:
    return set(re.findall(r"\bomsgrain_\w+", text))


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: str(rule["alert"]))
def test_an_alert_is_about_figures_that_there_are(rule: dict[str, str], tmp_path: Path) -> None:
    found = named(rule["expr"])
    assert found and found <= exported(tmp_path / "m.omsg").keys()


def test_each_alert_has_a_row_in_the_runbook() -> None:
    rows = table(PAGE, "alert", "it means", "what to do")
    assert [row[0].strip("`") for row in rows] == [rule["alert"] for rule in ALERTS]


def test_the_page_has_all_figures_and_no_others(tmp_path: Path) -> None:
    rows = [*table(PAGE, "figure", "kind", "what it is")]
    documented = {row[0].strip("`"): row[1] for row in rows}
    found = exported(tmp_path / "m.omsg")
    grouped = {re.sub(r"_(bucket|sum|count)$", "", name): kind for name, kind in found.items()}
    assert documented == grouped


@pytest.mark.services
def test_prometheus_takes_the_rules() -> None:
    promtool = needed("prometheus", "promtool")
    done = subprocess.run([promtool, "check", "rules", RULES], capture_output=True, text=True)
    assert done.returncode == 0 and f"{len(ALERTS)} rules found" in done.stdout, done.stdout
