// SPDX-License-Identifier: Apache-2.0
//! Grains of the lightweight profile, written into a caller's buffer. Spec: OMS §17
//!
//! A second writer beside [`encode`](crate::encode), for machines without an allocator: it takes a
//! quarter of the code and no heap. The fuzz target `lightweight` compares the two.

use core::fmt;

use sha2::{Digest as _, Sha256};

use crate::Code;
use crate::codec::cbor::Cbor;
use crate::codec::msgpack::Msgpack;
use crate::codec::{Encoding, LIGHTWEIGHT, Sink, Wire};
use crate::compose::compose;
use crate::header::{Facts, seconds};
use crate::registry::{FIELDS, OBSERVATION, TYPES, id};
use crate::text::BOM;

/// The most bytes of a lightweight grain: a buffer of this size is always large enough.
pub const MAX_SIZE: usize = LIGHTWEIGHT.max_size;

/// An observation of a sensor, a model or a person.
///
/// `None` is a field that is absent. The blob is the one that [`encode`](crate::encode) gives for
/// the same fields.
///
/// ```
/// use omsgrain_core::{Address, Object, Observation};
///
/// let observation = Observation {
///     observer_id: Some("thermometer 4"),
///     observer_type: Some("temperature"),
///     subject: Some("greenhouse"),
///     object: Some(Object::Reading { value: 22.5, unit: Some("Cel") }),
///     created_at: 1_768_471_200_000,
///     ..Observation::default()
/// };
/// let mut buffer = [0; 512];
/// let blob = observation.write(&mut buffer)?;
/// assert_eq!(Address::of(blob).to_string().len(), 64);
///
/// let unnamed = Observation { observer_id: None, ..observation };
/// let refusal = unnamed.write(&mut buffer).unwrap_err();
/// assert_eq!((refusal.code(), refusal.field()), ("ERR_SCHEMA", Some("observer_id")));
/// # Ok::<(), omsgrain_core::Refusal>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Observation<'a> {
    /// The observer: a sensor's serial number or path. Required.
    pub observer_id: Option<&'a str>,
    /// The kind of observer: `temperature`, `lidar`, or your own with a prefix. Required.
    pub observer_type: Option<&'a str>,
    /// The thing that was observed.
    pub subject: Option<&'a str>,
    /// How subject and object are related: `mg:state_at`.
    pub relation: Option<&'a str>,
    /// The reading or the finding.
    pub object: Option<Object<'a>>,
    /// From 0 to 1.
    pub confidence: Option<f64>,
    /// The partition that the grain belongs to.
    pub namespace: Option<&'a str>,
    /// Milliseconds since 1970.
    pub created_at: i64,
}

/// A statement that is held to be true. All fields but the namespace are required.
#[derive(Clone, Copy, Debug, Default)]
pub struct Belief<'a> {
    /// The thing that the statement is about.
    pub subject: Option<&'a str>,
    /// How subject and object are related.
    pub relation: Option<&'a str>,
    /// The value, or the other thing.
    pub object: Option<Object<'a>>,
    /// From 0 to 1.
    pub confidence: Option<f64>,
    /// The partition that the grain belongs to.
    pub namespace: Option<&'a str>,
    /// Milliseconds since 1970.
    pub created_at: i64,
}

/// The object of a lightweight grain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Object<'a> {
    /// Text.
    Text(&'a str),
    /// A map of `value` and, if given, `unit`.
    Reading {
        /// The number that was read.
        value: f64,
        /// Its unit: `Cel`, `m/s`.
        unit: Option<&'a str>,
    },
}

/// Why a grain was not written: a stable code and the field.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    code: Code,
    field: Option<&'static str>,
}

impl Refusal {
    pub(crate) fn of(code: Code, field: Option<&'static str>) -> Refusal {
        Refusal { code, field }
    }

    /// The stable code, as the specification writes it: `ERR_SCHEMA`.
    pub fn code(&self) -> &'static str {
        self.code.as_str()
    }

    #[doc(hidden)]
    pub fn kind(&self) -> Code {
        self.code
    }

    /// The name of the field; `None` if it is about the whole grain, or the buffer is too small.
    pub fn field(&self) -> Option<&'static str> {
        self.field
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())?;
        match self.field {
            Some(field) => write!(f, " (at /{field})"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for Refusal {}

type Result<T> = core::result::Result<T, Refusal>;

/// The two ways to write a grain, the same for each type.
macro_rules! writers {
    () => {
        /// Writes the blob, with a payload in MessagePack, and returns it.
        ///
        /// # Errors
        /// The first rule that is broken. `ERR_TOO_LARGE` for more than 512 bytes, or more than the
        /// buffer; `ERR_UNSUPPORTED` for a letter with more than 30 marks.
        pub fn write<'b>(&self, out: &'b mut [u8]) -> Result<&'b [u8]> {
            self.encoded(Encoding::Msgpack, out)
        }

        /// Writes the blob, with a payload in CBOR, and returns it.
        ///
        /// # Errors
        /// As [`Observation::write`].
        pub fn write_cbor<'b>(&self, out: &'b mut [u8]) -> Result<&'b [u8]> {
            self.encoded(Encoding::Cbor, out)
        }
    };
}

