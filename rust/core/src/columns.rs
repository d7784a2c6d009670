// SPDX-License-Identifier: Apache-2.0
//! Chosen fields of many stored grains in Arrow's column layout: no Python object is made for a
//! row. A value of another kind than its column is absent.
//!
//! A fast path for the benchmark row A1 (`to_arrow`); `store/arrow.py` reads what it declines.

use alloc::string::String;
use alloc::vec::Vec;

use crate::codec::cbor::Cbor;
use crate::codec::msgpack::Msgpack;
use crate::codec::{Cursor, Encoding, Head, Wire, skip};
use crate::header::{COMPRESSED, ENCRYPTED, Header, LEN};
use crate::registry::{self, COUNT, UNKNOWN, id};
use crate::{Code, Error, Result};

/// The kind of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Strings.
    Text,
    /// Floats, and integers that a float holds exactly.
    Float,
    /// Integers of 64 bits, signed.
    Int,
    /// True or false.
    Bool,
    /// Lists of strings.
    Texts,
}

/// A float holds all integers up to this one.
const EXACT: u64 = 1 << 53;
/// Maximum bytes of the blobs of one call: an offset has 32 bits.
const MOST: usize = i32::MAX as usize;

/// One column.
#[derive(Debug)]
pub struct Column {
    shape: Shape,
    rows: usize,
    /// One bit a row, the least significant first: whether it has a value.
    pub present: Vec<u8>,
    /// How many rows have no value.
    pub nulls: usize,
    /// For text, where each row's string begins and ends. For texts, where each row's entries do.
    pub offsets: Vec<i32>,
    /// For texts, where each entry begins and ends.
    pub entries: Vec<i32>,
    /// The bytes of strings; 8 bytes a number; one bit a boolean.
    pub values: Vec<u8>,
}

impl Column {
    fn new(shape: Shape, rows: usize) -> Self {
        let lists = matches!(shape, Shape::Text | Shape::Texts);
        let mut column = Column {
            shape,
            rows: 0,
            present: Vec::with_capacity(rows.div_ceil(8)),
            nulls: 0,
            offsets: Vec::with_capacity(if lists { rows + 1 } else { 0 }),
            entries: Vec::new(),
            values: Vec::with_capacity(if lists { 0 } else { rows * 8 }),
        };
        if lists {
            column.offsets.push(0);
        }
        if shape == Shape::Texts {
            column.entries.push(0);
        }
        column
    }

    /// Ends the row, which has a value or none.
    fn end(&mut self, has: bool) {
        let bit = self.rows % 8;
        if bit == 0 {
            self.present.push(0);
        }
        if let Some(last) = self.present.last_mut() {
            *last |= u8::from(has) << bit;
        }
        match self.shape {
            Shape::Text => self.offsets.push(end_of(self.values.len())),
            Shape::Texts => self.offsets.push(end_of(self.entries.len() - 1)),
            Shape::Float | Shape::Int if !has => self.values.extend([0; 8]),
            Shape::Bool if self.values.len() * 8 <= self.rows => self.values.push(0),
            _ => {}
        }
        self.nulls += usize::from(!has);
        self.rows += 1;
    }

    /// Reads the value after a head, and ends the row with it.
    fn take<W: Wire>(&mut self, cursor: &mut Cursor<'_>, head: Head) -> Result<()> {
        let has = match (self.shape, head) {
            (Shape::Text, Head::Str(size)) => {
                self.values.extend_from_slice(text(cursor, size)?.as_bytes());
                true
            }
            (Shape::Texts, Head::Array(len)) => self.take_texts::<W>(cursor, len)?,
            (_, head) => {
                skip::<W>(cursor, head)?;
                self.take_number(head)
            }
        };
        self.end(has);
        Ok(())
    }

    /// Keeps a number or a boolean; false if it is of another kind.
    fn take_number(&mut self, head: Head) -> bool {
        match (self.shape, head) {
            (Shape::Int, Head::Int(value)) => self.values.extend(value.to_ne_bytes()),
            (Shape::Float, Head::Float(value)) => self.values.extend(value.to_ne_bytes()),
            (Shape::Float, Head::Int(value)) if value.unsigned_abs() <= EXACT => {
                self.values.extend((value as f64).to_ne_bytes());
            }
            (Shape::Bool, Head::Bool(value)) => {
                let bit = self.rows % 8;
                if bit == 0 {
                    self.values.push(0);
                }
                if let Some(last) = self.values.last_mut() {
                    *last |= u8::from(value) << bit;
                }
            }
            _ => return false,
        }
        true
    }

