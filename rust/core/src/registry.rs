// SPDX-License-Identifier: Apache-2.0
//! The tables of registry.toml (types, fields, rules), and the look-ups by name and short key.

use crate::perfect::slot;

/// The kind of a field's value.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Kind {
    Any,
    Bool,
    Str,
    Bytes,
    Int,
    Int64,
    UInt8,
    Float64,
    /// An int or a float, unchanged.
    Number,
    /// Milliseconds since 1970 in an int64.
    Datetime,
    Address,
    Did,
    Map,
    MapOfStr,
    /// A string or a map; in an observation any value.
    Object,
    Array(&'static Kind),
}

/// One row of the field table.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct Field {
    pub name: &'static str,
    pub short: &'static str,
    pub kind: Kind,
    pub min: Option<f64>,
    pub max: Option<f64>,
    /// A closed enum; empty if there is none.
    pub one_of: &'static [&'static str],
    pub one_of_int: &'static [i64],
    /// An open enum: other values are allowed.
    pub listed: &'static [&'static str],
    /// The table of the entries of a structured map, if there is one.
    pub keys: &'static [(&'static str, Kind)],
    pub required: bool,
    pub index_layer: bool,
    pub supersede_only: bool,
    pub elidable: bool,
    pub nested: Option<&'static Nested>,
}

/// The small table of a nested entry (content_refs, embedding_refs, related_to).
#[derive(Debug)]
pub struct Nested(pub &'static [Field]);

impl Nested {
    /// The row with this full name.
    pub fn by_name(&self, name: &str) -> Option<&'static Field> {
        self.0.iter().find(|f| f.name == name)
    }

    /// The row with this short key.
    pub fn by_short(&self, short: &str) -> Option<&'static Field> {
        self.0.iter().find(|f| f.short == short)
    }
}

/// One of the ten grain types. Field lists hold ids.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct GrainType {
    pub byte: u8,
    pub name: &'static str,
    /// Names in 1.1, which may equal the current name.
    pub legacy: &'static [&'static str],
    pub later: &'static [&'static str],
    pub required: &'static [u8],
    pub non_empty: &'static [u8],
    /// One of these groups must be complete and not empty.
    pub required_any: &'static [&'static [u8]],
}

/// The fields that an action must and must not have in one of its phases.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct Phase {
    pub name: &'static str,
    pub execution_mode: &'static str,
    pub required: &'static [u8],
    pub required_any: &'static [&'static [u8]],
    pub forbidden: &'static [u8],
}

/// A 1.1 field name and the current field.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct Alias {
    pub old: &'static [&'static str],
    pub field: u8,
    pub type_byte: u8,
    pub negate: bool,
}

/// A domain profile: fields under a prefix, declared by the tag `profile:<name>`.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct Profile {
    pub name: &'static str,
    pub prefix: &'static str,
    pub fields: &'static [Field],
}

include!(concat!(env!("OUT_DIR"), "/registry.rs"));

/// The registry as JSON, with the keys of registry.toml.
pub static JSON: &str = include_str!(concat!(env!("OUT_DIR"), "/registry.json"));

/// The id of a field that the table does not have.
pub const UNKNOWN: u8 = 255;

/// The type byte of an action, whose `content` is a separate field.
pub const ACTION: u8 = 5;
/// The type byte of a workflow, whose steps become a graph in a later OMS.
pub const WORKFLOW: u8 = 4;
/// The type byte of an observation, whose `object` may be any value.
pub const OBSERVATION: u8 = 6;

/// The field with this full name in a grain of this type byte.
#[inline]
pub fn by_name(name: &str, type_byte: u8) -> u8 {
    let id = FULL_SLOTS[slot(name.as_bytes(), FULL_SEED)];
    if id == UNKNOWN || FIELDS[usize::from(id)].name != name {
        return UNKNOWN;
    }
    if id == id::CONTENT && type_byte == ACTION { id::CONTENT_ACTION } else { id }
}

/// The field with this short key in a grain of this type byte.
#[inline]
pub fn by_short(short: &str, type_byte: u8) -> u8 {
    if type_byte == ACTION {
        if short == FIELDS[usize::from(id::CONTENT_ACTION)].short {
            return id::CONTENT_ACTION;
        }
        if short == FIELDS[usize::from(id::CONTENT)].short {
            return UNKNOWN;
        }
    }
    let id = SHORT_SLOTS[slot(short.as_bytes(), SHORT_SEED)];
    if id != UNKNOWN && FIELDS[usize::from(id)].short == short { id } else { UNKNOWN }
}

/// The row of a known field.
#[inline]
pub fn field(id: u8) -> &'static Field {
    &FIELDS[usize::from(id)]
}

/// A grain type found by one of its names.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// The type.
    pub grain_type: &'static GrainType,
    /// Whether 1.1 had this name, so that the grain may have 1.1 field names.
    pub legacy: bool,
}

/// The type with this name: a current name, one of 1.1, or a later one.
pub fn type_named(name: &str) -> Option<Named> {
    TYPES.iter().find_map(|t| {
        let legacy = t.legacy.contains(&name);
        (legacy || t.name == name || t.later.contains(&name)).then_some(Named { grain_type: t, legacy })
    })
}

/// The type with this header byte; None for reserved and domain bytes.
pub fn type_of_byte(byte: u8) -> Option<&'static GrainType> {
    TYPES.get(usize::from(byte).wrapping_sub(1))
}

/// The requirements of an action in this phase; some depend on its execution mode.
pub fn phase(name: &str, mode: &str) -> Option<&'static Phase> {
    let exact = PHASES.iter().find(|p| p.name == name && p.execution_mode == mode);
    exact.or_else(|| PHASES.iter().find(|p| p.name == name))
}

/// The 1.1 field names of a grain of this type.
pub fn aliases(type_byte: u8) -> impl Iterator<Item = &'static Alias> {
    ALIASES.iter().filter(move |alias| alias.type_byte == type_byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_found_by_both_names() {
        assert_eq!(COUNT, 150);
        for (i, f) in FIELDS.iter().enumerate() {
            let byte = if i == usize::from(id::CONTENT_ACTION) { ACTION } else { 1 };
            assert_eq!(usize::from(by_name(f.name, byte)), i, "{}", f.name);
            assert_eq!(usize::from(by_short(f.short, byte)), i, "{}", f.short);
        }
        assert_eq!(by_name("nothing", 1), UNKNOWN);
        assert_eq!(by_short("", 1), UNKNOWN);
        assert_eq!(by_short("cnt", 1), UNKNOWN);
        assert_eq!(by_short("content", ACTION), UNKNOWN);
    }

    #[test]
    fn types_by_name_and_byte() {
        assert_eq!(type_named("fact").map(|n| (n.grain_type.byte, n.legacy)), Some((1, true)));
        assert_eq!(type_named("tool").map(|n| (n.grain_type.byte, n.legacy)), Some((5, false)));
        assert_eq!(type_named("observation").map(|n| n.legacy), Some(true));
        assert!(type_named("Belief").is_none());
        assert!(type_of_byte(0).is_none() && type_of_byte(11).is_none());
    }
}
