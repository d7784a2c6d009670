// SPDX-License-Identifier: Apache-2.0
//! Whether a value is valid for its field. Spec: OMS §6, §7

use crate::error::shown;
use crate::fields::{Side, full_name, short_key, wrong_kind};
use crate::registry::{Field, Kind, Nested, OBSERVATION};
use crate::value::{Node, View};
use crate::{Code, Error, Result, address, datetime};
use alloc::{string::String, string::ToString as _};

/// The facts about the grain that a check of a value needs.
#[derive(Clone, Copy, Debug)]
pub struct Around {
    /// Writing or reading.
    pub side: Side,
    /// The header's type byte.
    pub type_byte: u8,
    /// Whether closed enums are open (observations of a trigger).
    pub open: bool,
}

/// Checks kind, range and enum of a field's value.
///
/// # Errors
/// `ERR_SCHEMA`, `ERR_RANGE`, `ERR_DID`, the address errors; on reading `ERR_CORRUPT` for an
/// integer in a float field.
pub fn field<N: Node>(spec: &Field, node: &N, around: Around) -> Result<()> {
    match spec.kind {
        Kind::Any => return Ok(()),
        Kind::Object if around.type_byte == OBSERVATION => return Ok(()),
        kind => check(kind, node, around)?,
    }
    match node.view()? {
        View::Str(text) if !around.open && !spec.one_of.is_empty() && !spec.one_of.contains(&text) => {
            return Err(Error::new(Code::Schema, "not one of the allowed values")
                .expected(spec.one_of.join(", "))
                .found(shown(text)));
        }
        View::Int(i) => {
            if !spec.one_of_int.is_empty() && !spec.one_of_int.contains(&i) {
                return Err(Error::new(Code::Schema, "not one of the allowed values")
                    .expected(format!("{:?}", spec.one_of_int))
                    .found(i.to_string()));
            }
            range(spec, i as f64)?;
        }
        View::UInt(u) => range(spec, u as f64)?,
        View::Float(f) => range(spec, f)?,
        View::Map if !spec.keys.is_empty() => structured(spec, node, around)?,
        View::List => {
            if let Some(table) = spec.nested {
                let cites = spec.name == "content_refs";
                each(node, &mut |item| nested_entry(table, item, around, cites))?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn range(spec: &Field, value: f64) -> Result<()> {
    let (low, high) = (spec.min.unwrap_or(f64::MIN), spec.max.unwrap_or(f64::MAX));
    if (low..=high).contains(&value) {
        return Ok(());
    }
    let high = spec.max.map_or(String::new(), |max| max.to_string());
    Err(Error::new(Code::Range, "out of range").expected(format!("{low}..{high}")).found(value.to_string()))
}

fn check<N: Node>(kind: Kind, node: &N, around: Around) -> Result<()> {
    let view = node.view()?;
    let expected = match (kind, &view) {
        (Kind::Any, _)
        | (Kind::Bool, View::Bool(_))
        | (Kind::Str, View::Str(_))
        | (Kind::Bytes, View::Bytes(_))
        | (Kind::Int, View::Int(_) | View::UInt(_))
        | (Kind::Int64, View::Int(_))
        | (Kind::Number, View::Int(_) | View::UInt(_))
        | (Kind::Map, View::Map)
        | (Kind::Object, View::Str(_) | View::Map) => return Ok(()),
        (Kind::Float64 | Kind::Number, View::Float(f)) => return finite(*f),
        (Kind::Float64, View::Int(_) | View::UInt(_)) => return becomes_float(around.side),
        (Kind::UInt8, View::Int(i)) if (0..=255).contains(i) => return Ok(()),
        (Kind::UInt8, View::Int(i)) => {
            return Err(Error::new(Code::Range, "out of range").expected("0..255").found(i.to_string()));
        }
        (Kind::UInt8 | Kind::Int64 | Kind::Datetime, View::UInt(u)) => {
            return Err(Error::new(Code::Range, "out of range").expected("an int64").found(u.to_string()));
        }
        (Kind::Datetime, View::Int(_)) => return Ok(()),
        (Kind::Datetime, View::Instant(_) | View::Str(_)) if around.side == Side::Write => {
            return millis(&view).map(|_| ());
        }
        (Kind::Address, View::Str(text)) => return address::parse(text).map(|_| ()),
        (Kind::Did, View::Str(text)) => return did(text),
        (Kind::MapOfStr, View::Map) => {
            return node.each_entry(&mut |key, value| {
                if value.is_null() {
                    return Ok(());
                }
                check(Kind::Str, &value, around).map_err(|e| e.in_key(key.as_ref()))
            });
        }
        (Kind::Array(item), View::List) => return each(node, &mut |n| check(*item, n, around)),
        (Kind::Bool, _) => "a bool",
        (Kind::Str | Kind::Address | Kind::Did, _) => "a string",
        (Kind::Bytes, _) => "bytes",
        (Kind::Int | Kind::Int64 | Kind::UInt8, _) => "an integer",
        (Kind::Float64 | Kind::Number, _) => "a number",
        (Kind::Datetime, _) if around.side == Side::Write => "ms since 1970, an aware datetime or RFC 3339",
        (Kind::Datetime, _) => "ms since 1970",
        (Kind::Map | Kind::MapOfStr, _) => "a map",
        (Kind::Object, _) => "a string or a map",
        (Kind::Array(_), _) => "an array",
    };
    Err(wrong_kind(&view, expected))
}

fn finite(value: f64) -> Result<()> {
    if value.is_finite() { Ok(()) } else { Err(Error::new(Code::FloatInvalid, "a float is NaN or infinite")) }
}

/// An integer in a float field: the writer makes it a float, so it is an error in a blob.
fn becomes_float(side: Side) -> Result<()> {
    match side {
        Side::Write => Ok(()),
        Side::Read => Err(Error::new(Code::Corrupt, "an integer in a float field").expected("a float64")),
    }
}

/// Milliseconds since 1970 from any form of a time.
///
/// # Errors
/// `ERR_SCHEMA` for text that is not RFC 3339.
pub fn millis(view: &View<'_>) -> Result<i64> {
    match view {
        View::Int(ms) | View::Instant(ms) => Ok(*ms),
        View::Str(text) => datetime::parse_rfc3339(text).ok_or_else(|| {
            Error::new(Code::Schema, "not a time").expected("RFC 3339, such as 2026-01-15T10:00:00Z")
        }),
        view => Err(wrong_kind(view, "a time")),
    }
}

fn did(text: &str) -> Result<()> {
    if is_did(text) { Ok(()) } else { Err(Error::new(Code::Did, "not a DID").expected("did:method:id")) }
}

/// `did:method:id`. Spec: W3C DID core §3.1, except for the rules of methods
#[inline]
pub(crate) fn is_did(text: &str) -> bool {
    let parts = text.strip_prefix("did:").and_then(|rest| rest.split_once(':'));
    parts.is_some_and(|(method, id)| {
        !method.is_empty()
            && method.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
            && !id.is_empty()
            // A fold has no early end, so that many bytes are checked in one step.
            && id.bytes().fold(true, |good, b| good & b.is_ascii_graphic())
    })
}

fn each<N: Node>(node: &N, visit: &mut dyn FnMut(&N) -> Result<()>) -> Result<()> {
    let mut i = 0;
    node.each_item(&mut |item| {
        i += 1;
        visit(&item).map_err(|e| e.in_index(i - 1))
    })
}

fn structured<N: Node>(spec: &Field, node: &N, around: Around) -> Result<()> {
    node.each_entry(&mut |key, value| {
        let known = spec.keys.iter().find(|(name, _)| *name == key.as_ref());
        match known {
            Some((name, kind)) if !value.is_null() => {
                check(*kind, &value, around).map_err(|e| e.in_key(name))
            }
            _ => Ok(()),
        }
    })
}

/// An entry of content_refs, embedding_refs or related_to; with `cites` it may be an external
/// citation.
fn nested_entry<N: Node>(table: &'static Nested, node: &N, around: Around, cites: bool) -> Result<()> {
    let mut present = 0u16;
    node.each_entry(&mut |key, value| {
        let Some(spec) = nested_name(table, key.as_ref(), around.side)? else { return Ok(()) };
        if value.is_null() {
            return Ok(());
        }
        present |= 1 << table.0.iter().position(|f| f.short == spec.short).unwrap_or(0);
        self::field(spec, &value, Around { open: false, ..around }).map_err(|e| e.in_key(spec.name))
    })?;
    match table.0.iter().enumerate().find(|(i, f)| f.required && present & 1 << i == 0) {
        None => Ok(()),
        Some(_) if cites && is_citation(node)? => citation(node),
        Some((_, missing)) => {
            Err(Error::new(Code::Schema, "a required entry is missing").in_key(missing.name))
        }
    }
}

/// The entries of derived_from: addresses, and external citations. Spec: OMS §27.5
///
/// # Errors
/// `ERR_SCHEMA`, `ERR_EMPTY`, the address errors.
pub fn sources<N: Node>(node: &N) -> Result<()> {
    if !matches!(node.view()?, View::List) {
        return Err(wrong_kind(&node.view()?, "an array"));
    }
    each(node, &mut |item| match item.view()? {
        View::Str(text) => address::parse(text).map(|_| ()),
        View::Map => citation(item),
        view => Err(wrong_kind(&view, "an address, or a map with citation_type and identifier")),
    })
}

/// The members of every external citation.
const CITATION: [&str; 2] = ["citation_type", "identifier"];

/// Whether a map is an external citation, valid or not.
pub(crate) fn is_citation<N: Node>(node: &N) -> Result<bool> {
    let mut found = false;
    node.each_entry(&mut |key, value| {
        found |= key.as_ref() == CITATION[0] && !value.is_null();
        Ok(())
    })?;
    Ok(found)
}

fn citation<N: Node>(node: &N) -> Result<()> {
    let mut found = [false; 2];
    node.each_entry(&mut |key, value| {
        let Some(i) = CITATION.iter().position(|name| *name == key.as_ref()) else { return Ok(()) };
        match value.view()? {
            View::Null => return Ok(()),
            View::Str("") => Err(Error::new(Code::Empty, "the text of a citation is empty")),
            View::Str(_) => Ok(()),
            view => Err(wrong_kind(&view, "a string")),
        }
        .map_err(|e| e.in_key(CITATION[i]))?;
        found[i] = true;
        Ok(())
    })?;
    match found.iter().position(|there| !there) {
        None => Ok(()),
        Some(i) => Err(Error::new(Code::Schema, "a required entry is missing").in_key(CITATION[i])),
    }
}

/// The row of a nested key, which is a full name on writing and a short key on reading.
fn nested_name(table: &'static Nested, key: &str, side: Side) -> Result<Option<&'static Field>> {
    let (found, other) = match side {
        Side::Write => (table.by_name(key), table.by_short(key)),
        Side::Read => (table.by_short(key), table.by_name(key)),
    };
    match (found, other, side) {
        (None, Some(known), Side::Write) => Err(short_key(known.short, known.name)),
        (None, Some(known), Side::Read) => Err(full_name(known.name, known.short)),
        _ => Ok(found),
    }
}

/// Checks only the names in nested entries: the only rule for opaque grains.
///
/// # Errors
/// `ERR_SCHEMA`, `ERR_CORRUPT`.
pub fn nested_names<N: Node>(table: &'static Nested, node: &N, side: Side) -> Result<()> {
    each(node, &mut |item| item.each_entry(&mut |key, _| nested_name(table, key.as_ref(), side).map(|_| ())))
}
