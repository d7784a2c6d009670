// SPDX-License-Identifier: Apache-2.0
//! The strict rules of both wire formats.
//!
//! A format ([`msgpack`], [`cbor`]) only writes heads and reads heads. This module makes a payload
//! the only encoding of its content: limits, key order, NFC, no nulls in maps, no trailing bytes.
//! Invariant: a payload that [`read_map`] accepts is written again as the same bytes. Spec: OMS
//! §4, §16

pub mod cbor;
pub mod msgpack;
mod read;
mod write;

use alloc::vec::Vec;
use core::cmp::Ordering;

use crate::{Code, Error, Result};

pub use read::{RawEntry, read_map, read_value};
pub(crate) use write::sort_keys;
pub use write::{Nesting, WireKey, write, write_list};

/// The limits of a grain's size and depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Bytes of the whole blob.
    pub max_size: usize,
    /// Nested containers; the payload map is the first.
    pub max_depth: usize,
    /// Only the fields of a lightweight grain.
    pub lightweight: bool,
}

/// 1 MiB, 32 levels.
pub const EXTENDED: Profile = Profile { max_size: 1 << 20, max_depth: 32, lightweight: false };
/// 32 KiB, 16 levels.
pub const STANDARD: Profile = Profile { max_size: 32 << 10, max_depth: 16, lightweight: false };
/// 512 bytes, 8 levels, seven fields.
pub const LIGHTWEIGHT: Profile = Profile { max_size: 512, max_depth: 8, lightweight: true };

/// The limits while a value is written.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Nested containers.
    pub depth: usize,
    /// Where the output must end at the latest. A Python list can occur in another many times, and
    /// that in a third, so a few objects can expand to more than the memory.
    pub end: usize,
}

/// The wire formats of a payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Encoding {
    #[default]
    Msgpack,
    Cbor,
}

impl Encoding {
    /// Reads a payload in this encoding.
    ///
    /// # Errors
    /// As [`read_map`].
    pub fn read_map(self, payload: &[u8], max_depth: usize) -> Result<Vec<RawEntry<'_>>> {
        match self {
            Encoding::Msgpack => read_map::<msgpack::Msgpack>(payload, max_depth),
            Encoding::Cbor => read_map::<cbor::Cbor>(payload, max_depth),
        }
    }
}

/// The head of an encoded value.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Head {
    Nil,
    Bool(bool),
    Int(i64),
    UInt(u64),
    Float(f64),
    Str(usize),
    Bytes(usize),
    Array(usize),
    Map(usize),
}

/// Where heads and text are written: a vector, or a caller's buffer.
#[allow(missing_docs)]
pub trait Sink {
    fn push(&mut self, byte: u8);
    fn extend_from_slice(&mut self, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    #[inline]
    fn push(&mut self, byte: u8) {
        Vec::push(self, byte);
    }

    #[inline]
    fn extend_from_slice(&mut self, bytes: &[u8]) {
        Vec::extend_from_slice(self, bytes);
    }
}

/// A wire format: how heads are written and read, and how keys are ordered.
#[allow(missing_docs)]
pub trait Wire {
    fn nil(out: &mut impl Sink);
    fn bool(out: &mut impl Sink, value: bool);
    fn int(out: &mut impl Sink, value: i64);
    fn uint(out: &mut impl Sink, value: u64);
    fn float(out: &mut impl Sink, value: f64);
    fn str_head(out: &mut impl Sink, len: usize);
    fn bytes(out: &mut impl Sink, value: &[u8]);
    fn array(out: &mut impl Sink, len: usize);
    fn map(out: &mut impl Sink, len: usize);

    #[inline]
    fn str(out: &mut impl Sink, value: &str) {
        Self::str_head(out, value.len());
        out.extend_from_slice(value.as_bytes());
    }

    /// Reads one head, and refuses all encodings but the shortest.
    ///
    /// # Errors
    /// `ERR_CORRUPT` and the number errors.
    fn head(cursor: &mut Cursor<'_>) -> Result<Head>;

    /// The order of keys.
    fn order(a: &[u8], b: &[u8]) -> Ordering;

    /// A number that sorts as the keys do, except for ties.
    fn rank(key: &[u8]) -> u64;
}

/// A place in a payload.
#[derive(Debug)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    /// The number of bytes that were read.
    pub at: usize,
}

impl<'a> Cursor<'a> {
    /// A cursor at the start of these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Cursor { bytes, at: 0 }
    }

    /// The number of bytes that are left.
    pub fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The bytes that are left.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// The next `n` bytes.
    ///
    /// # Errors
    /// `ERR_CORRUPT` if there are fewer.
    #[inline]
    pub fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        let Some(part) = self.rest().get(..n) else {
            return Err(cut_short(n, self.left()));
        };
        self.at += n;
        Ok(part)
    }

    /// The next byte.
    ///
    /// # Errors
    /// `ERR_CORRUPT` at the end.
    #[inline]
    pub fn byte(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    /// The next big-endian unsigned integer of `n` bytes (at most 8).
    ///
    /// # Errors
    /// `ERR_CORRUPT` at the end.
    #[inline]
    pub fn number(&mut self, n: usize) -> Result<u64> {
        Ok(self.take(n)?.iter().fold(0, |all, byte| all << 8 | u64::from(*byte)))
    }
}

/// Skips the rest of a value after its head. Its depth was checked when it was read; here nesting
/// costs no stack.
///
/// # Errors
/// Those of the heads, and `ERR_CORRUPT` at the end.
pub fn skip<W: Wire>(cursor: &mut Cursor<'_>, head: Head) -> Result<()> {
    let (mut next, mut left) = (head, 0usize);
    loop {
        match next {
            Head::Str(len) | Head::Bytes(len) => drop(cursor.take(len)?),
            // Each value takes at least a byte, so a false length ends soon.
            Head::Array(len) => left = left.saturating_add(len),
            Head::Map(len) => left = left.saturating_add(len.saturating_mul(2)),
            _ => {}
        }
        if left == 0 {
            return Ok(());
        }
        left -= 1;
        next = W::head(cursor)?;
    }
}

/// The first eight bytes of a key as a number that sorts as the bytes do.
#[inline]
pub(crate) fn first_eight(key: &[u8]) -> u64 {
    let mut first = [0u8; 8];
    let n = key.len().min(8);
    first[..n].copy_from_slice(&key[..n]);
    u64::from_be_bytes(first)
}

#[cold]
fn cut_short(wanted: usize, left: usize) -> Error {
    Error::new(Code::Corrupt, "the payload ends in the middle of a value")
        .expected(format!("{wanted} more bytes"))
        .found(format!("{left}"))
}

#[cold]
pub(crate) fn not_shortest(what: &'static str) -> Error {
    Error::new(Code::Corrupt, "not the shortest form").expected("the one canonical form").found(what)
}

/// The error for two keys of a map that are equal after NFC.
#[cold]
pub(crate) fn twice(key: &str) -> Error {
    Error::new(Code::Corrupt, "a map has the same key twice").in_key(key)
}

#[inline]
fn check_depth(depth: usize, max: usize) -> Result<()> {
    if depth <= max {
        return Ok(());
    }
    Err(Error::new(Code::Corrupt, "nested too deep").expected(format!("at most {max} levels")))
}
