# SPDX-License-Identifier: Apache-2.0
"""Every report prints counts, however long it is."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import re
from typing import Any

import omsgrain

_NAMED = re.compile(
    r"\w*Report|Written\w+|Verified|Checked|Converted|Passed|ImportSummary|DecodeBatch"
)
_LONG: dict[str, Any] = {
    "list": list,
    "tuple": tuple,
    "dict": dict.fromkeys,
    "frozenset": frozenset,
    "set": set,
}
_PLAIN: dict[str, Any] = {"int": 10**6, "int | None": 10**12, "bool": True}
_ADDRESSES = [f"{number:064x}" for number in range(1000)]
# Adapters of frameworks, which are not installed here, have no reports.
_INTERNAL = ("omsgrain.formats.convert", "omsgrain.integrations")


def _reports() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for info in pkgutil.walk_packages(omsgrain.__path__, "omsgrain."):
        if info.name.endswith("__main__") or info.name.startswith(_INTERNAL):
            continue
        for name, value in vars(importlib.import_module(info.name)).items():
            own = getattr(value, "__module__", None) == info.name
            if own and dataclasses.is_dataclass(value) and _NAMED.fullmatch(name):
                found[f"{info.name}.{name}"] = value
    return found


def _filled(report: Any, reports: dict[str, Any]) -> Any:
    values: dict[str, Any] = {}
    for field in dataclasses.fields(report):
        if field.init:
            kind = str(field.type).split("[")[0]
            inner = reports.get(f"{report.__module__}.{kind}")
            if inner:
                values[field.name] = _filled(inner, reports)
            elif kind in _LONG:
                values[field.name] = _LONG[kind](_ADDRESSES)
            else:
                values[field.name] = _PLAIN.get(kind, _ADDRESSES[0])
    return report(**values)


def test_every_report_prints_counts() -> None:
    reports = _reports()
    assert len(reports) > 15
    listed = set()
    for name, report in reports.items():
        shown = repr(_filled(report, reports))
        assert len(shown) < 500, name
        assert _ADDRESSES[999] not in shown, name
        if ": 1000" in shown:
            listed.add(name.rpartition(".")[2])
    assert {"PutReport", "ImportReport", "ExportReport", "ErasureReport", "DueReport"} <= listed
    assert {
        "CheckReport",
        "VerifyReport",
        "WithdrawalReport",
        "SyncReport",
        "WrittenContainer",
    } <= listed