impl Observation<'_> {
    writers!();

    #[doc(hidden)]
    pub fn encoded<'b>(&self, encoding: Encoding, out: &'b mut [u8]) -> Result<&'b [u8]> {
        confidence(self.confidence)?;
        required_text(OBSERVER_ID, self.observer_id)?;
        required_text(OBSERVER_TYPE, self.observer_type)?;
        blob(self, OBSERVATION, encoding, out)
    }
}

impl Belief<'_> {
    writers!();

    #[doc(hidden)]
    pub fn encoded<'b>(&self, encoding: Encoding, out: &'b mut [u8]) -> Result<&'b [u8]> {
        confidence(self.confidence)?;
        required_text(SUBJECT, self.subject)?;
        required_text(RELATION, self.relation)?;
        required(OBJECT, self.object)?;
        required(CONFIDENCE, self.confidence)?;
        blob(&Observation::from(*self), BELIEF, encoding, out)
    }
}

/// The same statement without an observer.
#[doc(hidden)]
impl<'a> From<Belief<'a>> for Observation<'a> {
    fn from(belief: Belief<'a>) -> Observation<'a> {
        let Belief { subject, relation, object, confidence, namespace, created_at } = belief;
        Observation { subject, relation, object, confidence, namespace, created_at, ..Observation::default() }
    }
}

/// A field: its name and its short key.
struct Slot {
    id: u8,
    name: &'static str,
    key: &'static str,
}

/// Evaluated by the compiler, so that no table of fields is linked.
const fn slot(id: u8) -> Slot {
    let field = &FIELDS[id as usize];
    Slot { id, name: field.name, key: field.short }
}

const TYPE: Slot = slot(id::TYPE);
const SUBJECT: Slot = slot(id::SUBJECT);
const RELATION: Slot = slot(id::RELATION);
const OBJECT: Slot = slot(id::OBJECT);
const CONFIDENCE: Slot = slot(id::CONFIDENCE);
const CREATED_AT: Slot = slot(id::CREATED_AT);
const NAMESPACE: Slot = slot(id::NAMESPACE);
const OBSERVER_ID: Slot = slot(id::OBSERVER_ID);
const OBSERVER_TYPE: Slot = slot(id::OBSERVER_TYPE);

type Order = [Slot; 9];

/// By the bytes of the keys.
static MSGPACK: Order =
    [CONFIDENCE, CREATED_AT, NAMESPACE, OBJECT, OBSERVER_ID, OBSERVER_TYPE, RELATION, SUBJECT, TYPE];
/// Shorter keys first.
static CBOR: Order =
    [CONFIDENCE, OBJECT, RELATION, SUBJECT, TYPE, CREATED_AT, NAMESPACE, OBSERVER_ID, OBSERVER_TYPE];

const BELIEF: u8 = 1;
const BELIEF_NAME: &str = TYPES[BELIEF as usize - 1].name;
const OBSERVATION_NAME: &str = TYPES[OBSERVATION as usize - 1].name;
const CONFIDENCE_RANGE: (Option<f64>, Option<f64>) = {
    let field = &FIELDS[id::CONFIDENCE as usize];
    (field.min, field.max)
};

fn refused<T>(code: Code, slot: &Slot) -> Result<T> {
    Err(Refusal::of(code, Some(slot.name)))
}

fn required<T>(slot: Slot, value: Option<T>) -> Result<()> {
    if value.is_some() { Ok(()) } else { refused(Code::Schema, &slot) }
}

fn required_text(slot: Slot, text: Option<&str>) -> Result<()> {
    if text == Some("") { refused(Code::Empty, &slot) } else { required(slot, text) }
}

fn confidence(value: Option<f64>) -> Result<()> {
    let Some(value) = value else { return Ok(()) };
    if !value.is_finite() {
        return refused(Code::FloatInvalid, &CONFIDENCE);
    }
    let (low, high) = CONFIDENCE_RANGE;
    let good = low.is_none_or(|low| low <= value) && high.is_none_or(|high| value <= high);
    if good { Ok(()) } else { refused(Code::Range, &CONFIDENCE) }
}

fn blob<'b>(
    fields: &Observation<'_>,
    type_byte: u8,
    encoding: Encoding,
    out: &'b mut [u8],
) -> Result<&'b [u8]> {
    let namespace = fields.namespace.unwrap_or("");
    let mut hash = Sha256::new();
    in_nfc(&NAMESPACE, namespace, &mut |piece| hash.update(piece))?;
    let [high, low, ..] = <[u8; 32]>::from(hash.finalize());
    let Some(created_at) = seconds(fields.created_at) else { return refused(Code::Range, &CREATED_AT) };
    let facts = Facts {
        ns_hash: if namespace.is_empty() { 0 } else { u16::from_be_bytes([high, low]) },
        no_namespace: namespace.is_empty(),
        created_at,
        ..Facts::default()
    };
    let mut room = Room::new(out);
    room.extend_from_slice(&facts.header(type_byte, encoding, 0).to_bytes());
    match encoding {
        Encoding::Msgpack => payload::<Msgpack>(fields, type_byte, &MSGPACK, &mut room)?,
        Encoding::Cbor => payload::<Cbor>(fields, type_byte, &CBOR, &mut room)?,
    }
    room.finish()
}

