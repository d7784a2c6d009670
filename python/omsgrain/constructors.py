# SPDX-License-Identifier: Apache-2.0
"""One function for each of the ten grain types.

Each function names the fields that its type requires and the most common others. Any other field
is a keyword argument by its full name. None means absent. ``encode`` takes the same fields as a
dict, and has options for encoding, compression and profile.

    >>> from omsgrain import Belief
    >>> Belief(subject="user", relation="prefers", object="dark mode", confidence=0.9).type
    'belief'
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from omsgrain.grain import Grain, make
from omsgrain.query.times import Timestamp, now

__all__ = [
    "Action",
    "Belief",
    "Consensus",
    "Consent",
    "Event",
    "Goal",
    "Observation",
    "Reasoning",
    "State",
    "Workflow",
]

# As fields they would be unknown, stay in the payload, and have no effect as options.
_NOT_FIELDS = frozenset(
    ("type", "type_byte", "keep_type_name", "encoding", "compress", "sensitivity", "profile")
)


def _grain(type_name: str, arguments: dict[str, Any]) -> Grain:
    """Make the grain from a constructor's locals(), which are its arguments only."""
    others: dict[str, Any] = arguments.pop("fields")
    for name in others:
        if name in _NOT_FIELDS:
            raise TypeError(f"{name!r} is not a field; for options use encode()")
    if arguments["created_at"] is None:
        arguments["created_at"] = now()
    return make({"type": type_name, **arguments, **others})


def Belief(
    *,
    subject: str,
    relation: str,
    object: str | Mapping[str, Any],
    confidence: float = 1.0,
    source_type: str | None = None,
    valid_from: Timestamp | None = None,
    valid_to: Timestamp | None = None,
    namespace: str | None = None,
    user_id: str | None = None,
    structural_tags: Sequence[str] | None = None,
    derived_from: Sequence[str] | None = None,
    created_at: Timestamp | None = None,
    **fields: Any,
) -> Grain:
    """Make a belief.

    Args:
        subject: Entity that the grain is about; the first part of the triple.
        relation: How subject and object relate; the second part of the triple; mg: names are
            reserved.
        object: Value or entity that the relation leads to; the third part of the triple.
        confidence: Confidence in the content, 0..1.
        source_type: Where the content came from: a user, a sensor, inference, an import.
        valid_from: Time from which the content is true in the world, epoch ms; absent: open.
        valid_to: Time until which the content is true in the world, epoch ms; absent: open.
        namespace: Partition that the grain belongs to; its hash is in the header.
        user_id: Person that the grain belongs to; has one encryption key, and can be erased.
        structural_tags: Classifying tags; prefixes such as pii:, phi: and profile: have rules.
        derived_from: Addresses of the grains that this one was made from.
        created_at: When the grain was made, epoch ms; its whole seconds are also in the header.
            None: now.
        **fields: any other field, by its full name.

    Spec: OMS §8.1
    """
    return _grain("belief", locals())


def Event(
    *,
    content: str | None = None,
    content_blocks: Sequence[Mapping[str, Any]] | None = None,
    subject: str | None = None,
    relation: str | None = None,
    object: str | Mapping[str, Any] | None = None,
    role: str | None = None,
    session_id: str | None = None,
    parent_message_id: str | None = None,
    model_id: str | None = None,
    namespace: str | None = None,
    user_id: str | None = None,
    created_at: Timestamp | None = None,
    **fields: Any,
) -> Grain:
    """Make an event, with content, content_blocks or a complete triple.

    Args:
        content: Text of the event, or a plain version of content_blocks.
        content_blocks: Structured message: typed blocks such as text, image, tool_use.
        subject: Entity that the grain is about; the first part of the triple.
        relation: How subject and object relate; the second part of the triple; mg: names are
            reserved.
        object: Value or entity that the relation leads to; the third part of the triple.
        role: Speaker of a message.
        session_id: Conversation or session, which may span several runs.
        parent_message_id: Address of the message before this one in the thread.
        model_id: Model that wrote the message; absent if a person wrote it.
        namespace: Partition that the grain belongs to; its hash is in the header.
        user_id: Person that the grain belongs to; has one encryption key, and can be erased.
        created_at: When the grain was made, epoch ms; its whole seconds are also in the header.
            None: now.
        **fields: any other field, by its full name.

    Spec: OMS §8.2
    """
    return _grain("event", locals())


