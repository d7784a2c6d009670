// SPDX-License-Identifier: Apache-2.0
//! The rules of the ten grain types. Spec: OMS §6, §8

use alloc::collections::BTreeSet;
use alloc::{string::String, string::ToString as _, vec::Vec};

use crate::check::{self, Around};
use crate::codec::Profile;
use crate::fields::{Entry, Fields};
use crate::header::{CONTENT_REFS, EMBEDDING_REFS, Facts, ns_hash, seconds};
use crate::registry::{self, FIELDS, Field, GrainType, Phase, UNKNOWN, id};
use crate::value::{Node, View};
use crate::{Code, Error, Result, address, profiles, text, warn};

/// Checks a whole grain and returns the facts for its header. `warnings` receives what is allowed
/// but looks like a mistake.
///
/// # Errors
/// The first broken rule, with the field.
pub fn validate<K: AsRef<str>, N: Node>(
    fields: &mut Fields<K, N>,
    profile: Profile,
    warnings: &mut Vec<String>,
) -> Result<Facts> {
    let tags = profiles::read_tags(fields)?;
    for entry in &fields.entries {
        if entry.field.is_some_and(|f| f.index_layer) {
            return Err(
                entry.place(Error::new(Code::Schema, "a field of the index layer is not allowed in a grain"))
            );
        }
    }
    if let Some(grain_type) = fields.grain_type {
        profiles::apply(fields, &tags);
        let elided = rules(fields, grain_type)?;
        if profile.lightweight {
            lightweight(fields, grain_type)?;
        }
        profiles::check(fields, &tags, &elided)?;
        warn::collect(fields, &tags, warnings)?;
    } else {
        warn::later_type(fields.type_byte, warnings);
        for entry in &fields.entries {
            if let Some(table) = entry.field.and_then(|f| f.nested) {
                check::nested_names(table, &entry.node, fields.side).map_err(|e| entry.place(e))?;
            }
        }
    }
    facts(fields, tags.sensitivity)
}

/// Checks the rules of the type, and returns the known fields that are elided.
fn rules<K: AsRef<str>, N: Node>(fields: &Fields<K, N>, grain_type: &'static GrainType) -> Result<Vec<u8>> {
    let trigger = fields.text(id::OBSERVER_TYPE)?.is_some_and(|t| t.starts_with("trigger:"));
    for entry in &fields.entries {
        let Some(spec) = entry.field else { continue };
        let open = trigger && [id::OBSERVATION_MODE, id::OBSERVATION_SCOPE].contains(&entry.id);
        let around = Around { side: fields.side, type_byte: fields.type_byte, open };
        if entry.negate {
            // The value of the old name is a bool, like that of the new name.
            check::field(&FIELDS[usize::from(entry.id)], &entry.node, around)
        } else {
            value(entry.id, spec, &entry.node, around)
        }
        .map_err(|e| entry.place(e))?;
    }
    let elided = elided(fields)?;
    let rules = Rules { fields, elided: &elided };
    for spec in FIELDS.iter().enumerate().filter(|(_, f)| f.required) {
        rules.required(spec.0 as u8)?;
    }
    for id in grain_type.required {
        rules.required(*id)?;
    }
    for id in grain_type.non_empty {
        if rules.is_empty(*id)? {
            return Err(empty(*id));
        }
    }
    rules.one_group_filled(grain_type.required_any)?;
    match grain_type.byte {
        registry::ACTION => rules.phase()?,
        registry::OBSERVATION => rules.observation()?,
        CONSENT => rules.consent()?,
        _ => {}
    }
    Ok(elided)
}

/// Checks the value of one field.
pub(crate) fn value<N: Node>(id: u8, spec: &Field, node: &N, around: Around) -> Result<()> {
    if id == id::DISCLOSURE_OF {
        return disclosure_of(node);
    }
    if id == id::DERIVED_FROM {
        return check::sources(node);
    }
    check::field(spec, node, around)?;
    if id == id::CONTENT_BLOCKS { content_blocks(node) } else { Ok(()) }
}

const CONSENT: u8 = 10;

struct Rules<'f, K, N> {
    fields: &'f Fields<K, N>,
    elided: &'f [u8],
}

