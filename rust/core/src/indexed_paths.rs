// SPDX-License-Identifier: Apache-2.0
//! Indexed paths: fields, and values inside maps, whose values have index rows because the user of
//! a store asked for it.
//!
//! ```text
//! key    b"z" ++ number of the path, one byte ++ kind ++ value, in the order of the values
//! kind   b"b" of a bool, b"n" of a number, b"s" of a text
//! value  0 or 1; the bits of a float64 so that they sort; a short text's UTF-8, and of a longer
//!        text the first bytes and a hash
//! ```
//!
//! A key finds at least the grains with its value. Integers beyond 2^53 share the key of the
//! nearest float, so compare what you found with the grain itself.

use alloc::string::String;
use alloc::vec::Vec;

use crate::codec::RawEntry;
use crate::index_rows::{Key, Kind};
use crate::registry;
use crate::value::{Value, View};

/// The longest text that is stored in a key as it is. Then a key fits into 48 bytes.
const WHOLE: usize = 28;
/// Bytes of the hash of a longer text.
const HASH: usize = 16;
/// Bytes before the value in a key.
const HEAD: usize = 3;
/// The sign of a float64.
const SIGN: u64 = 1 << 63;

/// A path whose values have index rows.
#[derive(Clone, Debug)]
pub struct IndexedPath {
    /// Its number in the keys.
    pub number: u8,
    /// The name of a field, and the keys of maps inside it.
    pub keys: Vec<String>,
    /// Grains after the first sequence number have no rows, up to the second.
    pub gap: (u64, u64),
}

/// The indexed paths of a store.
#[derive(Clone, Debug, Default)]
pub struct IndexedPaths(pub Vec<IndexedPath>);

impl IndexedPaths {
    /// Calls `row` with the key of each indexed value of a grain.
    pub(crate) fn rows(
        &self,
        type_byte: u8,
        entries: &[RawEntry<'_>],
        sequence: u32,
        row: &mut impl FnMut(Key),
    ) {
        for path in &self.0 {
            let number = u64::from(sequence);
            if path.gap.0 < number && number <= path.gap.1 {
                continue;
            }
            let Some((field, inside)) = path.keys.split_first() else { continue };
            let value = entries.iter().find(|entry| name(entry.key, type_byte) == field);
            let value = inside.iter().try_fold(value.map(|entry| &entry.value), |value, key| {
                value.map(|map| map.get(key)).filter(Option::is_some)
            });
            if let Some(key) = value.flatten().and_then(|value| of_value(path.number, value)) {
                row(key);
            }
        }
    }
}

/// The full name of a field.
fn name(short: &str, type_byte: u8) -> &str {
    match registry::by_short(short, type_byte) {
        registry::UNKNOWN => short,
        id => registry::field(id).name,
    }
}

fn of_value(number: u8, value: &Value<'_>) -> Option<Key> {
    let view = match value {
        Value::Bool(flag) => View::Bool(*flag),
        Value::Int(whole) => View::Int(*whole),
        Value::UInt(whole) => View::UInt(*whole),
        Value::Float(float) => View::Float(*float),
        Value::Str(text) => View::Str(text),
        _ => return None,
    };
    key(number, &view)
}

/// The key of a value under a path; None for a value that no query compares with.
pub fn key(number: u8, value: &View<'_>) -> Option<Key> {
    let mut key = head(number, value)?;
    match *value {
        View::Bool(flag) => key.push(u8::from(flag)),
        View::Int(whole) => push_number(&mut key, whole as f64),
        View::UInt(whole) => push_number(&mut key, whole as f64),
        View::Float(float) => push_number(&mut key, float),
        View::Str(text) if text.len() <= WHOLE => key.extend_from_slice(text.as_bytes()),
        View::Str(text) => {
            key.extend_from_slice(&text.as_bytes()[..WHOLE]);
            key.extend_from_slice(&blake3::hash(text.as_bytes()).as_bytes()[..HASH]);
        }
        _ => return None,
    }
    Some(key)
}

/// The first and the last of the keys among which the key of a value is: of a long text those of
/// all texts that begin as it does.
pub fn bounds(number: u8, value: &View<'_>) -> Option<(Key, Key)> {
    let mut first = key(number, value)?;
    let mut last = first.clone();
    if first.len() > HEAD + WHOLE {
        first.truncate(HEAD + WHOLE);
        last.truncate(HEAD + WHOLE);
        last.extend_from_slice(&[0xff; HASH]);
    }
    Some((first, last))
}

/// The first bytes of all keys of a path; of one kind of values, if there is a value.
fn head(number: u8, value: &View<'_>) -> Option<Key> {
    let kind = match value {
        View::Bool(_) => b'b',
        View::Float(float) if float.is_nan() => return None,
        View::Int(_) | View::UInt(_) | View::Float(_) => b'n',
        View::Str(_) => b's',
        _ => return None,
    };
    Some(Key::from_slice(&[Kind::Value as u8, number, kind]))
}

fn push_number(key: &mut Key, number: f64) {
    let bits = (number + 0.0).to_bits(); // -0.0 becomes 0.0
    let sorted = if bits & SIGN == 0 { bits | SIGN } else { !bits };
    key.extend_from_slice(&sorted.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::{bounds, key};
    use crate::value::View;

    #[test]
    fn keys_of_numbers_sort_as_the_numbers() {
        let numbers =
            [f64::NEG_INFINITY, -1e300, -2.5, -1.0, -5e-324, 0.0, 5e-324, 1.0, 2.5, 1e19, f64::INFINITY];
        let keys: Vec<_> = numbers.iter().map(|number| key(3, &View::Float(*number)).unwrap()).collect();
        assert!(keys.is_sorted() && keys.windows(2).all(|two| two[0] != two[1]));
        assert_eq!(key(3, &View::Int(1)), key(3, &View::Float(1.0)));
        assert_eq!(key(3, &View::Float(-0.0)), key(3, &View::Float(0.0)));
        assert_eq!(key(3, &View::UInt(1 << 63)), key(3, &View::Float(9_223_372_036_854_775_808.0)));
        assert_eq!(key(3, &View::Int(i64::MAX)), key(3, &View::UInt(1 << 63)));
        assert_eq!(key(3, &View::Float(f64::NAN)), None);
        assert_eq!(key(3, &View::Map), None);
    }

    #[test]
    fn bounds_have_all_texts_that_begin_alike() {
        let long = "a".repeat(28);
        let texts = ["", "a", "b", &long, &format!("{long}b"), &format!("{long}\u{10ffff}"), "aé"];
        for one in texts {
            let (first, last) = bounds(1, &View::Str(one)).unwrap();
            for other in texts {
                let key = key(1, &View::Str(other)).unwrap();
                assert!(other < one || first <= key, "{other:?} is at or above {one:?}");
                assert!(other > one || key <= last, "{other:?} is at or below {one:?}");
            }
        }
        assert_ne!(key(1, &View::Bool(true)), key(1, &View::Int(1)));
        assert_ne!(key(1, &View::Str("1")), key(2, &View::Str("1")));
    }
}
