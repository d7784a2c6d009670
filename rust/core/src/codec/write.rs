// SPDX-License-Identifier: Apache-2.0
//! Writing any node in canonical form: NFC, sorted keys, no nulls in maps. Spec: OMS §4

use alloc::borrow::Cow;
use alloc::{string::String, vec::Vec};

use smallvec::SmallVec;

use super::{Limits, Wire, check_depth, twice};
use crate::registry::{Kind, Nested};
use crate::value::{Node, View};
use crate::{Code, Error, Result, text};

/// Writes any node below the payload map. `depth` is the depth of the node if it is a container.
///
/// # Errors A value that a grain cannot contain, with the path to it.
pub fn write<W: Wire, N: Node>(out: &mut Vec<u8>, node: &N, depth: usize, limits: Limits) -> Result<()> {
    match node.view()? {
        View::Null => W::nil(out),
        View::Bool(b) => W::bool(out, b),
        View::Int(i) => W::int(out, i),
        View::UInt(u) => W::uint(out, u),
        View::Float(f) => write_float::<W>(out, f)?,
        View::Str(s) => W::str(out, &text::nfc(s)?),
        View::Bytes(b) => W::bytes(out, &b),
        View::Instant(_) => {
            return Err(Error::new(Code::Schema, "a datetime is in a field of another kind")
                .expected("an RFC 3339 string or ms since 1970"));
        }
        View::List => write_list::<W, N>(out, node, depth, limits, None)?,
        View::Map => write_map::<W, N>(out, node, depth, limits, None)?,
    }
    Ok(())
}

/// Checks whether a container may begin here.
#[inline]
fn check(out: &[u8], depth: usize, limits: Limits) -> Result<()> {
    check_depth(depth, limits.depth)?;
    if out.len() <= limits.end { Ok(()) } else { Err(Error::new(Code::TooLarge, "the grain is too large")) }
}

/// Writes a finite float.
///
/// # Errors
/// `ERR_FLOAT_INVALID` for NaN and infinities.
#[inline]
pub fn write_float<W: Wire>(out: &mut Vec<u8>, value: f64) -> Result<()> {
    if !value.is_finite() {
        return Err(Error::new(Code::FloatInvalid, "a float is NaN or infinite"));
    }
    W::float(out, value);
    Ok(())
}

/// How the maps of a list are written: with the short keys of a table, and with integers as floats
/// where the table says so, unless the grain is opaque.
#[derive(Clone, Copy, Debug)]
pub struct Nesting {
    /// The table.
    pub table: &'static Nested,
    /// Whether numbers are converted to the kinds of the table.
    pub coerce: bool,
}

/// Writes a list; its maps are entries of `table`, if that is given.
///
/// # Errors
/// As [`write`].
pub fn write_list<W: Wire, N: Node>(
    out: &mut Vec<u8>,
    node: &N,
    depth: usize,
    limits: Limits,
    table: Option<Nesting>,
) -> Result<()> {
    check(out, depth, limits)?;
    let len = node.list_len();
    W::array(out, len);
    let mut i = 0;
    node.each_item(&mut |item| {
        let written = match table {
            Some(_) if matches!(item.view()?, View::Map) => {
                write_map::<W, N>(out, &item, depth + 1, limits, table)
            }
            _ => write::<W, N>(out, &item, depth + 1, limits),
        };
        i += 1;
        written.map_err(|e| e.in_index(i - 1))
    })?;
    if i == len { Ok(()) } else { Err(Error::new(Code::Corrupt, "a list changed while it was read")) }
}

/// Sorts the keys of a map, by rank and position. `key` returns the key at a position. For every
/// kind of value there is this one sort, which takes much code.
///
/// # Errors
/// `ERR_CORRUPT` for a key that comes twice.
pub(crate) fn sort_keys<'k, W: Wire>(keys: &mut [(u64, u32)], key: &dyn Fn(u32) -> &'k str) -> Result<()> {
    if keys.is_sorted_by(|a, b| a.0 < b.0) {
        return Ok(());
    }
    keys.sort_unstable_by(|a, b| {
        a.0.cmp(&b.0).then_with(|| W::order(key(a.1).as_bytes(), key(b.1).as_bytes()))
    });
    match keys.windows(2).find(|pair| pair[0].0 == pair[1].0 && key(pair[0].1) == key(pair[1].1)) {
        Some(pair) => Err(twice(key(pair[0].1))),
        None => Ok(()),
    }
}

fn write_map<W: Wire, N: Node>(
    out: &mut Vec<u8>,
    node: &N,
    depth: usize,
    limits: Limits,
    table: Option<Nesting>,
) -> Result<()> {
    check(out, depth, limits)?;
    let mut entries: SmallVec<[(WireKey<N::Key>, N); 8]> = SmallVec::new();
    let mut ranks: SmallVec<[(u64, u32); 8]> = SmallVec::new();
    node.each_entry(&mut |key, value| {
        if !value.is_null() {
            let key = WireKey::new(key, |name| table?.table.by_name(name).map(|f| f.short))?;
            ranks.push((W::rank(key.as_str().as_bytes()), entries.len() as u32));
            entries.push((key, value));
        }
        Ok(())
    })?;
    W::map(out, entries.len());
    sort_keys::<W>(&mut ranks, &|i| entries[i as usize].0.as_str())?;
    for (_, i) in &ranks {
        let (key, value) = &entries[*i as usize];
        let key = key.as_str();
        W::str(out, key);
        let field = table.and_then(|t| t.table.by_short(key));
        let kind = field.filter(|_| table.is_some_and(|t| t.coerce)).map(|f| f.kind);
        match (kind, value.view()?) {
            (Some(Kind::Float64), View::Int(i)) => W::float(out, i as f64),
            (Some(Kind::Float64), View::UInt(u)) => W::float(out, u as f64),
            _ => write::<W, N>(out, value, depth + 1, limits)
                .map_err(|e| e.in_key(field.map_or(key, |f| f.name)))?,
        }
    }
    Ok(())
}

/// A map key as it is written.
#[derive(Debug)]
pub enum WireKey<K> {
    /// The short key of a known name.
    Short(&'static str),
    /// The given name.
    Given(K),
    /// The name in NFC.
    Composed(String),
}

impl<K: AsRef<str>> WireKey<K> {
    /// The key for a name; `short` returns the short key of a known name.
    ///
    /// # Errors
    /// `ERR_CORRUPT` for a byte order mark.
    #[inline]
    pub fn new(key: K, short: impl FnOnce(&str) -> Option<&'static str>) -> Result<Self> {
        let composed = match text::nfc(key.as_ref())? {
            Cow::Owned(name) => Some(name),
            Cow::Borrowed(_) => None,
        };
        let name = composed.as_deref().unwrap_or_else(|| key.as_ref());
        if let Some(short) = short(name) {
            return Ok(WireKey::Short(short));
        }
        Ok(composed.map_or_else(|| WireKey::Given(key), WireKey::Composed))
    }

    /// The text.
    #[inline]
    pub fn as_str(&self) -> &str {
        match self {
            WireKey::Short(key) => key,
            WireKey::Given(key) => key.as_ref(),
            WireKey::Composed(key) => key,
        }
    }
}
