// SPDX-License-Identifier: Apache-2.0
//! The strictness of both wire formats, in one place.
//!
//! A format ([`msgpack`], [`cbor`]) only writes heads and reads heads. What makes a payload *the*
//! one encoding of its content is here: limits, key order, NFC, no nulls in maps, no trailing
//! bytes. Invariant: a payload that [`read_map`] takes, written again, is the same bytes.
//! Spec: OMS §4, §16

pub mod cbor;
pub mod msgpack;
mod read;
mod write;

use alloc::vec::Vec;
use core::cmp::Ordering;

use crate::{Code, Error, Result};

pub use read::{RawEntry, read_map, read_value};
pub use write::{Nesting, WireKey, write, write_list};

/// Sizes and depth that a grain may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Bytes of the whole blob.
    pub max_size: usize,
    /// Containers inside one another; the payload map is the first.
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

/// How far a value may go while it is written.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Containers inside one another.
    pub depth: usize,
    /// Where the output has to end, at the latest: a Python list can stand in another many times,
    /// and that in a third, and a few objects say more than any memory holds.
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

/// What stands at the head of an encoded value.
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

/// One wire format: how heads are written, read and keys are ordered.
#[allow(missing_docs)]
pub trait Wire {
    fn nil(out: &mut Vec<u8>);
    fn bool(out: &mut Vec<u8>, value: bool);
    fn int(out: &mut Vec<u8>, value: i64);
    fn uint(out: &mut Vec<u8>, value: u64);
    fn float(out: &mut Vec<u8>, value: f64);
    fn str(out: &mut Vec<u8>, value: &str);
    fn bytes(out: &mut Vec<u8>, value: &[u8]);
    fn array(out: &mut Vec<u8>, len: usize);
    fn map(out: &mut Vec<u8>, len: usize);

    /// Reads one head, refusing all spellings but the shortest.
    ///
    /// # Errors
    /// `ERR_CORRUPT` and the number errors.
    fn head(cursor: &mut Cursor<'_>) -> Result<Head>;

    /// The order of keys.
    fn order(a: &[u8], b: &[u8]) -> Ordering;

    /// A number that sorts as the keys do, but for ties.
    fn rank(key: &[u8]) -> u64;
}

/// A place in a payload.
#[derive(Debug)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    /// How many bytes were read.
    pub at: usize,
}

impl<'a> Cursor<'a> {
    /// At the start of these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Cursor { bytes, at: 0 }
    }

    /// How many bytes are left.
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

/// Passes over what follows the head of a value. How deep it goes was checked when it was taken,
/// and here it costs no stack.
///
/// # Errors
/// Those of the heads, and `ERR_CORRUPT` at the end.
pub fn skip<W: Wire>(cursor: &mut Cursor<'_>, head: Head) -> Result<()> {
    let (mut next, mut left) = (head, 0usize);
    loop {
        match next {
            Head::Str(len) | Head::Bytes(len) => drop(cursor.take(len)?),
            // Each value takes a byte at least, so a lying length ends soon.
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

/// The first eight bytes of a key as a number, which sorts as the bytes do.
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

/// Two keys of a map that are one after NFC.
#[cold]
pub(crate) fn twice(key: &str) -> Error {
    Error::new(Code::Corrupt, "a key stands twice in a map").in_key(key)
}

#[inline]
fn check_depth(depth: usize, max: usize) -> Result<()> {
    if depth <= max {
        return Ok(());
    }
    Err(Error::new(Code::Corrupt, "nested too deep").expected(format!("at most {max} levels")))
}