def State(
    *,
    context: Mapping[str, Any],
    plan: Sequence[str] | None = None,
    history: Sequence[Mapping[str, Any]] | None = None,
    run_id: str | None = None,
    namespace: str | None = None,
    user_id: str | None = None,
    created_at: Timestamp | None = None,
    **fields: Any,
) -> Grain:
    """Make a state.

    Args:
        context: Free metadata about the circumstances; in a state, the snapshot itself.
        plan: Planned actions, in order.
        history: Past actions, in order.
        run_id: One execution of an agent.
        namespace: Partition that the grain belongs to; its hash is in the header.
        user_id: Person that the grain belongs to; has one encryption key, and can be erased.
        created_at: When the grain was made, epoch ms; its whole seconds are also in the header.
            None: now.
        **fields: any other field, by its full name.

    Spec: OMS §8.3
    """
    return _grain("state", locals())


def Workflow(
    *,
    steps: Sequence[str],
    trigger: str,
    importance: float | None = None,
    namespace: str | None = None,
    created_at: Timestamp | None = None,
    **fields: Any,
) -> Grain:
    """Make a workflow.

    Args:
        steps: Steps of the procedure, in order.
        trigger: Condition that starts the procedure.
        importance: Weight for recall and retention, 0..1.
        namespace: Partition that the grain belongs to; its hash is in the header.
        created_at: When the grain was made, epoch ms; its whole seconds are also in the header.
            None: now.
        **fields: any other field, by its full name.

    Spec: OMS §8.4
    """
    return _grain("workflow", locals())


def Action(
    *,
    action_phase: Literal["definition", "call", "result"] | None = None,
    tool_name: str | None = None,
    tool_description: str | None = None,
    input_schema: Mapping[str, Any] | None = None,
    input: Mapping[str, Any] | None = None,
    tool_call_id: str | None = None,
    content: Any = None,
    is_error: bool | None = None,
    error: str | None = None,
    derived_from: Sequence[str] | None = None,
    execution_mode: Literal["function_call", "code_exec", "computer_use"] | None = None,
    code: str | None = None,
    stdout: str | None = None,
    duration_ms: int | None = None,
    namespace: str | None = None,
    created_at: Timestamp | None = None,
    **fields: Any,
) -> Grain:
    """Make an action. Its phase decides which fields it needs; see ``registry.PHASES``.

    Args:
        action_phase: Phase of the action: definition, call or result; absent: all in one.
        tool_name: Name of the tool.
        tool_description: Purpose of the tool, for the agent that chooses it.
        input_schema: JSON Schema of the tool's arguments.
        input: Arguments of the call, by name.
        tool_call_id: Identifier that links a result to its call.
        content: Result of the tool, of any kind.
        is_error: Whether the action failed.
        error: Error message of a failed action.
        derived_from: Addresses of the grains that this one was made from.
        execution_mode: Kind of execution: function call, code, or use of a computer.
        code: Source code that was run.
        stdout: Standard output of the code.
        duration_ms: How long the action took, ms.
        namespace: Partition that the grain belongs to; its hash is in the header.
        created_at: When the grain was made, epoch ms; its whole seconds are also in the header.
            None: now.
        **fields: any other field, by its full name.

    Spec: OMS §8.5
    """
    return _grain("action", locals())


def Observation(
    *,
    observer_id: str,
    observer_type: str,
    subject: str | None = None,
    object: Any = None,
    confidence: float | None = None,
    frame_id: str | None = None,
    sync_group: str | None = None,
    observation_mode: str | None = None,
    observation_scope: str | None = None,
    observer_model: str | None = None,
    namespace: str | None = None,
    created_at: Timestamp | None = None,
    **fields: Any,
) -> Grain:
    """Make an observation.

    Args:
        observer_id: Identifier of the observer: a sensor's serial or path, an agent's DID.
        observer_type: Kind of observer; your own kinds take a prefix, such as acme:sonar.
        subject: Entity that the grain is about; the first part of the triple.
        object: Value or entity that the relation leads to; the third part of the triple.
        confidence: Confidence in the content, 0..1.
        frame_id: Frame that the reading is relative to: a coordinate frame, a thread.
        sync_group: Identifier shared by observations of the same moment.
        observation_mode: Mode of observation: passive, active, reflective, in real time.
        observation_scope: Observed span of time: a point, an interval, a session, longer.
        observer_model: Model or software version of a machine observer.
        namespace: Partition that the grain belongs to; its hash is in the header.
        created_at: When the grain was made, epoch ms; its whole seconds are also in the header.
            None: now.
        **fields: any other field, by its full name.

    Spec: OMS §8.6
    """
    return _grain("observation", locals())


