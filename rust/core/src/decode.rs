// SPDX-License-Identifier: Apache-2.0
//! From a blob to its fields: it accepts exactly what the writer writes. Spec: OMS §4.10

use alloc::borrow::Cow;
use alloc::string::{String, ToString as _};
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::codec::{EXTENDED, Profile, RawEntry, WireKey};
use crate::fields::{Entry, Fields, Side};
use crate::header::{COMPRESSED, ENCRYPTED, Header, LEN, SIGNED};
use crate::registry::{Field, GrainType, Nested, UNKNOWN};
use crate::shape_cache::Plan;
use crate::value::Value;
use crate::{Code, Error, Result, compress, registry, shape_cache, validate};

/// A field of a decoded grain.
#[derive(Debug)]
pub struct Item<'p> {
    /// The field of the table, or [`UNKNOWN`].
    pub id: u8,
    /// The key on the wire.
    pub key: &'p str,
    /// A 1.1 field with the opposite meaning of today's.
    pub negate: bool,
    /// The value.
    pub value: Value<'p>,
}

impl Item<'_> {
    /// The row of the table, if the field is known. (A domain profile's row rules a field, but
    /// does not rename it.)
    pub fn field(&self) -> Option<&'static Field> {
        (self.id != UNKNOWN).then(|| registry::field(self.id))
    }

    /// The full 1.2 name.
    pub fn name(&self) -> &str {
        self.field().map_or(self.key, |f| f.name)
    }
}

/// A decoded and valid grain.
#[derive(Debug)]
pub struct Decoded<'p> {
    /// The nine bytes.
    pub header: Header,
    /// The type; None if the grain is opaque.
    pub grain_type: Option<&'static GrainType>,
    /// The fields, in the order of the payload.
    pub items: Vec<Item<'p>>,
    /// The warnings.
    pub warnings: Vec<String>,
}

/// A header, and the plain payload.
pub type Opened<'p> = (Header, Cow<'p, [u8]>);

/// Checks size, version and flags of a blob and returns its plain payload.
///
/// # Errors
/// `ERR_TOO_SHORT`, `ERR_TOO_LARGE`, `ERR_VERSION`, `ERR_UNKNOWN_TYPE`, `ERR_SIGNED_MISMATCH`
/// (a signed grain comes in its envelope), `ERR_KEY` (a sealed grain), `ERR_CORRUPT`.
pub fn open(blob: &[u8]) -> Result<Opened<'_>> {
    open_within(blob, EXTENDED)
}

fn open_within(blob: &[u8], profile: Profile) -> Result<Opened<'_>> {
    let header = Header::read(blob)?;
    if blob.len() > profile.max_size {
        return Err(Error::new(Code::TooLarge, "the grain is too large")
            .expected(format!("at most {} bytes", profile.max_size))
            .found(blob.len().to_string()));
    }
    if header.type_byte == 0 {
        return Err(Error::new(Code::UnknownType, "type byte 0 is not a type").expected("1 to 255").at(2));
    }
    if header.has(SIGNED) {
        return Err(Error::new(Code::SignedMismatch, "the signed bit is set, but there is no envelope").at(1));
    }
    if header.has(ENCRYPTED) {
        return Err(Error::new(Code::Key, "the grain is encrypted, and there is no key to decrypt it").at(1));
    }
    Ok((header, payload_within(header, blob, profile)?))
}

/// The plain payload of an unsealed blob, with or without envelope.
///
/// # Errors
/// `ERR_CORRUPT`, `ERR_TOO_LARGE` for a packed payload.
pub fn payload(header: Header, blob: &[u8]) -> Result<Cow<'_, [u8]>> {
    payload_within(header, blob, EXTENDED)
}

fn payload_within(header: Header, blob: &[u8], profile: Profile) -> Result<Cow<'_, [u8]>> {
    let payload = &blob[LEN..];
    if !header.has(COMPRESSED) {
        return Ok(Cow::Borrowed(payload));
    }
    compress::decompress(payload, profile.max_size - LEN).map_err(|e| e.shifted(LEN))
}

/// Reads the payload that [`open`] returned.
///
/// # Errors All refusals of the format, with the byte offset (of a compressed blob: after
/// decompression).
pub fn read<'p>(header: Header, payload: &'p [u8]) -> Result<Decoded<'p>> {
    let raw = header.encoding().read_map(payload, EXTENDED.max_depth);
    raw.and_then(|raw| check(header, raw))
        .map_err(|e| e.shifted(LEN))
        .and_then(|(decoded, facts)| header.check(&facts).map(|()| decoded))
        .map_err(|e| e.at(LEN))
}

