// SPDX-License-Identifier: Apache-2.0
//! Whether one scalar passes its step; `read` and `write` share the check.

use crate::fields::Side;
use crate::header::seconds;
use crate::registry::{Field, MG_RELATIONS, PHI_TAGS, id};
use crate::value::View;
use crate::{address, check, datetime, profiles, warn};

use super::plan::Step;
use super::plan::{Need, Rule, Word};

/// Whether a scalar other than null passes. Containers never pass here: the writer and the reader
/// walk their steps (`Texts`, `Tags`, `Object`, `Any`, `General`). They also check that text is in
/// NFC.
#[inline]
pub fn passes(step: &Step, view: &View<'_>, side: Side) -> bool {
    match (&step.rule, view) {
        (_, View::Str("")) if step.need == Need::Filled => false,
        (Rule::Fixed(text), View::Str(value)) => **text == **value,
        (Rule::Text(word), View::Str(text)) => is_word(*word, text),
        (Rule::OneOf(known), View::Str(text)) => known.contains(text),
        (Rule::Mode(known), View::Str(text)) => known.contains(text) && *text != warn::REFLECTIVE,
        (Rule::Listed(field), View::Str(text)) => is_listed(field, text),
        (Rule::Relation, View::Str(text)) => !text.starts_with("mg:") || MG_RELATIONS.contains(text),
        (Rule::Observer(model), View::Str(kind)) => observer(*model, kind),
        (Rule::Bool, View::Bool(_)) => true,
        (Rule::False, View::Bool(flag)) => !flag,
        (Rule::Bytes, View::Bytes(_)) => true,
        (Rule::Int(low, high, known), View::Int(i)) => {
            (known.is_empty() || known.contains(i)) && (*low..=*high).contains(&(*i as f64))
        }
        (Rule::Int(low, high, known), View::UInt(u)) => {
            known.is_empty() && (*low..=*high).contains(&(*u as f64))
        }
        (Rule::Int64, View::Int(_)) => true,
        (Rule::UInt8, View::Int(i)) => (0..=255).contains(i),
        (Rule::Float(low, high) | Rule::Number(low, high), View::Float(f)) => (*low..=*high).contains(f),
        (Rule::Number(low, high), View::Int(i)) => (*low..=*high).contains(&(*i as f64)),
        (Rule::Float(low, high), View::Int(i)) => {
            side == Side::Write && (*low..=*high).contains(&(*i as f64))
        }
        (Rule::Datetime(low, high), View::Int(ms)) => {
            (*low..=*high).contains(&(*ms as f64)) && (step.id != id::CREATED_AT || created(*ms).is_some())
        }
        (Rule::Datetime(..), View::Str(text)) => {
            side == Side::Write
                && datetime::parse_rfc3339(text)
                    .is_some_and(|ms| step.id != id::CREATED_AT || created(ms).is_some())
        }
        (Rule::Object | Rule::Any, View::Str(_)) => true,
        (Rule::Any, View::Bool(_) | View::Int(_) | View::UInt(_) | View::Bytes(_)) => true,
        (Rule::Any, View::Float(f)) => f.is_finite(),
        _ => false,
    }
}

/// The whole seconds of a `created_at` that fits the header and needs no warning.
#[inline]
pub fn created(ms: i64) -> Option<u32> {
    if warn::is_early(ms) { None } else { seconds(ms) }
}

/// Whether a text is of this kind.
#[inline]
pub fn is_word(word: Word, text: &str) -> bool {
    match word {
        Word::Any => true,
        Word::Did => check::is_did(text),
        Word::Address => address::is_address(text),
    }
}

/// The sensitivity that a tag requires; None for tags that declare a profile or need a warning.
#[inline]
pub fn tag_level(tag: &str) -> Option<u8> {
    // Most tags are short and have no prefix: comparing bytes is cheaper than starting a search.
    if !tag.bytes().any(|b| b == b':') {
        return Some(0);
    }
    match tag.split_once(':') {
        Some(("profile", _)) => None,
        Some(("phi", name)) if !PHI_TAGS.contains(&name) => None,
        Some((prefix, _)) => Some(profiles::level(prefix)),
        None => Some(0),
    }
}

