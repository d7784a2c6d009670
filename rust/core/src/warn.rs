// SPDX-License-Identifier: Apache-2.0
//! Warnings about what is allowed, but looks like a mistake.

use crate::check::millis;
use crate::fields::Fields;
use crate::profiles::Tags;
use crate::registry::{ACTION, FIELDS, Field, MG_RELATIONS, OBSERVATION, WORKFLOW, id};
use crate::value::{Node, View};
use crate::{Result, address, check};
use alloc::{borrow::ToOwned as _, string::String, vec::Vec};

/// Names and short keys of a later OMS, with its version; for any type, or for one only. The list
/// leaves out plain words (`name`, `kind`, `config`) of types that OMS 1.2 does not have.
const LATER: [(&str, Option<u8>, &[&str]); 6] = [
    ("OMS 1.4", None, &["embedding_text", "et"]),
    ("OMS 1.4", Some(WORKFLOW), &["nodes", "edges", "bindings", "bind", "retries"]),
    ("OMS 1.4", Some(ACTION), &["tool_phase"]),
    (
        "OMS 1.4",
        None,
        &[
            "when_to_use",
            "wtu",
            "skname",
            "instr",
            "sver",
            "allowed_tools",
            "atls",
            "holder_did",
            "hdid",
            "proficiency",
            "prof",
            "practice_count",
            "prcnt",
            "last_practiced_at",
            "lpa",
            "strategies",
            "strat",
            "transferable",
            "xfer",
            "input_modalities",
            "imod",
            "output_modalities",
            "omod",
        ],
    ),
    (
        "OMS 1.5",
        None,
        &[
            "rec_status",
            "rstat",
            "target_ref",
            "tref",
            "analyzer",
            "anlz",
            "summ",
            "dedup_key",
            "ddk",
            "proposal_cal",
            "pcal",
            "proposal_edit",
            "pedit",
            "proposal_data",
            "pdata",
            "sev",
            "metric_snapshot",
            "msnap",
            "evidence_query",
            "evq",
        ],
    ),
    (
        "OMS 1.6",
        None,
        &[
            "aknd",
            "twf",
            "tcon",
            "tscp",
            "tena",
            "tdk",
            "interval_secs",
            "tint",
            "tcron",
            "at_ms",
            "tat",
            "tpred",
            "tmem",
            "correlate",
            "tcorr",
            "window_ms",
            "twin",
            "tconc",
            "catchup",
            "tcatch",
            "tcfg",
        ],
    ),
];

/// Types of a later OMS, by name and byte.
const LATER_TYPES: [(&str, u8, &str); 3] =
    [("skill", 0x0b, "OMS 1.4"), ("recommendation", 0x0c, "OMS 1.5"), ("trigger", 0x0d, "OMS 1.6")];

/// The name and short key of `contradicted`, which OMS 1.1 had.
const REMOVED: [&str; 2] = ["contradicted", "ct"];

/// The first version of OMS that has a type of this name.
pub(crate) fn version_of_type(name: &str) -> Option<&'static str> {
    LATER_TYPES.iter().find(|later| later.0 == name).map(|later| later.2)
}

/// Warns about an opaque grain whose type byte a later OMS defines.
pub(crate) fn later_type(byte: u8, warnings: &mut Vec<String>) {
    if let Some((name, _, version)) = LATER_TYPES.iter().find(|later| later.1 == byte) {
        warnings.push(format!("type byte {byte:#04x} is {name} of {version}; its fields are not checked"));
    }
}

/// The warning about a name or a short key that only another version of OMS has.
fn of_another_version(name: &str, type_byte: u8) -> Option<String> {
    if REMOVED.contains(&name) {
        return Some(format!("{name:?} was removed in OMS 1.2: contest the grain in a store instead"));
    }
    let is_it = |later: &&(&str, Option<u8>, &[&str])| {
        later.1.is_none_or(|byte| byte == type_byte) && later.2.contains(&name)
    };
    LATER.iter().find(is_it).map(|(version, ..)| format!("{name:?} is a field of {version}, not of OMS 1.2"))
}

