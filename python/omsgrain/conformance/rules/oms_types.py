# SPDX-License-Identifier: Apache-2.0
"""OMS 1.2, level 2: what each type of grain requires, and what it must not carry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import omsgrain as og
from omsgrain.conformance.bench import Bench
from omsgrain.conformance.rule import Table, Tried, refuses, takes
from omsgrain.conformance.rules.vectors import grains, write

_rule: Final = Table("oms", 2)
RULES: Final = _rule.rules
_add: Final = _rule.add

_AT = 1_768_471_200_000
# types: what each requires
_MISSING: tuple[tuple[str, str, str, int, int], ...] = (
    ("belief", "8.1", "subject, relation, object and confidence", 1, 4),
    ("state", "8.3", "a context", 6, 6),
    ("workflow", "8.4", "steps and a trigger", 7, 8),
    ("action", "8.5", "tool_name, input, content and is_error, if it is whole", 9, 12),
    ("observation", "8.6", "observer_id and observer_type", 13, 14),
    ("goal", "8.7", "a description and a goal_state", 15, 16),
    ("consensus", "8.9", "participating_observers, threshold, agreement_count, dissent_count",
     17, 20),
    ("consent", "8.10", "subject_did, grantee_did, scope and is_withdrawal", 21, 24),
    ("action.definition", "8.5", "in phase definition tool_name, tool_description, input_schema",
     25, 27),
    ("action.call", "8.5", "in phase call tool_name and input", 28, 29),
    ("action.result", "8.5", "in phase result tool_call_id, content, is_error, derived_from",
     30, 33),
)  # fmt: skip
# fmt: off
for _name, _section, _needs, _first, _last in _MISSING:
    _add(f"type.{_name}.required", _section,
         f"{_name.split('.')[0].capitalize()} requires {_needs}",
         write(*range(_first, _last + 1)))
for _number, _name in enumerate(
    "belief event state workflow action observation goal reasoning consensus consent".split(), 1
):
    _add(f"type.{_name}", f"8.{_number}",
         f"{_name.capitalize()}, byte 0x{_number:02X}, in MessagePack and CBOR",
         grains("types", 2 * _number - 1, 2 * _number))
_add("type.none", "8", "A grain without a type, or of a type that is none, is refused",
     write(101, 102, 103))
_add("type.created", "8", "Every grain requires created_at", write(5))
_add("type.belief.empty", "8.1", "subject and relation are not empty", write(104, 105))
_add("type.belief.object", "8.1", "object is text or a map", write(118))
_add("type.event.says", "8.2", "Event requires content, content_blocks or a whole triple",
     write(106, 107), grains("types", 25))
_add("type.event.blocks", "8.2", "Each content block has a type", write(108))
_add("type.workflow.empty", "8.4", "steps has at least one", write(109))
_add("type.action.phases", "8.5", "action_phase is definition, call, result, or absent",
     write(122), grains("types", 21, 22, 23))
_add("type.action.code", "8.5", "Code that was run has code, is_error, and stdout or content",
     write(125), grains("types", 24))
_add("type.observation.modes", "8.6", "observation_mode and observation_scope are closed lists",
     write(126))
_add("type.observation.human", "8.6", "A human observer has no observer_model", write(127))
_add("type.goal.states", "8.7", "goal_state is active, satisfied, failed or suspended", write(120))
_add("type.consent.withdrawal", "8.10", "A withdrawal names the consent before it", write(128),
     grains("types", 26))
# fmt: on


def _forbidden(phase: str, base: dict[str, Any], names: str) -> None:
    def check(_: Bench) -> Iterator[Tried]:
        yield takes("the grain without them", lambda: og.encode(base))
        for name in names.split():
            value: Any = {"input": {}, "is_error": False, "exit_code": 0, "duration_ms": 0}.get(
                name, "x"
            )
            given = base | {name: value}
            yield refuses(f"with {name}", "ERR_SCHEMA", og.encode, given)

    _add(
        f"type.action.{phase}.forbidden",
        "8.5",
        f"An action in phase {phase} carries none of {', '.join(names.split())}",
        check,
    )


_ACTION: dict[str, Any] = {"type": "action", "tool_name": "lift", "created_at": _AT}
# fmt: off
_forbidden("definition", _ACTION | {"action_phase": "definition", "tool_description": "lifts",
                                    "input_schema": {}},
           "input content is_error stdout stderr exit_code duration_ms")
_forbidden("call", _ACTION | {"action_phase": "call", "input": {}},
           "content is_error stdout stderr exit_code duration_ms")
# fmt: on


@_rule("type.observation.trigger", "8.6", "An observer of type trigger:... has modes of its own")
def _trigger(_: Bench) -> Iterator[Tried]:
    given = {
        "type": "observation",
        "observer_id": "t",
        "observer_type": "trigger:door",
        "observation_mode": "on_open",
        "created_at": _AT,
    }
    yield takes("trigger:door in mode on_open", lambda: og.encode(given))
