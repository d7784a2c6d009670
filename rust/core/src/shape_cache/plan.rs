// SPDX-License-Identifier: Apache-2.0
//! What the registry says of one shape of grains: each key with its rule, in the order of the payload.
//!
//! Both ways use it: the rows stand in `read`, `write` and `json`.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::codec::cbor::Cbor;
use crate::codec::msgpack::Msgpack;
use crate::codec::{Encoding, Wire};
use crate::fields::Side;
use crate::registry::{
    ACTION, COUNT, FIELDS, Field, GrainType, Kind, LIGHTWEIGHT, OBSERVATION, Phase, UNKNOWN, id,
};
use crate::{registry, warn};

/// A shape with longer names is none that comes again and again.
const MAX_NAME: usize = 128;

/// A key as it is written, head and text.
#[derive(Clone, Debug)]
pub struct KeyBytes {
    near: [u8; KeyBytes::NEAR],
    far: Box<[u8]>,
}

impl KeyBytes {
    /// Keys are short: so many bytes are copied as one register.
    const NEAR: usize = 16;

    fn new<W: Wire>(key: &str) -> Self {
        let (mut far, mut near) = (Vec::new(), [0; Self::NEAR]);
        W::str(&mut far, key);
        let n = far.len().min(Self::NEAR);
        near[..n].copy_from_slice(&far[..n]);
        KeyBytes { near, far: far.into() }
    }

    /// Appends the key.
    #[inline]
    pub fn put(&self, out: &mut Vec<u8>) {
        if self.far.len() <= Self::NEAR {
            let end = out.len() + self.far.len();
            out.extend_from_slice(&self.near);
            out.truncate(end);
        } else {
            out.extend_from_slice(&self.far);
        }
    }

    /// The bytes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.far
    }
}

/// How one key of a shape is treated.
#[derive(Clone, Debug)]
pub struct Step {
    /// The field of the table, or [`UNKNOWN`].
    pub id: u8,
    /// Its row.
    pub field: Option<&'static Field>,
    /// The place in the order of the source.
    pub from: usize,
    /// The key on the wire of this list of steps.
    pub key: KeyBytes,
    /// What its value must be.
    pub rule: Rule,
    /// Whether the value may be missing (null) or empty.
    pub need: Need,
}

/// A shape of grains, and how they are checked and written.
#[derive(Debug)]
pub struct Plan {
    /// Their type.
    pub grain_type: &'static GrainType,
    /// Whether the names are those of a user or those of a payload.
    pub side: Side,
    /// The names, in the order of the source.
    pub names: Vec<Box<str>>,
    /// The texts that the rules hang on, with their places: of other texts it is another shape.
    pub fixed: Vec<(usize, Box<str>)>,
    /// Whether a lightweight grain may carry these fields.
    pub lightweight: bool,
    steps: [Vec<Step>; 2],
}

impl Plan {
    /// A shape with more keys has no plan.
    pub const MAX_KEYS: usize = 32;