impl<K: AsRef<str>, N: Node> Rules<'_, K, N> {
    /// An elided field counts as present. Spec: OMS §10
    fn has(&self, id: u8) -> bool {
        self.fields.get(id).is_some() || self.elided.contains(&id)
    }

    fn is_empty(&self, id: u8) -> Result<bool> {
        let Some(entry) = self.fields.get(id) else { return Ok(false) };
        Ok(match entry.node.view()? {
            View::Str(text) => text.is_empty(),
            View::List => entry.node.list_len() == 0,
            _ => false,
        })
    }

    fn required(&self, id: u8) -> Result<()> {
        if !self.has(id) {
            return Err(missing(id));
        }
        let text = matches!(FIELDS[usize::from(id)].kind, registry::Kind::Str | registry::Kind::Did);
        if text && self.is_empty(id)? { Err(empty(id)) } else { Ok(()) }
    }

    /// One of the groups is complete, without an empty value.
    fn one_group_filled(&self, groups: &[&[u8]]) -> Result<()> {
        let mut hollow = None;
        for group in groups {
            if !group.iter().all(|id| self.has(*id)) {
                continue;
            }
            let mut filled = true;
            for id in *group {
                // An object may be empty, as in a belief.
                if *id != id::OBJECT && self.is_empty(*id)? {
                    filled = false;
                    hollow.get_or_insert(*id);
                }
            }
            if filled {
                return Ok(());
            }
        }
        match (groups.first(), hollow) {
            (None, _) => Ok(()),
            (_, Some(id)) => Err(empty(id)),
            (Some(group), None) => Err(missing(group[0]).expected(in_words(groups))),
        }
    }

    fn phase(&self) -> Result<()> {
        // Without these, the applicable rules are unknown.
        if [id::ACTION_PHASE, id::EXECUTION_MODE].iter().any(|id| self.elided.contains(id)) {
            return Ok(());
        }
        let name = self.fields.text(id::ACTION_PHASE)?.unwrap_or("");
        let mode = self.fields.text(id::EXECUTION_MODE)?.unwrap_or("");
        let Some(phase) = registry::phase(name, mode) else { return Ok(()) };
        for id in phase.required {
            self.required(*id)?;
        }
        self.one_group_there(phase)?;
        for id in phase.forbidden {
            if let Some(entry) = self.fields.get(*id) {
                let message = format!("an action of phase {name:?} does not carry this field");
                return Err(entry.place(Error::new(Code::Schema, message)));
            }
        }
        Ok(())
    }

    fn one_group_there(&self, phase: &Phase) -> Result<()> {
        let groups = phase.required_any;
        if groups.is_empty() || groups.iter().any(|g| g.iter().all(|id| self.has(*id))) {
            return Ok(());
        }
        Err(missing(groups[0][0]).expected(in_words(groups)))
    }

    fn observation(&self) -> Result<()> {
        let human = self.fields.text(id::OBSERVER_TYPE)? == Some("human");
        match self.fields.get(id::OBSERVER_MODEL) {
            Some(entry) if human => {
                Err(entry.place(Error::new(Code::Schema, "a human observer must not have an observer_model")))
            }
            _ => Ok(()),
        }
    }

    fn consent(&self) -> Result<()> {
        let withdrawal = match self.fields.get(id::IS_WITHDRAWAL) {
            Some(entry) => entry.node.view()? == View::Bool(true),
            None => false,
        };
        if withdrawal && !self.has(id::PRIOR_CONSENT) {
            return Err(missing(id::PRIOR_CONSENT));
        }
        Ok(())
    }
}

#[cold]
fn missing(id: u8) -> Error {
    Error::new(Code::Schema, "a required field is missing").in_key(registry::field(id).name)
}

#[cold]
fn empty(id: u8) -> Error {
    Error::new(Code::Empty, "a required field is empty").in_key(registry::field(id).name)
}

fn in_words(groups: &[&[u8]]) -> String {
    let group = |g: &[u8]| g.iter().map(|id| registry::field(*id).name).collect::<Vec<_>>().join(" and ");
    groups.iter().map(|g| group(g)).collect::<Vec<_>>().join(", or ")
}

fn disclosure_of<N: Node>(node: &N) -> Result<()> {
    match node.view()? {
        View::Str(text) => address::parse(text.strip_prefix("sha256:").unwrap_or(text)).map(|_| ()),
        view => Err(crate::fields::wrong_kind(&view, "a string")),
    }
}

/// Each content block has a type. Spec: OMS §8.2
fn content_blocks<N: Node>(node: &N) -> Result<()> {
    let mut i = 0;
    node.each_item(&mut |block| {
        let mut typed = false;
        block.each_entry(&mut |key, value| {
            typed |= key.as_ref() == "type" && matches!(value.view()?, View::Str(_));
            Ok(())
        })?;
        i += 1;
        if typed {
            return Ok(());
        }
        Err(Error::new(Code::Schema, "a content block has no type").in_key("type").in_index(i - 1))
    })
}