    /// Reads the entries of a list. A list with an entry of another kind is absent.
    fn take_texts<W: Wire>(&mut self, cursor: &mut Cursor<'_>, len: usize) -> Result<bool> {
        let before = (self.entries.len(), self.values.len());
        let mut has = true;
        for _ in 0..len {
            let head = W::head(cursor)?;
            if let Head::Str(size) = head {
                self.values.extend_from_slice(text(cursor, size)?.as_bytes());
                self.entries.push(end_of(self.values.len()));
            } else {
                skip::<W>(cursor, head)?;
                has = false;
            }
        }
        if !has {
            self.entries.truncate(before.0);
            self.values.truncate(before.1);
        }
        Ok(has)
    }
}

/// An offset; [`read`] makes sure that it fits.
fn end_of(len: usize) -> i32 {
    i32::try_from(len).unwrap_or(i32::MAX)
}

fn text<'p>(cursor: &mut Cursor<'p>, size: usize) -> Result<&'p str> {
    let bytes = cursor.take(size)?;
    core::str::from_utf8(bytes)
        .map_err(|_| Error::new(Code::Corrupt, "a string is not UTF-8").at(cursor.at - size))
}

/// The column of each field: by the id of a registered field, by the name of any other.
struct Wanted<'n> {
    by_id: [u8; COUNT],
    by_name: Vec<(&'n str, usize)>,
    /// The columns that show the type.
    types: Vec<usize>,
}

const NOWHERE: u8 = u8::MAX;

impl<'n> Wanted<'n> {
    /// None if there are too many.
    fn of(names: &'n [(String, Shape)]) -> Option<Self> {
        let mut wanted = Wanted { by_id: [NOWHERE; COUNT], by_name: Vec::new(), types: Vec::new() };
        for (at, (name, _)) in names.iter().enumerate() {
            let place = u8::try_from(at).ok().filter(|place| *place != NOWHERE)?;
            let field = registry::by_name(name, 0);
            if field == id::TYPE {
                wanted.types.push(at);
            } else if field == UNKNOWN {
                wanted.by_name.push((name, at));
            } else {
                wanted.by_id[usize::from(field)] = place;
                if field == id::CONTENT {
                    wanted.by_id[usize::from(id::CONTENT_ACTION)] = place;
                }
            }
        }
        Some(wanted)
    }

    fn place(&self, key: &str, field: u8) -> Option<usize> {
        if field == UNKNOWN {
            return self.by_name.iter().find(|(name, _)| *name == key).map(|(_, at)| *at);
        }
        let place = self.by_id[usize::from(field)];
        (place != NOWHERE).then_some(usize::from(place))
    }
}

/// Reads the chosen fields of stored blobs, in the order asked; an encrypted grain has none. None
/// if a grain needs the general reader: it is compressed, its type is opaque, or it has names of
/// OMS 1.1.
///
/// # Errors
/// `ERR_CORRUPT` and others for a blob that is no grain.
pub fn read(blobs: &[&[u8]], names: &[(String, Shape)]) -> Result<Option<Vec<Column>>> {
    let size: usize = blobs.iter().map(|blob| blob.len()).sum();
    let packed = blobs.iter().any(|blob| blob.get(1).is_some_and(|flags| flags & COMPRESSED != 0));
    let (Some(wanted), false) = (Wanted::of(names), packed || size > MOST) else { return Ok(None) };
    let mut columns: Vec<Column> = names.iter().map(|(_, shape)| Column::new(*shape, blobs.len())).collect();
    for (row, blob) in blobs.iter().enumerate() {
        let header = Header::read(blob)?;
        if !header.has(ENCRYPTED) {
            let mut cursor = Cursor::new(&blob[LEN..]);
            let known = match header.encoding() {
                Encoding::Msgpack => read_one::<Msgpack>(&mut cursor, header, &wanted, &mut columns, row),
                Encoding::Cbor => read_one::<Cbor>(&mut cursor, header, &wanted, &mut columns, row),
            }
            .map_err(|e| e.at(cursor.at).shifted(LEN))?;
            if !known {
                return Ok(None);
            }
        }
        for column in &mut columns {
            if column.rows == row {
                column.end(false);
            }
        }
    }
    Ok(Some(columns))
}