    /// The plan for grains with these names in this order; `text` gives the value at a place if it
    /// is text. None for shapes that have no plan.
    pub fn learn<'t>(side: Side, names: &[&str], text: impl Fn(usize) -> Option<&'t str>) -> Option<Plan> {
        if names.len() > Self::MAX_KEYS || names.iter().any(|name| name.len() > MAX_NAME || !name.is_ascii())
        {
            return None;
        }
        let of_type = &FIELDS[usize::from(id::TYPE)];
        let type_key = if side == Side::Write { of_type.name } else { of_type.short };
        let type_name = text(names.iter().position(|name| *name == type_key)?)?;
        let grain_type = registry::type_named(type_name)?.grain_type;
        let ids: Vec<u8> =
            names.iter().map(|name| known(side, name, grain_type.byte)).collect::<Option<_>>()?;
        let twice =
            |i: usize| names[..i].contains(&names[i]) || ids[i] != UNKNOWN && ids[..i].contains(&ids[i]);
        if (0..names.len()).any(twice) {
            return None;
        }
        let mut at = [None; COUNT];
        for (place, id) in ids.iter().enumerate().filter(|(_, id)| **id != UNKNOWN) {
            at[usize::from(*id)] = Some(place);
        }
        let shape = Shape::new(grain_type, at, text)?;
        let steps = |encoding| {
            let mut steps: Vec<(&str, Step)> = Vec::with_capacity(names.len());
            for (from, id) in ids.iter().enumerate() {
                let field = (*id != UNKNOWN).then(|| registry::field(*id));
                let key = field.map_or(names[from], |f| f.short);
                let bytes = match encoding {
                    Encoding::Msgpack => KeyBytes::new::<Msgpack>(key),
                    Encoding::Cbor => KeyBytes::new::<Cbor>(key),
                };
                let (rule, need) = (shape.rule(*id), shape.need(*id));
                steps.push((key, Step { id: *id, field, from, key: bytes, rule, need }));
            }
            match encoding {
                Encoding::Msgpack => steps.sort_by(|a, b| Msgpack::order(a.0.as_bytes(), b.0.as_bytes())),
                Encoding::Cbor => steps.sort_by(|a, b| Cbor::order(a.0.as_bytes(), b.0.as_bytes())),
            }
            steps.into_iter().map(|(_, step)| step).collect()
        };
        Some(Plan {
            grain_type,
            side,
            names: names.iter().map(|name| Box::from(*name)).collect(),
            lightweight: ids.iter().all(|id| LIGHTWEIGHT.contains(id)),
            steps: [steps(Encoding::Msgpack), steps(Encoding::Cbor)],
            fixed: shape.fixed,
        })
    }

    /// Whether a grain with these names in this order is of this shape.
    pub fn is_of<'k, 't>(
        &self,
        names: impl ExactSizeIterator<Item = &'k str>,
        text: impl Fn(usize) -> Option<&'t str>,
    ) -> bool {
        names.len() == self.names.len()
            && names.zip(&self.names).all(|(name, own)| *name == **own)
            && self.has_texts(text)
    }

    /// Whether the texts that the rules hang on are those of this shape.
    #[inline]
    pub fn has_texts<'t>(&self, text: impl Fn(usize) -> Option<&'t str>) -> bool {
        self.fixed.iter().all(|(place, own)| text(*place) == Some(&**own))
    }

    /// The steps, in the order in which this wire has the keys.
    #[inline]
    pub fn steps(&self, encoding: Encoding) -> &[Step] {
        &self.steps[usize::from(encoding == Encoding::Cbor)]
    }
}

/// The field of a name, or [`UNKNOWN`] for a name that is really none; no answer for fields that are
/// not in blobs, and for names that the general way would refuse, warn of or read as another.
fn known(side: Side, name: &str, type_byte: u8) -> Option<u8> {
    let (full, short) = (registry::by_name(name, type_byte), registry::by_short(name, type_byte));
    let (found, other) = if side == Side::Write { (full, short) } else { (short, full) };
    if found != UNKNOWN {
        // The general way looks into them: for what is elided, and for a policy nobody can meet.
        let apart = [id::ELIDED, id::DISCLOSURE_OF, id::INVALIDATION_POLICY].contains(&found);
        // On the wire `content` of an action is a full name.
        let full_name =
            side == Side::Read && type_byte == ACTION && name == registry::field(id::CONTENT).short;
        return (!apart && !full_name && !registry::field(found).index_layer).then_some(found);
    }
    let old = registry::aliases(type_byte).any(|alias| alias.old.contains(&name));
    (other == UNKNOWN && !old && !warn::warns_of(name, type_byte)).then_some(UNKNOWN)
}
/// What text is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Word {
    Any,
    Did,
    Address,
}

/// What a value must be.
#[derive(Clone, Debug)]
pub enum Rule {
    /// This very text.
    Fixed(Box<str>),
    /// Text.
    Text(Word),
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// One of these texts but the mode that asks for a scope, which is not there.
    Mode(&'static [&'static str]),
    /// Text; one that is near to a listed one would be warned of.
    Listed(&'static Field),
    /// Text; an mg: relation is a known one.
    Relation,
    /// A listed type of observer that goes with this: whether there is an `observer_model`.
    Observer(bool),
    /// A bool.
    Bool,
    /// False.
    False,
    /// Bytes.
    Bytes,
    /// An integer within these; if the list is not empty, one of it.
    Int(f64, f64, &'static [i64]),
    /// An integer of 64 bits, with sign.
    Int64,
    /// An integer of 8 bits.
    UInt8,
    /// A float within these; on writing an integer becomes one.
    Float(f64, f64),
    /// A float or an integer within these.
    Number(f64, f64),
    /// Milliseconds since 1970 within these; on writing also RFC 3339.
    Datetime(f64, f64),
    /// A list of texts.
    Texts(Word),
    /// Tags that declare no profile and warn of nothing.
    Tags,
    /// Text, or a container that is checked and written in the general way.
    Object,
    /// Anything, which is written in the general way.
    Any,
    /// A value that is checked and written in the general way.
    General,
}

/// Whether a field may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// It may be null, which leaves it out.
    May,
    /// It must be there.
    There,
    /// It must be there, and neither an empty text nor an empty list.
    Filled,
}

