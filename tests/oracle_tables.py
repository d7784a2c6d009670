# SPDX-License-Identifier: Apache-2.0
"""The oracle's own tables, kept apart from the core's so that a slip in one shows in the other."""

from __future__ import annotations


def _pairs(text: str) -> dict[str, str]:
    return {name: short for name, short in (pair.split("=") for pair in text.split())}


#: Full name -> short key, where the two differ.
SHORT = _pairs("""
    type=t subject=s relation=r object=o confidence=c source_type=st created_at=ca
    temporal_type=tt valid_from=vf valid_to=vt system_valid_from=svf system_valid_to=svt
    context=ctx superseded_by=sb importance=im author_did=adid namespace=ns user_id=user
    structural_tags=tags derived_from=df consolidation_level=cl success_count=sc
    failure_count=fc provenance_chain=pc origin_did=odid origin_namespace=ons content_refs=cr
    embedding_refs=er related_to=rt _elided=_e _disclosure_of=_do invalidation_policy=ip
    supersession_justification=sj supersession_auth=sa owner=own category=cat run_id=rid
    access_count=ac last_accessed_at=laa timestamp_ms=tms observer_did=obsdid subject_did=sdid
    session_id=sid2 entity_id=eid epistemic_status=epstat verification_status=vstatus
    requires_human_review=rhr processing_basis=pbasis identity_state=idst license=lic
    trusted_timestamp=tts invalidation_type=itype invalidation_reason=ireason
    invalidation_initiator=iinit retention_policy=rpol recall_priority=rpri
    authorized_namespaces=ans authorized_types=atypes authorized_tools=atools
    delegation_depth=ddepth delegation_expiry=dexp context_grains=cgrains return_to=retdid
    content_blocks=cblocks model_id=mdl stop_reason=stopr token_usage=toku
    parent_message_id=pmid
    action_phase=aphase tool_name=tn input=inp is_error=iserr tool_call_id=tcid
    call_batch_id=cbid tool_type=ttype tool_version=tver execution_mode=emode stdout=out
    stderr=err2 exit_code=xc interpreter_id=iid error=err error_type=etype duration_ms=dur
    parent_task_id=ptid tool_description=tdesc input_schema=isch output_schema=osch
    observer_id=oid observer_type=otype frame_id=fid sync_group=sg observation_mode=omode
    observation_scope=oscope observer_model=omdl compression_ratio=ocmp
    description=desc goal_state=gs criteria=crit criteria_structured=crs priority=pri
    parent_goals=pgs state_reason=sr satisfaction_evidence=se progress=prog delegate_to=dto
    delegate_from=dfo expiry_policy=ep recurrence=rec evidence_required=evreq
    rollback_on_failure=rof allowed_transitions=atr depends_on=depg assigned_agent=asgn
    expected_output=expout output_grain=outg deadline=dline
    premises=prem conclusion=conc inference_method=imethod alternatives_considered=altc
    thinking_content=think thinking_redacted=tredact statistical_context=statctx
    software_environment=swenv parameter_set=params random_seed=rseed
    participating_observers=pobs threshold=thold agreement_count=agcnt dissent_count=discnt
    dissent_grains=disgrn agreed_content=agcon
    grantee_did=gdid is_withdrawal=isw jurisdiction=jur prior_consent=pcon witness_dids=wdids
""")

#: Known fields whose short key is the name itself.
SAME = frozenset(
    "role content consolidated plan history steps trigger code strict scope basis".split()
)

#: The one field whose short key depends on the grain type.
BY_TYPE = {("action", "content"): "cnt"}

#: Field -> the table of its entries.
NESTED = {
    "content_refs": _pairs("uri=u modality=m mime_type=mt size_bytes=sz checksum=ck metadata=md"),
    "embedding_refs": _pairs("""
    vector_id=vi model=mo dimensions=dm modality_source=ms distance_metric=di
    chunk_index=ci chunk_text=ct chunk_strategy=cs chunk_overlap=co
    """),
    "related_to": _pairs("hash=h relation_type=rl weight=w"),
}

#: Also of an entry: related_to's weight.
FLOAT64 = frozenset({"confidence", "importance", "compression_ratio", "progress", "weight"})

DATETIME = frozenset(
    "created_at valid_from valid_to system_valid_from system_valid_to last_accessed_at"
    " timestamp_ms delegation_expiry deadline".split()
)

#: Datetime fields of a domain profile, only where the tag ``profile:<name>`` stands.
PROFILE_DATETIME = {
    "legal": ("legal:effective_date", "legal:expiry_date"),
    "finance": ("fin:market_timestamp",),
}

TYPES = "belief event state workflow action observation goal reasoning consensus consent".split()
TYPE_BYTE = {name: byte for byte, name in enumerate(TYPES, 1)}

#: Older (and one later) name -> the name of OMS 1.2.
OLD_NAMES = _pairs("fact=belief episode=event checkpoint=state tool_call=action tool=action")

#: The type names of OMS 1.1: only under these do the aliases below count.
NAMES_1_1 = frozenset("fact episode checkpoint tool_call workflow observation goal".split())

#: 1.2 type -> alias -> (field, negated).
ALIASES = {
    "action": {
        "arguments": ("input", False),
        "args": ("input", False),
        "result": ("content", False),
        "res": ("content", False),
        "success": ("is_error", True),
        "ok": ("is_error", True),
    },
    "observation": {
        "sensor_id": ("observer_id", False),
        "sid": ("observer_id", False),
        "sensor_type": ("observer_type", False),
        "stype": ("observer_type", False),
    },
}

#: Tag prefix -> the least sensitivity it asks for.
TAG_LEVEL = {"phi:": 3, "pii:": 2, "sec:": 2, "legal:": 2, "reg:": 1}