/// Appends the warnings of a grain.
///
/// # Errors
/// Those of the source.
pub fn collect<K: AsRef<str>, N: Node>(
    fields: &Fields<K, N>,
    tags: &Tags,
    warnings: &mut Vec<String>,
) -> Result<()> {
    warnings.extend(tags.unknown.iter().cloned());
    for entry in &fields.entries {
        let Some(spec) = entry.field else {
            if let Some(said) = of_another_version(entry.key.as_str(), fields.type_byte) {
                warnings.push(said);
            } else if let Some(near) = nearest(entry.key.as_str(), tags) {
                warnings.push(format!("unknown field {:?}: did you mean {near:?}?", entry.key.as_str()));
            }
            continue;
        };
        if let Some(said) = inner(entry.id, &entry.node)? {
            warnings.push(said.to_owned());
        }
        if spec.listed.is_empty() {
            continue;
        }
        if let View::Str(value) = entry.node.view()?
            && let Some(near) = near_listed(spec, value)
        {
            warnings.push(format!("{}: did you mean {near:?}?", spec.name));
        }
    }
    if let Some(relation) = fields.text(id::RELATION)?
        && relation.starts_with("mg:")
        && !MG_RELATIONS.contains(&relation)
    {
        warnings.push("relation: an unknown mg: relation".to_owned());
    }
    if fields.type_byte == OBSERVATION {
        observer(fields, warnings)?;
    }
    if let Some(entry) = fields.get(id::CREATED_AT)
        && millis(&entry.node.view()?).is_ok_and(is_early)
    {
        warnings.push(
            "created_at: a time before March 1973; is it in seconds instead of milliseconds?".to_owned(),
        );
    }
    if let Some(entry) = fields.get(id::INVALIDATION_POLICY) {
        policy(&entry.node, warnings)?;
    }
    Ok(())
}

/// Whether a time in ms is more likely in seconds: until the year 5138, times in seconds are below
/// this.
pub(crate) fn is_early(ms: i64) -> bool {
    (1..100_000_000_000).contains(&ms)
}

/// Warns about a policy that can never be met. The store treats a malformed policy as locked.
fn policy<N: Node>(node: &N, warnings: &mut Vec<String>) -> Result<()> {
    let (mut mode, mut fallback) = (String::new(), String::new());
    let (mut threshold, mut named) = (0, Vec::<String>::new());
    node.each_entry(&mut |key, value| {
        match (key.as_ref(), value.view()?) {
            ("mode", View::Str(text)) => text.clone_into(&mut mode),
            ("fallback_mode", View::Str(text)) => text.clone_into(&mut fallback),
            ("threshold", View::Int(count)) => threshold = count,
            ("authorized", View::List) => value.each_item(&mut |item| {
                if let View::Str(did) = item.view()? {
                    named.push(did.to_owned());
                }
                Ok(())
            })?,
            _ => {}
        }
        Ok(())
    })?;
    named.sort_unstable();
    named.dedup();
    match if mode == "timed" { &*fallback } else { &*mode } {
        "quorum" if threshold > i64::try_from(named.len()).unwrap_or(i64::MAX) => warnings.push(format!(
            "invalidation_policy: {} authorized DIDs can never give the {threshold} signatures of its threshold",
            named.len()
        )),
        "locked" if !named.is_empty() => warnings.push(
            "invalidation_policy: a locked grain allows no change, so its authorized list has no effect"
                .to_owned(),
        ),
        _ => {}
    }
    Ok(())
}

fn observer<K: AsRef<str>, N: Node>(fields: &Fields<K, N>, warnings: &mut Vec<String>) -> Result<()> {
    if fields.text(id::OBSERVATION_MODE)? == Some(REFLECTIVE) && fields.get(id::OBSERVATION_SCOPE).is_none() {
        warnings.push("observation_scope is missing for an observation of mode \"reflective\"".to_owned());
    }
    let Some(kind) = fields.text(id::OBSERVER_TYPE)? else { return Ok(()) };
    let listed = FIELDS[usize::from(id::OBSERVER_TYPE)].listed;
    if thinks(kind) && fields.get(id::OBSERVER_MODEL).is_none() {
        warnings.push(format!("observer_model is missing for an observer of type {kind:?}"));
    }
    if !listed.contains(&kind) && !kind.contains(':') {
        warnings.push("observer_type: a custom type needs a prefix, such as \"lab:spectrometer\"".to_owned());
    }
    Ok(())
}

/// The mode of an observation that should have a scope.
pub(crate) const REFLECTIVE: &str = "reflective";