/// What a shape asks of its fields, while a plan is made.
pub(super) struct Shape {
    grain_type: &'static GrainType,
    at: [Option<usize>; COUNT],
    needs: [Need; COUNT],
    pub fixed: Vec<(usize, Box<str>)>,
}

impl Shape {
    /// None if a grain of this shape is never good, or if it has no plan.
    pub fn new<'t>(
        grain_type: &'static GrainType,
        at: [Option<usize>; COUNT],
        text: impl Fn(usize) -> Option<&'t str>,
    ) -> Option<Shape> {
        let mut shape = Shape { grain_type, at, needs: [Need::May; COUNT], fixed: Vec::new() };
        shape.fix(id::TYPE, &text)?;
        for (id, _) in FIELDS.iter().enumerate().filter(|(_, f)| f.required) {
            shape.required(id as u8)?;
        }
        for id in grain_type.required {
            shape.required(*id)?;
        }
        for id in grain_type.non_empty {
            shape.raise(*id, Need::Filled);
        }
        // An object may be empty, as in a belief.
        shape
            .group(grain_type.required_any, |id| if id == id::OBJECT { Need::There } else { Need::Filled })?;
        if grain_type.byte == ACTION {
            let name = shape.fix(id::ACTION_PHASE, &text)?;
            let mode = shape.fix(id::EXECUTION_MODE, &text)?;
            if let Some(phase) = registry::phase(name, mode) {
                shape.phase(phase)?;
            }
        }
        if shape.has(id::OBSERVER_MODEL) && shape.has(id::OBSERVER_TYPE) {
            shape.raise(id::OBSERVER_MODEL, Need::There);
        }
        if shape.has(id::IS_WITHDRAWAL) && shape.has(id::PRIOR_CONSENT) {
            shape.raise(id::PRIOR_CONSENT, Need::There);
        }
        Some(shape)
    }

    fn has(&self, id: u8) -> bool {
        self.at[usize::from(id)].is_some()
    }

    fn raise(&mut self, id: u8, need: Need) {
        let held = &mut self.needs[usize::from(id)];
        *held = need.max(*held);
    }

    /// Makes the text of a field a part of the shape; "" if the field is absent.
    fn fix<'t>(&mut self, id: u8, text: &impl Fn(usize) -> Option<&'t str>) -> Option<&'t str> {
        let Some(place) = self.at[usize::from(id)] else { return Some("") };
        let value = text(place)?;
        let one_of = FIELDS[usize::from(id)].one_of;
        if !one_of.is_empty() && !one_of.contains(&value) {
            return None;
        }
        self.fixed.push((place, value.into()));
        self.raise(id, Need::There);
        Some(value)
    }

    fn required(&mut self, id: u8) -> Option<()> {
        let text = matches!(FIELDS[usize::from(id)].kind, Kind::Str | Kind::Did);
        self.raise(id, if text { Need::Filled } else { Need::There });
        self.has(id).then_some(())
    }

    /// One of the groups is complete.
    fn group(&mut self, groups: &[&[u8]], need: impl Fn(u8) -> Need) -> Option<()> {
        if groups.is_empty() {
            return Some(());
        }
        for id in *groups.iter().find(|group| group.iter().all(|id| self.has(*id)))? {
            self.raise(*id, need(*id));
        }
        Some(())
    }

    fn phase(&mut self, phase: &Phase) -> Option<()> {
        for id in phase.required {
            self.required(*id)?;
        }
        self.group(phase.required_any, |_| Need::There)?;
        (!phase.forbidden.iter().any(|id| self.has(*id))).then_some(())
    }

    pub fn need(&self, id: u8) -> Need {
        if id == UNKNOWN { Need::May } else { self.needs[usize::from(id)] }
    }

    pub fn rule(&self, id: u8) -> Rule {
        if id == UNKNOWN {
            return Rule::Any;
        }
        let place = self.at[usize::from(id)];
        if let Some((_, text)) = self.fixed.iter().find(|(at, _)| Some(*at) == place) {
            return Rule::Fixed(text.clone());
        }
        match id {
            id::RELATION => Rule::Relation,
            id::STRUCTURAL_TAGS => Rule::Tags,
            id::OBSERVER_TYPE => Rule::Observer(self.has(id::OBSERVER_MODEL)),
            id::OBSERVATION_MODE if !self.has(id::OBSERVATION_SCOPE) => {
                Rule::Mode(FIELDS[usize::from(id)].one_of)
            }
            id::IS_WITHDRAWAL if !self.has(id::PRIOR_CONSENT) => Rule::False,
            _ => of_field(registry::field(id), self.grain_type.byte),
        }
    }
}

