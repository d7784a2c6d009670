// SPDX-License-Identifier: Apache-2.0
//! What the registry says of one shape of grains: each key with its rule, in the order of the wire.

use crate::codec::cbor::Cbor;
use crate::codec::msgpack::Msgpack;
use crate::codec::{Encoding, Wire};
use crate::fields::Side;
use crate::registry::{self, ACTION, COUNT, FIELDS, Field, GrainType, LIGHTWEIGHT, UNKNOWN, id};
use crate::warn;
use alloc::{boxed::Box, vec::Vec};

use super::rules::{Need, Rule, Shape};

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
    /// A shape with more keys is none for the lane.
    pub const MAX_KEYS: usize = 32;

    /// The plan for grains with these names in this order; `text` gives the value at a place if it
    /// is text. None for shapes that the lane does not take.
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