/// False if the grain needs the general reader.
fn read_one<W: Wire>(
    cursor: &mut Cursor<'_>,
    header: Header,
    wanted: &Wanted<'_>,
    columns: &mut [Column],
    row: usize,
) -> Result<bool> {
    let Some(grain_type) = registry::type_of_byte(header.type_byte) else { return Ok(false) };
    let type_key = registry::field(id::TYPE).short;
    let mut named = false;
    let Head::Map(len) = W::head(cursor)? else {
        return Err(Error::new(Code::Corrupt, "the payload is not a map"));
    };
    for _ in 0..len {
        let Head::Str(size) = W::head(cursor)? else {
            return Err(Error::new(Code::Corrupt, "a map key is not a string"));
        };
        let key = text(cursor, size)?;
        let head = W::head(cursor)?;
        if let (true, Head::Str(size)) = (key == type_key, head) {
            named = cursor.take(size)? == grain_type.name.as_bytes();
            continue;
        }
        let field = registry::by_short(key, header.type_byte);
        if field == UNKNOWN && registry::aliases(header.type_byte).any(|alias| alias.old.contains(&key)) {
            return Ok(false);
        }
        match wanted.place(key, field) {
            // If a damaged payload repeats a key, its first value counts.
            Some(at) if columns[at].rows == row => columns[at].take::<W>(cursor, head)?,
            _ => skip::<W>(cursor, head)?,
        }
    }
    for at in &wanted.types {
        columns[*at].values.extend_from_slice(grain_type.name.as_bytes());
        columns[*at].end(true);
    }
    if cursor.left() > 0 {
        return Err(Error::new(Code::Corrupt, "bytes follow the payload"));
    }
    Ok(named)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::{Options, encode};
    use crate::json;

    fn blob(text: &str, encoding: Encoding) -> Vec<u8> {
        encode(&&json::parse(text.as_bytes()).unwrap(), &Options { encoding, ..Options::default() }).unwrap()
    }

    fn wanted() -> Vec<(String, Shape)> {
        [
            ("type", Shape::Text),
            ("content", Shape::Text),
            ("importance", Shape::Float),
            ("created_at", Shape::Int),
            ("is_error", Shape::Bool),
            ("structural_tags", Shape::Texts),
            ("x_mine", Shape::Text),
        ]
        .map(|(name, shape)| (String::from(name), shape))
        .into()
    }

    #[test]
    fn a_column_has_a_row_for_each_grain() {
        let event = r#"{"type":"event","content":"hé","created_at":5,"importance":1,
            "structural_tags":["a","bc"],"x_mine":"y"}"#;
        let action = r#"{"type":"action","action_phase":"result","tool_call_id":"c","is_error":true,"content":"done",
            "derived_from":["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"],
            "tool_name":"t","created_at":7,"x_mine":[1]}"#;
        for encoding in [Encoding::Msgpack, Encoding::Cbor] {
            let mut blobs = vec![blob(event, encoding), blob(action, encoding)];
            blobs.push(blobs[0].clone());
            blobs[2][1] |= ENCRYPTED;
            let blobs: Vec<&[u8]> = blobs.iter().map(Vec::as_slice).collect();
            let found = read(&blobs, &wanted()).unwrap().unwrap();
            let nulls: Vec<usize> = found.iter().map(|column| column.nulls).collect();
            assert_eq!(nulls, [1, 1, 2, 1, 2, 2, 2]);
            assert_eq!(found[0].values, b"eventaction");
            assert_eq!(
                (&found[1].values[..], &found[1].offsets[..]),
                ("hédone".as_bytes(), &[0, 3, 7, 7][..])
            );
            assert_eq!(found[2].values[..8], 1f64.to_ne_bytes());
            assert_eq!(found[3].values, [5i64, 7, 0].map(i64::to_ne_bytes).concat());
            assert_eq!((&found[4].values[..], &found[4].present[..]), (&[0b10][..], &[0b10][..]));
            assert_eq!((&found[5].entries[..], &found[5].offsets[..]), (&[0, 1, 3][..], &[0, 2, 2, 2][..]));
        }
    }

    #[test]
    fn a_cut_payload_is_refused() {
        let whole = blob(
            r#"{"type":"event","content":"x","created_at":1,"structural_tags":["a"]}"#,
            Encoding::Msgpack,
        );
        for end in 0..whole.len() {
            assert!(read(&[&whole[..end]], &wanted()).is_err(), "{end}");
        }
    }

    #[test]
    fn other_grains_are_left_to_the_general_way() {
        let event = blob(r#"{"type":"event","content":"x","created_at":1}"#, Encoding::Msgpack);
        let opaque = [&event[..2], &[200], &event[3..]].concat();
        assert!(read(&[&opaque], &wanted()).unwrap().is_none());
        let renamed: Vec<u8> = event.iter().map(|byte| if *byte == b'v' { b'w' } else { *byte }).collect();
        assert!(read(&[&renamed], &wanted()).unwrap().is_none());
    }
}