const TOO_LARGE: Refusal = Refusal { code: Code::TooLarge, field: None };

/// A value of a field.
enum Part<'a> {
    Text(&'a str),
    Time(i64),
    Number(f64),
    Reading(f64, Option<&'a str>),
}

fn part<'a>(fields: &Observation<'a>, type_byte: u8, id: u8) -> Option<Part<'a>> {
    match id {
        id::TYPE => Some(Part::Text(if type_byte == BELIEF { BELIEF_NAME } else { OBSERVATION_NAME })),
        id::OBSERVER_ID => fields.observer_id.map(Part::Text),
        id::OBSERVER_TYPE => fields.observer_type.map(Part::Text),
        id::SUBJECT => fields.subject.map(Part::Text),
        id::RELATION => fields.relation.map(Part::Text),
        id::NAMESPACE => fields.namespace.map(Part::Text),
        id::CONFIDENCE => fields.confidence.map(Part::Number),
        id::CREATED_AT => Some(Part::Time(fields.created_at)),
        _ => fields.object.map(|object| match object {
            Object::Text(text) => Part::Text(text),
            Object::Reading { value, unit } => Part::Reading(value, unit),
        }),
    }
}

fn payload<W: Wire>(
    fields: &Observation<'_>,
    type_byte: u8,
    order: &'static Order,
    room: &mut Room<'_>,
) -> Result<()> {
    W::map(room, order.iter().filter(|slot| part(fields, type_byte, slot.id).is_some()).count());
    for slot in order {
        let Some(part) = part(fields, type_byte, slot.id) else { continue };
        W::str(room, slot.key);
        match part {
            Part::Text(text) => write_text::<W>(slot, text, room)?,
            Part::Time(ms) => W::int(room, ms),
            Part::Number(value) => write_float::<W>(slot, value, room)?,
            Part::Reading(value, unit) => {
                W::map(room, 1 + usize::from(unit.is_some()));
                if let Some(unit) = unit {
                    W::str(room, "unit");
                    write_text::<W>(slot, unit, room)?;
                }
                W::str(room, "value");
                write_float::<W>(slot, value, room)?;
            }
        }
        if room.len > MAX_SIZE {
            return Err(TOO_LARGE);
        }
    }
    Ok(())
}

fn write_float<W: Wire>(slot: &Slot, value: f64, room: &mut Room<'_>) -> Result<()> {
    if !value.is_finite() {
        return refused(Code::FloatInvalid, slot);
    }
    W::float(room, value);
    Ok(())
}

fn write_text<W: Wire>(slot: &Slot, text: &str, room: &mut Room<'_>) -> Result<()> {
    let mut len = 0;
    in_nfc(slot, text, &mut |piece| len += piece.len())?;
    W::str_head(room, len);
    in_nfc(slot, text, &mut |piece| room.extend_from_slice(piece.as_bytes()))
}

fn in_nfc(slot: &Slot, text: &str, emit: &mut dyn FnMut(&str)) -> Result<()> {
    if text.starts_with(BOM) {
        return refused(Code::Corrupt, slot);
    }
    if compose(text, emit) { Ok(()) } else { refused(Code::Unsupported, slot) }
}

/// A caller's buffer. Bytes beyond its end are only counted.
pub(crate) struct Room<'b> {
    out: &'b mut [u8],
    len: usize,
}

impl<'b> Room<'b> {
    pub fn new(out: &'b mut [u8]) -> Self {
        Room { out, len: 0 }
    }

    pub fn written(&self) -> &[u8] {
        self.out.get(..self.len).unwrap_or_default()
    }

    /// The written bytes, if all of them fit.
    pub fn finish(self) -> Result<&'b [u8]> {
        self.out.get(..self.len).ok_or(TOO_LARGE)
    }
}

impl Sink for Room<'_> {
    fn push(&mut self, byte: u8) {
        self.extend_from_slice(&[byte]);
    }

    fn extend_from_slice(&mut self, bytes: &[u8]) {
        let free = self.out.get_mut(self.len..).unwrap_or_default();
        for (to, from) in free.iter_mut().zip(bytes) {
            *to = *from;
        }
        self.len = self.len.saturating_add(bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_orders_are_those_of_the_formats() {
        let sorted = |order: &Order, less: fn(&[u8], &[u8]) -> core::cmp::Ordering| {
            order.windows(2).all(|pair| less(pair[0].key.as_bytes(), pair[1].key.as_bytes()).is_lt())
        };
        assert!(sorted(&MSGPACK, Msgpack::order) && sorted(&CBOR, Cbor::order));
        assert_eq!((BELIEF_NAME, OBSERVATION_NAME), ("belief", "observation"));
    }
}