/// The known fields in `_elided`, after checking their hashes. None of them may be shown too.
fn elided<K: AsRef<str>, N: Node>(fields: &Fields<K, N>) -> Result<Vec<u8>> {
    let Some(entry) = fields.get(id::ELIDED) else { return Ok(Vec::new()) };
    let shown: BTreeSet<&str> = fields.entries.iter().map(Entry::name).collect();
    let mut out = Vec::new();
    entry
        .node
        .each_entry(&mut |name, value| {
            if value.is_null() {
                return Ok(());
            }
            let name = &*text::nfc(name.as_ref())?;
            let id = registry::by_name(name, fields.type_byte);
            if id != UNKNOWN && !registry::field(id).elidable {
                return Err(Error::new(Code::Schema, "this field cannot be elided").in_key(name));
            }
            if shown.contains(name) {
                return Err(Error::new(Code::Schema, "the field is both shown and elided").in_key(name));
            }
            if let View::Str(text) = value.view()? {
                let hex = text.strip_prefix("sha256:").ok_or_else(|| {
                    Error::new(Code::HashFormat, "not the hash of an elided value")
                        .expected("sha256: and 64 hex digits")
                        .in_key(name)
                })?;
                address::parse(hex).map_err(|e| e.in_key(name))?;
            }
            out.push(id);
            Ok(())
        })
        .map_err(|e| entry.place(e))?;
    Ok(out)
}

/// The fields of the profile, and those that the type requires; never references to other content.
fn lightweight<K: AsRef<str>, N: Node>(fields: &Fields<K, N>, grain_type: &GrainType) -> Result<()> {
    let name = fields.text(id::ACTION_PHASE)?.unwrap_or("");
    let mode = fields.text(id::EXECUTION_MODE)?.unwrap_or("");
    let phase = (grain_type.byte == registry::ACTION).then(|| registry::phase(name, mode)).flatten();
    let carries = |id: u8| {
        let of_phase = |phase: &Phase| {
            [id::ACTION_PHASE, id::EXECUTION_MODE].contains(&id)
                || phase.required.contains(&id)
                || phase.required_any.iter().any(|group| group.contains(&id))
        };
        registry::LIGHTWEIGHT.contains(&id)
            || grain_type.required.contains(&id)
            || grain_type.required_any.iter().any(|group| group.contains(&id))
            || phase.is_some_and(of_phase)
            || (grain_type.byte == CONSENT && id == id::PRIOR_CONSENT)
    };
    let refused =
        |id: &u8| [id::DERIVED_FROM, id::PROVENANCE_CHAIN, id::CONTENT_REFS, id::EMBEDDING_REFS].contains(id);
    match fields.entries.iter().find(|e| !carries(e.id) || refused(&e.id)) {
        None => Ok(()),
        Some(entry) => Err(entry.place(
            Error::new(Code::Schema, "a lightweight grain must not have this field").expected(
                "type, subject, relation, object, confidence, created_at, namespace, and what the type requires",
            ),
        )),
    }
}

fn facts<K: AsRef<str>, N: Node>(fields: &Fields<K, N>, sensitivity: u8) -> Result<Facts> {
    let filled = |id: u8| fields.get(id).is_some_and(|e| e.node.list_len() > 0);
    let mut refs = 0;
    for (id, bit) in [(id::CONTENT_REFS, CONTENT_REFS), (id::EMBEDDING_REFS, EMBEDDING_REFS)] {
        refs |= if filled(id) { bit } else { 0 };
    }
    let namespace = text::nfc(fields.text(id::NAMESPACE)?.unwrap_or(""))?;
    let ns_hash = if namespace.is_empty() { 0 } else { ns_hash(&namespace) };
    let no_namespace = namespace.is_empty();
    Ok(Facts { refs, sensitivity, ns_hash, no_namespace, created_at: created_at(fields)? })
}

/// The time in whole seconds. An opaque grain may have a `created_at` of any kind.
fn created_at<K: AsRef<str>, N: Node>(fields: &Fields<K, N>) -> Result<u32> {
    let Some(entry) = fields.get(id::CREATED_AT) else { return Ok(0) };
    let opaque = fields.grain_type.is_none();
    let ms = match entry.node.view()? {
        View::Int(ms) | View::Instant(ms) => ms,
        _ if opaque => return Ok(0),
        view => check::millis(&view).map_err(|e| entry.place(e))?,
    };
    match seconds(ms) {
        Some(seconds) => Ok(seconds),
        None if opaque => Ok(0),
        None => Err(entry.place(
            Error::new(Code::Range, "created_at does not fit the header")
                .expected("a time from 1970 to 2106, in ms")
                .found(ms.to_string()),
        )),
    }
}
