# SPDX-License-Identifier: Apache-2.0
"""The ten constructors: signatures and docstrings against the registry, and what they make."""

import inspect
import re
from collections.abc import Callable
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

import omsgrain as og
from omsgrain import constructors, registry
from omsgrain.grain import options
from support.known_grains import DID

NOW = 1768471200000

Constructor = Callable[..., og.Grain]

BY_TYPE: dict[str, Constructor] = {
    t.name: getattr(constructors, t.name.capitalize()) for t in registry.TYPES
}

LEAST: dict[str, dict[str, Any]] = {
    "belief": {"subject": "user", "relation": "prefers", "object": "dark mode"},
    "event": {"content": "asked about dark mode"},
    "state": {"context": {"step": 3}},
    "workflow": {"steps": ["undock", "charge"], "trigger": "battery low"},
    "action": {"tool_name": "add", "input": {"a": 1}, "content": 2, "is_error": False},
    "observation": {"observer_id": "temp-1", "observer_type": "temperature", "object": 22.5},
    "goal": {"description": "keep the room warm", "goal_state": "active"},
    "reasoning": {},
    "consensus": {
        "participating_observers": ["a", "b"],
        "threshold": 2,
        "agreement_count": 2,
        "dissent_count": 0,
    },
    "consent": {
        "subject_did": DID,
        "grantee_did": DID,
        "scope": ["store"],
        "is_withdrawal": False,
    },
}

each_type = pytest.mark.parametrize("name", BY_TYPE)


def parameters(name: str) -> dict[str, inspect.Parameter]:
    found = dict(inspect.signature(BY_TYPE[name]).parameters)
    assert found.pop("fields").kind is inspect.Parameter.VAR_KEYWORD
    return found


def documented(name: str) -> dict[str, str]:
    section = (inspect.getdoc(BY_TYPE[name]) or "").split("Args:\n")[1].split("\n\n")[0]
    entries = re.findall(r"^    (\S+): (.*(?:\n      .*)*)", section, re.MULTILINE)
    return {arg: " ".join(text.split()) for arg, text in entries}


@each_type
def test_parameters_are_fields_by_keyword(name: str) -> None:
    for parameter in parameters(name).values():
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
        assert not registry.field(parameter.name, name).index_layer


@each_type
def test_required_fields_are_parameters(name: str) -> None:
    grain_type = next(t for t in registry.TYPES if t.name == name)
    known = parameters(name)
    assert known["created_at"].default is None
    for field in grain_type.required:
        default = 1.0 if field == "confidence" else inspect.Parameter.empty
        assert known[field].default == default
    groups = list(grain_type.required_any)
    if name == "action":
        groups += [p.required for p in registry.PHASES]
        groups += [group for p in registry.PHASES for group in p.required_any]
    assert {field for group in groups for field in group} <= known.keys()


@each_type
def test_docstring_says_what_the_registry_says(name: str) -> None:
    texts = documented(name)
    assert list(texts) == [*parameters(name), "**fields"]
    for arg in parameters(name):
        doc = registry.field(arg, name).doc + "."
        assert texts[arg] == (f"{doc} None: now." if arg == "created_at" else doc)


@each_type
def test_literals_are_the_closed_enums(name: str) -> None:
    hints = get_type_hints(BY_TYPE[name])
    for arg in parameters(name):
        literals = [h for h in (hints[arg], *get_args(hints[arg])) if get_origin(h) is Literal]
        for literal in literals:
            assert get_args(literal) == registry.field(arg, name).enum


@each_type
def test_makes_what_encode_makes(name: str) -> None:
    grain = BY_TYPE[name](**LEAST[name], created_at=NOW, namespace="shared", run_id="r1")
    assert isinstance(grain, og.Grain)
    assert grain.type == name
    fields = LEAST[name] | {"type": name, "created_at": NOW, "namespace": "shared"}
    if name == "belief":
        fields["confidence"] = 1.0
    assert grain.blob == og.encode(fields | {"run_id": "r1"})


def test_vector_1_as_belief() -> None:
    grain = og.Belief(
        subject="user",
        relation="prefers",
        object="dark mode",
        confidence=0.9,
        source_type="user_explicit",
        created_at="2026-01-15T10:00:00Z",
        namespace="shared",
        author_did=DID,
    )
    assert grain.address == "f06c02f500fe38fd2c77458315b651d4b84542df635b8722c502944286d40cc5"


@each_type
def test_created_at_is_now_unless_given(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time_ns", lambda: NOW * 1_000_000 + 999_999)
    assert BY_TYPE[name](**LEAST[name])["created_at"] == NOW
    assert BY_TYPE[name](**LEAST[name], created_at=0)["created_at"] == 0


@each_type
def test_none_is_absent(name: str) -> None:
    grain = BY_TYPE[name](**LEAST[name], importance=None)
    assert "importance" not in grain
    assert None not in grain.to_dict().values()


@pytest.mark.parametrize("name", [*inspect.signature(options).parameters, "type"])
def test_options_are_not_fields(name: str) -> None:
    with pytest.raises(TypeError):
        og.Reasoning(**{name: None})


def test_type_errors_are_python_s_own() -> None:
    with pytest.raises(TypeError):
        og.Belief("user", "prefers", "dark mode")  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        og.Workflow(steps=["a"])  # type: ignore[call-arg]


def test_an_incomplete_action_is_refused() -> None:
    with pytest.raises(og.errors.SchemaError):
        og.Action(action_phase="call", tool_name="add")