fn check(header: Header, raw: Vec<RawEntry<'_>>) -> Result<(Decoded<'_>, crate::header::Facts)> {
    let mut warnings = Vec::new();
    let mut fields: Fields<&str, &Value<'_>> = Fields::new(Side::Read);
    for entry in &raw {
        let id = registry::by_short(entry.key, 0);
        let field = (id != UNKNOWN).then(|| registry::field(id));
        let (key, offset) = (WireKey::Given(entry.key), Some(entry.offset));
        fields.push(Entry { key, id, field, negate: false, offset, node: &entry.value })?;
    }
    fields.resolve(Some(header.type_byte))?;
    let facts = validate::validate(&mut fields, EXTENDED, &mut warnings)?;
    let grain_type = fields.grain_type;
    let found: Vec<_> = fields.entries.iter().map(|e| (e.id, e.negate)).collect();
    drop(fields);
    let items = raw
        .into_iter()
        .zip(found)
        .map(|(entry, (id, negate))| Item { id, key: entry.key, negate, value: entry.value })
        .collect();
    Ok((Decoded { header, grain_type, items, warnings }, facts))
}

/// A decoded and valid blob.
#[derive(Debug)]
pub enum Parsed<'p> {
    /// Plain: the fields of this plan are in the blob as they are.
    Plain(Header, Arc<Plan>),
    /// Any other.
    Other(Decoded<'p>),
}

/// Reads a blob, by a plan of this thread or by the general code. `payload` receives a
/// decompressed payload.
///
/// # Errors
/// As [`open`] and [`read`].
pub fn read_one<'p>(blob: &'p [u8], payload: &'p mut Cow<'p, [u8]>) -> Result<Parsed<'p>> {
    let header;
    (header, *payload) = open(blob)?;
    if let Some(plan) = shape_cache::takes_one(header, blob) {
        return Ok(Parsed::Plain(header, plan));
    }
    let decoded = read(header, payload)?;
    shape_cache::learn_one(&decoded);
    Ok(Parsed::Other(decoded))
}

/// Reads one of many opened blobs.
///
/// # Errors
/// As [`read`].
pub fn read_by<'b, 'p>(
    reader: &mut shape_cache::Reader<'b>,
    header: Header,
    blob: &'b [u8],
    payload: &'p [u8],
) -> Result<Parsed<'p>> {
    if let Some(plan) = reader.takes(header, blob) {
        return Ok(Parsed::Plain(header, Arc::clone(plan)));
    }
    let decoded = read(header, payload)?;
    reader.learn(&decoded);
    Ok(Parsed::Other(decoded))
}

/// Checks a blob in full, and returns only its header.
///
/// # Errors
/// As [`open`] and [`read`].
pub fn verify(blob: &[u8]) -> Result<Header> {
    let (header, payload) = open(blob)?;
    if shape_cache::takes_one(header, blob).is_none() {
        shape_cache::learn_one(&read(header, &payload)?);
    }
    Ok(header)
}

/// As [`verify`], for one of many blobs.
///
/// # Errors
/// As [`open`] and [`read`].
pub fn verify_by<'p>(reader: &mut shape_cache::Reader<'p>, blob: &'p [u8]) -> Result<Header> {
    let (header, payload) = open(blob)?;
    if reader.takes(header, blob).is_none() {
        reader.learn(&read(header, &payload)?);
    }
    Ok(header)
}
impl<'p> Decoded<'p> {
    /// The fields as a map by full name; the input of [`crate::encode::encode`].
    pub fn into_value(self) -> Value<'p> {
        Value::Map(self.items.into_iter().map(expand).collect())
    }
}

fn expand(item: Item<'_>) -> (Cow<'_, str>, Value<'_>) {
    let field = item.field();
    let name = Cow::Borrowed(field.map_or(item.key, |f| f.name));
    let value = match (item.value, field.and_then(|f| f.nested)) {
        (Value::Bool(b), _) if item.negate => Value::Bool(!b),
        (Value::List(entries), Some(table)) => {
            Value::List(entries.into_iter().map(|entry| nested(entry, table)).collect())
        }
        (value, _) => value,
    };
    (name, value)
}

fn nested<'p>(entry: Value<'p>, table: &'static Nested) -> Value<'p> {
    let Value::Map(entries) = entry else { return entry };
    let long = |key: Cow<'p, str>| table.by_short(&key).map_or(key, |f| Cow::Borrowed(f.name));
    Value::Map(entries.into_iter().map(|(key, value)| (long(key), value)).collect())
}
