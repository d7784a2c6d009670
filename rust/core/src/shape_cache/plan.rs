// SPDX-License-Identifier: Apache-2.0
//! The plan of one shape of grains: each key with its rule, in the order of the payload. The reader
//! and the writer both use it.

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

/// A shape with longer names has no plan: such shapes rarely repeat.
const MAX_NAME: usize = 128;

/// An encoded key, head and text.
#[derive(Clone, Debug)]
pub struct KeyBytes {
    near: [u8; KeyBytes::NEAR],
    far: Box<[u8]>,
}

impl KeyBytes {
    /// Keys are short: this many bytes are copied as one register.
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

/// The rules for one key of a shape.
#[derive(Clone, Debug)]
pub struct Step {
    /// The field of the table, or [`UNKNOWN`].
    pub id: u8,
    /// The row of the field.
    pub field: Option<&'static Field>,
    /// The position in the source.
    pub from: usize,
    /// The encoded key, for the wire format of this list of steps.
    pub key: KeyBytes,
    /// The rule for its value.
    pub rule: Rule,
    /// Whether the value may be missing (null) or empty.
    pub need: Need,
}

/// A shape of grains: how to check and write them.
#[derive(Debug)]
pub struct Plan {
    /// The type of the grains.
    pub grain_type: &'static GrainType,
    /// Whether the names come from a user or from a payload.
    pub side: Side,
    /// The names, in the order of the source.
    pub names: Vec<Box<str>>,
    /// The texts that select the rules, with their positions. Other texts make another shape.
    pub fixed: Vec<(usize, Box<str>)>,
    /// Whether a lightweight grain may have these fields.
    pub lightweight: bool,
    steps: [Vec<Step>; 2],
}

impl Plan {
    /// The most keys: a shape with more has no plan.
    pub const MAX_KEYS: usize = 32;

    /// The plan for grains with these names in this order. `text` returns the value at a position
    /// if it is text. None for a shape without a plan.
    pub fn learn<'t>(side: Side, names: &[&str], text: &dyn Fn(usize) -> Option<&'t str>) -> Option<Plan> {
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
            let order = match encoding {
                Encoding::Msgpack => Msgpack::order,
                Encoding::Cbor => Cbor::order,
            };
            steps.sort_by(|a, b| order(a.0.as_bytes(), b.0.as_bytes()));
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

    /// Whether a grain with these names in this order has this shape.
    pub fn is_of<'k, 't>(
        &self,
        names: impl ExactSizeIterator<Item = &'k str>,
        text: impl Fn(usize) -> Option<&'t str>,
    ) -> bool {
        names.len() == self.names.len()
            && names.zip(&self.names).all(|(name, own)| *name == **own)
            && self.has_texts(text)
    }

    /// Whether the texts that select the rules are those of this shape.
    #[inline]
    pub fn has_texts<'t>(&self, text: impl Fn(usize) -> Option<&'t str>) -> bool {
        self.fixed.iter().all(|(place, own)| text(*place) == Some(&**own))
    }

    /// The steps, in the key order of this wire format.
    #[inline]
    pub fn steps(&self, encoding: Encoding) -> &[Step] {
        &self.steps[usize::from(encoding == Encoding::Cbor)]
    }
}

/// The field of a name, or [`UNKNOWN`]. None for fields that a blob cannot contain, and for names
/// that the general code would refuse, warn about or read as another name.
fn known(side: Side, name: &str, type_byte: u8) -> Option<u8> {
    let (full, short) = (registry::by_name(name, type_byte), registry::by_short(name, type_byte));
    let (found, other) = if side == Side::Write { (full, short) } else { (short, full) };
    if found != UNKNOWN {
        // The general code inspects these: elided fields, and policies that cannot be met.
        let apart = [id::ELIDED, id::DISCLOSURE_OF, id::INVALIDATION_POLICY].contains(&found);
        // In a payload `content` of an action is a full name.
        let full_name =
            side == Side::Read && type_byte == ACTION && name == registry::field(id::CONTENT).short;
        return (!apart && !full_name && !registry::field(found).index_layer).then_some(found);
    }
    let old = registry::aliases(type_byte).any(|alias| alias.old.contains(&name));
    (other == UNKNOWN && !old && !warn::warns_of(name, type_byte)).then_some(UNKNOWN)
}
/// The kind of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Word {
    Any,
    Did,
    Address,
}

/// The rule for a value.
#[derive(Clone, Debug)]
pub enum Rule {
    /// Exactly this text.
    Fixed(Box<str>),
    /// Text.
    Text(Word),
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// One of these texts, except the mode that needs a scope, since the scope is absent.
    Mode(&'static [&'static str]),
    /// Text; one that is close to a listed text would need a warning.
    Listed(&'static Field),
    /// Text; a relation that begins with mg: must be listed.
    Relation,
    /// A listed type of observer that fits the presence of `observer_model`.
    Observer(bool),
    /// A bool.
    Bool,
    /// False.
    False,
    /// Bytes.
    Bytes,
    /// An integer in this range; if the list is not empty, one of its integers.
    Int(f64, f64, &'static [i64]),
    /// A signed integer of 64 bits.
    Int64,
    /// An unsigned integer of 8 bits.
    UInt8,
    /// A float in this range; the writer converts an integer.
    Float(f64, f64),
    /// A float or an integer in this range.
    Number(f64, f64),
    /// Milliseconds since 1970 in this range; the writer also accepts RFC 3339.
    Datetime(f64, f64),
    /// A list of texts.
    Texts(Word),
    /// Tags that declare no profile and need no warning.
    Tags,
    /// Text, or a container that the general code checks and writes.
    Object,
    /// Any value; the general code writes it.
    Any,
    /// A value that the general code checks and writes.
    General,
}

/// Whether a field may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// It may be null, and is then left out.
    May,
    /// It must be present.
    There,
    /// It must be present, and be neither an empty text nor an empty list.
    Filled,
}

/// The requirements of a shape, while its plan is made.
pub(super) struct Shape {
    grain_type: &'static GrainType,
    at: [Option<usize>; COUNT],
    needs: [Need; COUNT],
    pub fixed: Vec<(usize, Box<str>)>,
}

impl Shape {
    /// None if the rules refuse every grain of this shape, or if it has no plan.
    pub fn new<'t>(
        grain_type: &'static GrainType,
        at: [Option<usize>; COUNT],
        text: &dyn Fn(usize) -> Option<&'t str>,
    ) -> Option<Shape> {
        let mut shape = Shape { grain_type, at, needs: [Need::May; COUNT], fixed: Vec::new() };
        shape.fix(id::TYPE, text)?;
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
            let name = shape.fix(id::ACTION_PHASE, text)?;
            let mode = shape.fix(id::EXECUTION_MODE, text)?;
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
    fn fix<'t>(&mut self, id: u8, text: &dyn Fn(usize) -> Option<&'t str>) -> Option<&'t str> {
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
        Plan::learn(Side::Write, names, &|place| texts.get(place).copied())
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
        let read = |names: &[&str], name| Plan::learn(Side::Read, names, &|_| Some(name));
        assert!(read(&["c", "ca", "o", "r", "s", "t"], "belief").is_some());
        assert!(read(&["c", "ca", "o", "r", "s", "t", "user_id"], "belief").is_none());
        assert!(read(&["ca", "cnt", "inp", "iserr", "t", "tn"], "action").is_some());
        assert!(read(&["ca", "cnt", "content", "inp", "iserr", "t", "tn"], "action").is_none());
    }
}