fn is_listed(field: &Field, text: &str) -> bool {
    field.listed.contains(&text) || warn::near_listed(field, text).is_none()
}

/// A listed type needs no warning, and does not open the enums as a trigger does.
fn observer(model: bool, kind: &str) -> bool {
    let listed = crate::registry::field(id::OBSERVER_TYPE).listed.contains(&kind);
    listed && if model { kind != "human" } else { !warn::thinks(kind) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Encoding;
    use crate::shape_cache::Plan;

    fn pass(names: &[&str], kind: &'static str, name: &str, view: &View<'_>) -> bool {
        let plan = Plan::learn(Side::Write, names, &|_| Some(kind)).unwrap();
        let step = plan.steps(Encoding::Msgpack).iter().find(|s| s.field.is_some_and(|f| f.name == name));
        passes(step.unwrap(), view, Side::Write)
    }

    #[test]
    fn scalars() {
        let belief = [
            "type",
            "subject",
            "relation",
            "object",
            "confidence",
            "created_at",
            "author_did",
            "source_type",
            "category",
            "success_count",
        ];
        let pass = |name, view| pass(&belief, "belief", name, &view);
        assert!(pass("type", View::Str("belief")) && !pass("type", View::Str("fact")));
        assert!(pass("subject", View::Str("x")) && !pass("subject", View::Str("")));
        assert!(pass("object", View::Str("")) && !pass("object", View::Map) && !pass("object", View::Int(1)));
        assert!(pass("relation", View::Str("mg:knows")) && !pass("relation", View::Str("mg:nothing")));
        assert!(pass("confidence", View::Float(1.0)) && pass("confidence", View::Int(1)));
        for bad in [View::Float(1.1), View::Float(f64::NAN), View::Int(2), View::Bool(true), View::Null] {
            assert!(!pass("confidence", bad));
        }
        assert!(pass("created_at", View::Int(1_768_471_200_000)) && !pass("created_at", View::Int(-1)));
        assert!(!pass("created_at", View::Int(1_768_471_200))); // a warning is due: seconds
        assert!(pass("created_at", View::Str("2026-01-15T10:00:00Z")) && !pass("created_at", View::Str("x")));
        assert!(pass("author_did", View::Str("did:a:b")) && !pass("author_did", View::Str("did:A:b")));
        assert!(pass("source_type", View::Str("sensor")) && pass("source_type", View::Str("other")));
        assert!(!pass("source_type", View::Str("senzor")), "it would be warned of");
        assert!(pass("category", View::Int(255)) && !pass("category", View::Int(256)));
        assert!(pass("success_count", View::UInt(u64::MAX)) && !pass("success_count", View::Int(-1)));
    }

    #[test]
    fn observers_and_consents() {
        let names = ["type", "created_at", "observer_id", "observer_type"];
        let with = [&names[..], &["observer_model"]].concat();
        let seen = |names: &[&str], kind| pass(names, "observation", "observer_type", &View::Str(kind));
        assert!(seen(&names, "lidar") && seen(&names, "human") && !seen(&names, "llm"));
        assert!(seen(&with, "llm") && !seen(&with, "human"));
        assert!(!seen(&names, "trigger:x") && !seen(&names, "lidars"));
        let names = ["type", "created_at", "subject_did", "grantee_did", "scope", "is_withdrawal"];
        let with = [&names[..], &["prior_consent"]].concat();
        let takes = |names: &[&str], flag| pass(names, "consent", "is_withdrawal", &View::Bool(flag));
        assert!(takes(&names, false) && !takes(&names, true) && takes(&with, true));
    }

    #[test]
    fn tags() {
        assert_eq!(["x", "a:b", "pii:x", "reg:x"].map(tag_level), [Some(0), Some(0), Some(2), Some(1)]);
        assert_eq!(["phi:name", "phi:other", "profile:healthcare"].map(tag_level), [Some(3), None, None]);
    }
}