def Goal(
    *,
    description: str,
    goal_state: Literal["active", "satisfied", "failed", "suspended"],
    subject: str | None = None,
    priority: int | None = None,
    criteria: Sequence[str] | None = None,
    parent_goals: Sequence[str] | None = None,
    depends_on: Sequence[str] | None = None,
    assigned_agent: str | None = None,
    deadline: Timestamp | None = None,
    namespace: str | None = None,
    user_id: str | None = None,
    created_at: Timestamp | None = None,
    **fields: Any,
) -> Grain:
    """Make a goal.

    Args:
        description: The wanted outcome, in words.
        goal_state: State of the goal.
        subject: Entity that the grain is about; the first part of the triple.
        priority: Urgency as a whole number: 1 critical to 5 low.
        criteria: Conditions of success, in words.
        parent_goals: Addresses of the goals that this one is a part of.
        depends_on: Addresses of the goals that must be satisfied before this one is active.
        assigned_agent: DID of the agent that works on the goal.
        deadline: Time by which the goal must be met, epoch ms.
        namespace: Partition that the grain belongs to; its hash is in the header.
        user_id: Person that the grain belongs to; has one encryption key, and can be erased.
        created_at: When the grain was made, epoch ms; its whole seconds are also in the header.
            None: now.
        **fields: any other field, by its full name.

    Spec: OMS §8.7
    """
    return _grain("goal", locals())


def Reasoning(
    *,
    premises: Sequence[str] | None = None,
    conclusion: str | None = None,
    inference_method: str | None = None,
    alternatives_considered: Sequence[Mapping[str, Any]] | None = None,
    thinking_content: str | None = None,
    requires_human_review: bool | None = None,
    derived_from: Sequence[str] | None = None,
    namespace: str | None = None,
    created_at: Timestamp | None = None,
    **fields: Any,
) -> Grain:
    """Make a reasoning.

    Args:
        premises: Basis of the inference, usually addresses of grains.
        conclusion: Conclusion of the inference.
        inference_method: Kind of inference.
        alternatives_considered: Hypotheses rejected, each a map of hypothesis and
            rejection_reason.
        thinking_content: The model's own trace of its thinking.
        requires_human_review: True: no automated action on the grain until a person has approved
            it.
        derived_from: Addresses of the grains that this one was made from.
        namespace: Partition that the grain belongs to; its hash is in the header.
        created_at: When the grain was made, epoch ms; its whole seconds are also in the header.
            None: now.
        **fields: any other field, by its full name.

    Spec: OMS §8.8
    """
    return _grain("reasoning", locals())


def Consensus(
    *,
    participating_observers: Sequence[str],
    threshold: int,
    agreement_count: int,
    dissent_count: int,
    agreed_content: Any = None,
    dissent_grains: Sequence[str] | None = None,
    namespace: str | None = None,
    created_at: Timestamp | None = None,
    **fields: Any,
) -> Grain:
    """Make a consensus.

    Args:
        participating_observers: Identifiers of the voters, usually DIDs.
        threshold: Number of votes that agreement needs.
        agreement_count: Number of votes for the claim.
        dissent_count: Number of votes against the claim.
        agreed_content: The agreed claim.
        dissent_grains: Addresses of the grains of the voters who disagreed.
        namespace: Partition that the grain belongs to; its hash is in the header.
        created_at: When the grain was made, epoch ms; its whole seconds are also in the header.
            None: now.
        **fields: any other field, by its full name.

    Spec: OMS §8.9
    """
    return _grain("consensus", locals())


def Consent(
    *,
    subject_did: str,
    grantee_did: str,
    scope: Sequence[str],
    is_withdrawal: bool,
    prior_consent: str | None = None,
    basis: str | None = None,
    jurisdiction: str | None = None,
    valid_from: Timestamp | None = None,
    valid_to: Timestamp | None = None,
    namespace: str | None = None,
    user_id: str | None = None,
    created_at: Timestamp | None = None,
    **fields: Any,
) -> Grain:
    """Make a consent. A withdrawal needs ``prior_consent``.

    Args:
        subject_did: DID of the subject of the grain; in a consent, of the person who consents.
        grantee_did: DID of the party that receives the permission.
        scope: Operations that are permitted.
        is_withdrawal: True: withdraws prior_consent; false: gives consent.
        prior_consent: Address of the consent that this one replaces or withdraws.
        basis: Legal basis of the processing.
        jurisdiction: Law that applies to the consent.
        valid_from: Time from which the content is true in the world, epoch ms; absent: open.
        valid_to: Time until which the content is true in the world, epoch ms; absent: open.
        namespace: Partition that the grain belongs to; its hash is in the header.
        user_id: Person that the grain belongs to; has one encryption key, and can be erased.
        created_at: When the grain was made, epoch ms; its whole seconds are also in the header.
            None: now.
        **fields: any other field, by its full name.

    Spec: OMS §8.10
    """
    return _grain("consent", locals())


def __dir__() -> list[str]:
    return __all__