/// The rule of a field by its row.
fn of_field(field: &'static Field, type_byte: u8) -> Rule {
    let (low, high) = (field.min.unwrap_or(f64::MIN), field.max.unwrap_or(f64::MAX));
    match field.kind {
        Kind::Any => Rule::Any,
        Kind::Object if type_byte == OBSERVATION => Rule::Any,
        Kind::Object => Rule::Object,
        Kind::Str if !field.one_of.is_empty() => Rule::OneOf(field.one_of),
        Kind::Str if !field.listed.is_empty() => Rule::Listed(field),
        Kind::Str => Rule::Text(Word::Any),
        Kind::Did => Rule::Text(Word::Did),
        Kind::Address => Rule::Text(Word::Address),
        Kind::Bool => Rule::Bool,
        Kind::Bytes => Rule::Bytes,
        Kind::Int => Rule::Int(low, high, field.one_of_int),
        Kind::Int64 => Rule::Int64,
        Kind::UInt8 => Rule::UInt8,
        Kind::Float64 => Rule::Float(low, high),
        Kind::Number => Rule::Number(low, high),
        Kind::Datetime => Rule::Datetime(low, high),
        Kind::Array(Kind::Str) => Rule::Texts(Word::Any),
        Kind::Array(Kind::Did) => Rule::Texts(Word::Did),
        Kind::Array(Kind::Address) => Rule::Texts(Word::Address),
        Kind::Map | Kind::MapOfStr | Kind::Array(_) => Rule::General,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learn(names: &[&str], texts: &[&'static str]) -> Option<Plan> {
        Plan::learn(Side::Write, names, |place| texts.get(place).copied())
    }

    const NAMES: [&str; 6] = ["type", "subject", "relation", "object", "confidence", "created_at"];

    #[test]
    fn steps_stand_in_the_order_of_the_wire() {
        let plan = learn(&NAMES, &["belief"]).unwrap();
        assert_eq!((plan.grain_type.byte, plan.lightweight), (1, true));
        let keys = |encoding| -> Vec<Vec<u8>> {
            plan.steps(encoding).iter().map(|step| step.key.as_bytes()[1..].to_vec()).collect()
        };
        assert_eq!(keys(Encoding::Msgpack), [&b"c"[..], b"ca", b"o", b"r", b"s", b"t"]);
        assert_eq!(keys(Encoding::Cbor), [&b"c"[..], b"o", b"r", b"s", b"t", b"ca"]);
        let mut out = vec![1];
        plan.steps(Encoding::Cbor)[5].key.put(&mut out);
        assert_eq!(out, [1, 0x62, b'c', b'a']);
    }

    #[test]
    fn long_keys_are_put_whole() {
        let name = "lab:a_name_of_more_than_sixteen_bytes";
        let plan = learn(&[&NAMES[..], &[name]].concat(), &["belief"]).unwrap();
        let mut out = Vec::new();
        plan.steps(Encoding::Msgpack).iter().find(|s| s.id == UNKNOWN).unwrap().key.put(&mut out);
        assert_eq!(out[2..], *name.as_bytes());
    }

    #[test]
    fn shapes_that_need_the_general_way() {
        let with = |extra: &[&str], texts: &[&'static str]| learn(&[&NAMES[..], extra].concat(), texts);
        assert!(with(&["nothing_known"], &["belief"]).is_some());
        for extra in ["confidnce", "st", "system_valid_to", "_elided", "é", "type"] {
            assert!(with(&[extra], &["belief"]).is_none(), "{extra}");
        }
        assert!(with(&[], &["no type"]).is_none() && with(&[], &[]).is_none());
        assert!(learn(&NAMES[..5], &["belief"]).is_none(), "no created_at");
        assert!(with(&["sensor_id", "observer_id", "observer_type"], &["observation"]).is_none(), "1.1");
    }

    #[test]
    fn a_payload_has_short_keys() {
        let read = |names: &[&str], name| Plan::learn(Side::Read, names, |_| Some(name));
        assert!(read(&["c", "ca", "o", "r", "s", "t"], "belief").is_some());
        assert!(read(&["c", "ca", "o", "r", "s", "t", "user_id"], "belief").is_none());
        assert!(read(&["ca", "cnt", "inp", "iserr", "t", "tn"], "action").is_some());
        assert!(read(&["ca", "cnt", "content", "inp", "iserr", "t", "tn"], "action").is_none());
    }
}
