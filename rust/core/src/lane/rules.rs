// SPDX-License-Identifier: Apache-2.0
//! Which rule holds for each field of a shape, from the registry alone.

use crate::registry::{self, ACTION, COUNT, FIELDS, Field, GrainType, Kind, OBSERVATION, Phase, UNKNOWN, id};
use alloc::{boxed::Box, vec::Vec};

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
    /// None if a grain of this shape is never good, or is none for the lane.
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
