// SPDX-License-Identifier: Apache-2.0
//! Reading a payload, and refusing everything that the writer would not write. Spec: OMS §4

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::cmp::Ordering;

use super::{Cursor, Head, Wire, check_depth, twice};
use crate::value::Value;
use crate::{Code, Error, Result, text};

/// One entry of the payload map.
#[derive(Clone, Debug, PartialEq)]
pub struct RawEntry<'a> {
    /// The key on the wire.
    pub key: &'a str,
    /// The offset of the value in the payload.
    pub offset: usize,
    /// The value.
    pub value: Value<'a>,
}

/// The most entries that are allocated in advance. At each of its levels, a payload of 1 MiB can
/// claim a million entries.
const AT_ONCE: usize = 2048;

/// Reads a whole payload: one map in canonical form and nothing else.
///
/// # Errors
/// `ERR_NOT_MAP`, `ERR_CORRUPT`, `ERR_FLOAT_INVALID`, `ERR_RANGE`, with the byte offset in the
/// payload.
pub fn read_map<W: Wire>(payload: &[u8], max_depth: usize) -> Result<Vec<RawEntry<'_>>> {
    let mut reader = Reader::<W> { cursor: Cursor::new(payload), max_depth, wire: Default::default() };
    let entries = reader.payload_map().map_err(|e| e.at(reader.cursor.at))?;
    if reader.cursor.left() > 0 {
        return Err(Error::new(Code::Corrupt, "bytes follow the payload")
            .found(format!("{} bytes", reader.cursor.left()))
            .at(reader.cursor.at));
    }
    Ok(entries)
}

/// Reads the value at the start of these bytes, and returns it with its length. `depth` is its
/// depth if it is a container.
///
/// # Errors
/// As [`read_map`].
pub fn read_value<W: Wire>(bytes: &[u8], depth: usize, max_depth: usize) -> Result<(Value<'_>, usize)> {
    let mut reader = Reader::<W> { cursor: Cursor::new(bytes), max_depth, wire: Default::default() };
    let value = reader.value(depth)?;
    Ok((value, reader.cursor.at))
}

#[cold]
fn not_text(bytes: &[u8], at: usize) -> Error {
    let good = core::str::from_utf8(bytes).map_or_else(|e| e.valid_up_to(), str::len);
    Error::new(Code::Corrupt, "a string is not UTF-8").at(at + good)
}

struct Reader<'a, W> {
    cursor: Cursor<'a>,
    max_depth: usize,
    wire: core::marker::PhantomData<W>,
}

impl<'a, W: Wire> Reader<'a, W> {
    fn payload_map(&mut self) -> Result<Vec<RawEntry<'a>>> {
        // If the first byte is not a head at all, the payload is not a map.
        let not_map = || Error::new(Code::NotMap, "the payload is not a map").at(0);
        let len = match W::head(&mut self.cursor) {
            Ok(Head::Map(len)) => len,
            Ok(_) => return Err(not_map()),
            Err(e) => return Err(e.at(0)),
        };
        self.check_len(len, 2, 0)?;
        let mut entries: Vec<RawEntry<'a>> = Vec::with_capacity(len.min(AT_ONCE));
        for _ in 0..len {
            let key = self.key(entries.last().map(|e| e.key))?;
            let offset = self.cursor.at;
            let value = self.map_value(2).map_err(|e| e.in_key(key))?;
            entries.push(RawEntry { key, offset, value });
        }
        Ok(entries)
    }

    /// A key that follows `last`.
    fn key(&mut self, last: Option<&str>) -> Result<&'a str> {
        let at = self.cursor.at;
        let key = match W::head(&mut self.cursor).map_err(|e| e.at(at))? {
            Head::Str(len) => self.text(len)?,
            _ => return Err(Error::new(Code::Corrupt, "a map key is not a string").at(at)),
        };
        match last.map(|last| W::order(last.as_bytes(), key.as_bytes())) {
            None | Some(Ordering::Less) => Ok(key),
            Some(Ordering::Equal) => Err(twice(key).at(at)),
            Some(Ordering::Greater) => {
                Err(Error::new(Code::Corrupt, "the keys of a map are not in order").in_key(key).at(at))
            }
        }
    }

    fn map_value(&mut self, depth: usize) -> Result<Value<'a>> {
        let at = self.cursor.at;
        match self.value(depth)? {
            Value::Null => Err(Error::new(Code::Corrupt, "a map holds a null").at(at)),
            value => Ok(value),
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value<'a>> {
        let at = self.cursor.at;
        Ok(match W::head(&mut self.cursor).map_err(|e| e.at(at))? {
            Head::Nil => Value::Null,
            Head::Bool(b) => Value::Bool(b),
            Head::Int(i) => Value::Int(i),
            Head::UInt(u) => Value::UInt(u),
            Head::Float(f) if f.is_finite() => Value::Float(f),
            Head::Float(_) => {
                return Err(Error::new(Code::FloatInvalid, "a float is NaN or infinite").at(at));
            }
            Head::Str(len) => Value::Str(Cow::Borrowed(self.text(len)?)),
            Head::Bytes(len) => Value::Bytes(Cow::Borrowed(self.cursor.take(len).map_err(|e| e.at(at))?)),
            Head::Array(len) => {
                check_depth(depth, self.max_depth).map_err(|e| e.at(at))?;
                self.check_len(len, 1, at)?;
                let mut items = Vec::with_capacity(len.min(AT_ONCE));
                for i in 0..len {
                    items.push(self.value(depth + 1).map_err(|e| e.in_index(i))?);
                }
                Value::List(items)
            }
            Head::Map(len) => {
                check_depth(depth, self.max_depth).map_err(|e| e.at(at))?;
                self.check_len(len, 2, at)?;
                let mut entries: Vec<(Cow<'a, str>, Value<'a>)> = Vec::with_capacity(len.min(AT_ONCE));
                let mut last = None;
                for _ in 0..len {
                    let key = self.key(last)?;
                    last = Some(key);
                    let value = self.map_value(depth + 1).map_err(|e| e.in_key(key))?;
                    entries.push((Cow::Borrowed(key), value));
                }
                Value::Map(entries)
            }
        })
    }

    fn text(&mut self, len: usize) -> Result<&'a str> {
        let at = self.cursor.at;
        let bytes = self.cursor.take(len).map_err(|e| e.at(at))?;
        let found = text::utf8(bytes).ok_or_else(|| not_text(bytes, at))?;
        text::check_nfc(found).map_err(|e| e.at(at))?;
        Ok(found)
    }

    /// A container cannot have more entries than the remaining bytes can encode; checked before
    /// any allocation.
    fn check_len(&self, len: usize, least: usize, at: usize) -> Result<()> {
        if len <= self.cursor.left() / least {
            return Ok(());
        }
        Err(Error::new(Code::Corrupt, "a container is longer than the payload")
            .found(format!("{len} entries in {} bytes", self.cursor.left()))
            .at(at))
    }
}
