// SPDX-License-Identifier: Apache-2.0
//! What is allowed, but looks like a mistake.

use crate::Result;
use crate::check::millis;
use crate::fields::Fields;
use crate::profiles::Tags;
use crate::registry::{FIELDS, Field, MG_RELATIONS, OBSERVATION, id};
use crate::value::{Node, View};
use alloc::{borrow::ToOwned as _, string::String, vec::Vec};

/// Appends the warnings of a grain.
///
/// # Errors
/// The source's own.
pub fn collect<K: AsRef<str>, N: Node>(
    fields: &Fields<K, N>,
    tags: &Tags,
    warnings: &mut Vec<String>,
) -> Result<()> {
    warnings.extend(tags.unknown.iter().cloned());
    for entry in &fields.entries {
        let Some(spec) = entry.field else {
            if let Some(near) = nearest(entry.key.as_str(), tags) {
                warnings.push(format!("unknown field {:?}: did you mean {near:?}?", entry.key.as_str()));
            }
            continue;
        };
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
        warnings.push("relation: not one of the mg: relations".to_owned());
    }
    if fields.type_byte == OBSERVATION {
        observer(fields, warnings)?;
    }
    if let Some(entry) = fields.get(id::CREATED_AT)
        && millis(&entry.node.view()?).is_ok_and(is_early)
    {
        warnings
            .push("created_at: a time before March 1973; were seconds given for milliseconds?".to_owned());
    }
    if let Some(entry) = fields.get(id::INVALIDATION_POLICY) {
        policy(&entry.node, warnings)?;
    }
    Ok(())
}

/// Whether a time in ms is more likely one in seconds: until the year 5138 those are below this.
pub(crate) fn is_early(ms: i64) -> bool {
    (1..100_000_000_000).contains(&ms)
}

/// Warns of a policy that nobody can ever meet. What is malformed, the store treats as locked.
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
            "invalidation_policy: a locked grain lets nobody through, so its authorized list is never used"
                .to_owned(),
        ),
        _ => {}
    }
    Ok(())
}

fn observer<K: AsRef<str>, N: Node>(fields: &Fields<K, N>, warnings: &mut Vec<String>) -> Result<()> {
    let Some(kind) = fields.text(id::OBSERVER_TYPE)? else { return Ok(()) };
    let listed = FIELDS[usize::from(id::OBSERVER_TYPE)].listed;
    if thinks(kind) && fields.get(id::OBSERVER_MODEL).is_none() {
        warnings.push(format!("observer_model is missing for an observer of type {kind:?}"));
    }
    if !listed.contains(&kind) && !kind.contains(':') {
        warnings.push("observer_type: a custom type wants a prefix, such as \"lab:spectrometer\"".to_owned());
    }
    Ok(())
}

/// Whether an observer of this type is a model, which should be named.
pub(crate) fn thinks(kind: &str) -> bool {
    ["llm", "reflector", "classifier", "detector"].contains(&kind)
}

/// The listed value that another value is one edit away from.
pub(crate) fn near_listed(spec: &Field, value: &str) -> Option<&'static str> {
    if spec.listed.contains(&value) {
        return None;
    }
    spec.listed.iter().find(|known| one_edit(known, value)).copied()
}

/// Whether an unknown name is warned of where no profile is declared.
pub(crate) fn is_near(name: &str) -> bool {
    nearest(name, &Tags::default()).is_some()
}

/// The known field that a name is one edit away from.
fn nearest(name: &str, tags: &Tags) -> Option<&'static str> {
    let near = |f: &&'static Field| one_edit(f.name, name);
    if name.contains(':') {
        // A prefixed name is meant; only a declared profile says what it may be.
        return tags.profiles.iter().flat_map(|p| p.fields).find(near).map(|f| f.name);
    }
    FIELDS.iter().find(near).map(|f| f.name)
}

/// Whether one insertion, deletion, substitution or swap of neighbours makes `b` of `a`.
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
