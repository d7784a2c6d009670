// SPDX-License-Identifier: Apache-2.0
//! Checks that several fuzz targets share. A crash is a broken promise of the core.

use std::borrow::Cow;

use omsgrain_core::codec::{
    EXTENDED, Encoding, Limits, RawEntry, Wire, cbor::Cbor, msgpack::Msgpack, read_map, write,
};
use omsgrain_core::columns::{self, Shape};
use omsgrain_core::encode::{Options, encode};
use omsgrain_core::header::{self, COMPRESSED, Facts, Header, LEN};
use omsgrain_core::{Value, decode, registry};

/// An accepted payload, written again, has the same bytes, also with its keys in another order.
pub fn payload_comes_back<W: Wire>(payload: &[u8]) {
    let Ok(entries) = read_map::<W>(payload, EXTENDED.max_depth) else { return };
    let value = map(entries);
    assert_eq!(written::<W>(&value), payload);
    assert_eq!(written::<W>(&reversed(value)), payload);
}

/// An accepted blob, written again, has the same bytes, except for the writer's own choices:
/// compression, 1.1 names, and the hash of an absent namespace.
pub fn blob_comes_back(blob: &[u8]) {
    let Ok((header, payload)) = decode::open(blob) else { return };
    let Ok(decoded) = decode::read(header, &payload) else { return };
    let renamed = decoded.items.iter().any(|item| item.key != item.field().map_or(item.key, |f| f.short));
    let options = Options {
        encoding: header.encoding(),
        sensitivity: header.sensitivity(),
        keep_type_name: true,
        type_byte: decoded.grain_type.is_none().then_some(header.type_byte),
        ..Options::default()
    };
    let fields = decoded.into_value();
    let again = encode(&&fields, &options).expect("what was read can be written");
    assert_eq!(encode(&&reversed(fields), &options).as_ref(), Ok(&again), "in any order");
    if renamed {
        let (header, payload) = decode::open(&again).expect("what was written can be opened");
        let decoded = decode::read(header, &payload).expect("what was written can be read");
        assert_eq!(encode(&&decoded.into_value(), &options).as_ref(), Ok(&again), "today's names stay");
        return;
    }
    let expected = Header { flags: header.flags & !COMPRESSED, ..header };
    let got = Header::read(&again).expect("a blob has a header");
    assert_eq!(Header { ns_hash: header.ns_hash, ..got }, expected);
    assert_eq!(&again[LEN..], &*payload);
}

/// The columns of any bytes are refused or made; those of a valid grain equal its fields.
pub fn columns_agree(blob: &[u8]) {
    let shapes = [Shape::Text, Shape::Int, Shape::Float, Shape::Bool, Shape::Texts];
    let names = ["subject", "created_at", "confidence", "is_error", "structural_tags"];
    let wanted: Vec<_> = names.iter().map(|name| (*name).to_owned()).zip(shapes).collect();
    let found = columns::read(&[blob], &wanted);
    let Ok((header, payload)) = decode::open(blob) else { return };
    let Ok(decoded) = decode::read(header, &payload) else { return };
    let Some(found) = found.expect("a good grain has columns") else { return };
    for (column, (name, shape)) in found.iter().zip(&wanted) {
        let value = decoded.items.iter().find(|item| item.name() == name).map(|item| &item.value);
        let bytes = match (shape, value) {
            (Shape::Text, Some(Value::Str(text))) => Some(text.as_bytes().to_vec()),
            (Shape::Int, Some(Value::Int(number))) => Some(number.to_ne_bytes().to_vec()),
            (Shape::Float, Some(Value::Float(number))) => Some(number.to_ne_bytes().to_vec()),
            (Shape::Float, Some(Value::Int(number))) if number.unsigned_abs() <= 1 << 53 => {
                Some((*number as f64).to_ne_bytes().to_vec())
            }
            (Shape::Bool, Some(Value::Bool(truth))) => Some(vec![u8::from(*truth)]),
            (Shape::Texts, Some(Value::List(items))) => items
                .iter()
                .map(|item| if let Value::Str(text) = item { Some(text.as_bytes()) } else { None })
                .collect::<Option<Vec<_>>>()
                .map(|texts| texts.concat()),
            _ => None,
        };
        assert_eq!(column.nulls == 0, bytes.is_some(), "{name}");
        if let Some(bytes) = bytes {
            assert_eq!(column.values, bytes, "{name}");
        }
    }
}

/// The same payload under its own header: mutation alone would seldom find one.
pub fn with_its_header(blob: &[u8]) -> Option<Vec<u8>> {
    let (given, payload) = decode::open(blob).ok()?;
    let depth = EXTENDED.max_depth;
    let entries = match given.encoding() {
        Encoding::Msgpack => read_map::<Msgpack>(&payload, depth),
        Encoding::Cbor => read_map::<Cbor>(&payload, depth),
    };
    let (mut facts, mut type_byte) = (Facts::default(), given.type_byte);
    for RawEntry { key, value, .. } in entries.ok()? {
        match (key, value) {
            ("ca", Value::Int(ms)) => facts.created_at = u32::try_from(ms.div_euclid(1000)).unwrap_or(0),
            ("ns", Value::Str(name)) if !name.is_empty() => facts.ns_hash = header::ns_hash(&name),
            ("cr", Value::List(items)) if !items.is_empty() => facts.refs |= header::CONTENT_REFS,
            ("er", Value::List(items)) if !items.is_empty() => facts.refs |= header::EMBEDDING_REFS,
            ("t", Value::Str(name)) => {
                type_byte = registry::type_named(&name).map_or(type_byte, |named| named.grain_type.byte);
            }
            _ => {}
        }
    }
    let header = facts.header(type_byte, given.encoding(), 3);
    Some([&header.to_bytes(), &*payload].concat())
}

/// The same content with the entries of every map in the opposite order.
pub fn reversed(value: Value<'_>) -> Value<'_> {
    match value {
        Value::List(items) => Value::List(items.into_iter().map(reversed).collect()),
        Value::Map(entries) => {
            Value::Map(entries.into_iter().rev().map(|(key, value)| (key, reversed(value))).collect())
        }
        scalar => scalar,
    }
}

fn map(entries: Vec<RawEntry<'_>>) -> Value<'_> {
    Value::Map(entries.into_iter().map(|e| (Cow::Borrowed(e.key), e.value)).collect())
}

fn written<W: Wire>(value: &Value<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let limits = Limits { depth: EXTENDED.max_depth, end: usize::MAX };
    write::<W, _>(&mut out, &value, 1, limits).expect("what was read can be written");
    out
}