/// Defects inside a field whose members no rule refuses.
pub(crate) fn inner<N: Node>(id: u8, node: &N) -> Result<Option<&'static str>> {
    match (id, node.view()?) {
        (id::OWNER, View::Map) => {
            let named = |key: &str, view: View<'_>| {
                key == "name" && matches!(view, View::Str(name) if !name.is_empty())
            };
            Ok((!any(node, named)?).then_some("owner: the name is missing"))
        }
        (id::PROVENANCE_CHAIN, View::List) => {
            let mut good = true;
            node.each_item(&mut |step| {
                let source = |key: &str, view: View<'_>| {
                    key == "source_hash" && matches!(view, View::Str(text) if address::is_address(text))
                };
                let method = |key: &str, view: View<'_>| {
                    key == "method" && matches!(view, View::Str(text) if !text.is_empty())
                };
                let heavy = |key: &str, view: View<'_>| key == "weight" && !is_share(&view);
                good &= any(&step, source)? && any(&step, method)? && !any(&step, heavy)?;
                Ok(())
            })?;
            Ok((!good)
                .then_some("provenance_chain: each step needs source_hash (an address) and method; weight is from 0 to 1"))
        }
        (id::TOKEN_USAGE, View::Map) => {
            let wrong = |key: &str, view: View<'_>| {
                key.ends_with("_tokens") && !matches!(view, View::Int(0..) | View::UInt(_) | View::Null)
            };
            Ok(any(node, wrong)?
                .then_some("token_usage: a number of tokens must be a whole number, 0 or more"))
        }
        (id::CONTENT_REFS | id::DERIVED_FROM, View::List) => {
            let mut good = true;
            node.each_item(&mut |item| {
                if matches!(item.view()?, View::Map) && check::is_citation(&item)? {
                    good &= !any(&item, is_odd)?;
                }
                Ok(())
            })?;
            Ok((!good).then_some(
                "a citation needs a citation_type and a citation_role of OMS, retrieved_at in ms, content_hash as text",
            ))
        }
        _ => Ok(None),
    }
}

/// Whether a member of a citation differs from OMS. Spec: OMS §27.5
fn is_odd(key: &str, view: View<'_>) -> bool {
    let known: &[&str] = match key {
        "citation_type" => &["doi", "arxiv", "pmid", "isbn", "rrid", "clinicaltrials", "url"],
        "citation_role" => &["supports", "refutes", "extends", "replicates", "uses_data", "uses_software"],
        "retrieved_at" => return !matches!(view, View::Int(_) | View::Null),
        "content_hash" => return !matches!(view, View::Str(_) | View::Null),
        _ => return false,
    };
    !matches!(view, View::Str(text) if known.contains(&text)) && view != View::Null
}

fn is_share(view: &View<'_>) -> bool {
    match view {
        View::Null | View::Int(0..=1) => true,
        View::Float(share) => (0.0..=1.0).contains(share),
        _ => false,
    }
}

/// Whether any entry of a map has this property; false for a value that is not a map.
fn any<N: Node>(node: &N, is_so: impl Fn(&str, View<'_>) -> bool) -> Result<bool> {
    let mut found = false;
    if matches!(node.view()?, View::Map) {
        node.each_entry(&mut |key, value| {
            found |= is_so(key.as_ref(), value.view()?);
            Ok(())
        })?;
    }
    Ok(found)
}

/// Whether an observer of this type is a model, which should have a name.
pub(crate) fn thinks(kind: &str) -> bool {
    ["llm", "reflector", "classifier", "detector"].contains(&kind)
}

/// The listed value that is one edit away from another value.
pub(crate) fn near_listed(spec: &Field, value: &str) -> Option<&'static str> {
    if spec.listed.contains(&value) {
        return None;
    }
    spec.listed.iter().find(|known| one_edit(known, value)).copied()
}

/// Whether an unknown name needs a warning if the grain declares no profile.
pub(crate) fn warns_of(name: &str, type_byte: u8) -> bool {
    of_another_version(name, type_byte).is_some() || nearest(name, &Tags::default()).is_some()
}

/// The known field that is one edit away from a name.
fn nearest(name: &str, tags: &Tags) -> Option<&'static str> {
    let near = |f: &&'static Field| one_edit(f.name, name);
    if name.contains(':') {
        // A prefix is deliberate; only a declared profile defines the names after it.
        return tags.profiles.iter().flat_map(|p| p.fields).find(near).map(|f| f.name);
    }
    FIELDS.iter().find(near).map(|f| f.name)
}

/// Whether one insertion, deletion, substitution or swap of neighbours turns `a` into `b`.
fn one_edit(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a == b || a.len().abs_diff(b.len()) > 1 || a.len().min(b.len()) < 3 {
        return false;
    }
    let head = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let (a, b) = (&a[head..], &b[head..]);
    let tail = a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| x == y).count();
    let (a, b) = (&a[..a.len() - tail], &b[..b.len() - tail]);
    match (a, b) {
        ([_], []) | ([], [_]) | ([_], [_]) => true,
        ([x, y], [u, v]) => x == v && y == u,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::one_edit;

    #[test]
    fn edits() {
        for near in ["confidnce", "confidencee", "confidance", "cofnidence", "onfidence"] {
            assert!(one_edit("confidence", near), "{near}");
        }
        for far in ["confidence", "confdnce", "x", "", "confidence_level", "noc"] {
            assert!(!one_edit("confidence", far), "{far}");
        }
        assert!(one_edit("aaab", "aaaab"));
    }
}
