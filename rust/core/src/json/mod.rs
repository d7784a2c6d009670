// SPDX-License-Identifier: Apache-2.0
//! JSON as a source of grains: a parsed value is encoded directly, without another tree. Bytes are
//! `{"$bytes": base64}` in JSON.

pub mod jcs;
pub mod lines;

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
pub use jiter::JsonValue;
use jiter::{Jiter, JsonErrorType, Peek};

use crate::value::{Node, View};
use crate::{Code, Error, Result};

/// Parses one JSON document.
///
/// # Errors
/// `ERR_FORMAT` with the byte offset; `ERR_CORRUPT` if it is nested too deep.
pub fn parse(text: &[u8]) -> Result<JsonValue<'_>> {
    JsonValue::parse(text, false).map_err(|e| {
        let error = match e.error_type {
            JsonErrorType::RecursionLimitExceeded => Error::new(Code::Corrupt, "nested too deep"),
            // The parser's messages name kinds and places, never content.
            kind => Error::new(Code::Format, format!("not JSON: {kind}")),
        };
        error.at(e.index)
    })
}

/// Counts the values of a document, without keys and without a tree. The count ends once it
/// exceeds `most`. Text that is not JSON has some count too.
pub fn values(text: &[u8], most: usize) -> usize {
    let (mut count, mut at, mut opened) = (1, 0, false);
    while let Some(&byte) = text.get(at) {
        at += 1;
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' => continue,
            b']' | b'}' => opened = false,
            b',' => count += 1,
            _ => {
                // Commas count all values of an array or object but the first.
                count += usize::from(opened);
                opened = matches!(byte, b'[' | b'{');
                if byte == b'"' {
                    at += after_string(&text[at..]);
                }
            }
        }
        if count > most {
            break;
        }
    }
    count
}

/// The length of a string from its first quote, with its last one.
fn after_string(text: &[u8]) -> usize {
    let mut at = 0;
    while let Some(next) = text[at..].iter().position(|byte| matches!(byte, b'"' | b'\\')) {
        if text[at + next] == b'"' {
            return at + next + 1;
        }
        at = text.len().min(at + next + 2);
    }
    text.len()
}

/// The first member of an object with one of some names: its name, and its value if that is a
/// string. The text after it is not read; None if the text before it is not JSON.
pub fn member<'n>(text: &[u8], names: &[&'n str]) -> Option<(&'n str, Option<String>)> {
    members(text, names, names).pop()
}

/// The members of an object with one of some names, each at its first occurrence, up to the first
/// with one of `until`: names, and values that are strings. The text after that, or after text
/// that is not JSON, is not read.
pub fn members<'n>(text: &[u8], names: &[&'n str], until: &[&str]) -> Vec<(&'n str, Option<String>)> {
    let (mut reader, mut found) = (Jiter::new(text), Vec::new());
    let mut key = reader.next_object();
    while let Ok(Some(name)) = key {
        let new = |wanted: &&&str| **wanted == name && !found.iter().any(|(known, _)| *known == **wanted);
        if let Some(wanted) = names.iter().find(new).copied() {
            let value = match reader.peek() {
                Ok(Peek::String) => match reader.known_str() {
                    Ok(text) => Some(text.to_owned()),
                    Err(_) => break,
                },
                Ok(_) => None,
                Err(_) => break,
            };
            let skip = value.is_none();
            found.push((wanted, value));
            if until.contains(&wanted) || (skip && reader.next_skip().is_err()) {
                break;
            }
        } else if reader.next_skip().is_err() {
            break;
        }
        key = reader.next_key();
    }
    found
}

/// The text of a `{"$bytes": ...}`.
fn base64<'v>(value: &'v JsonValue<'_>) -> Option<&'v str> {
    match value {
        JsonValue::Object(entries) => match entries.as_slice() {
            [(key, JsonValue::Str(text))] if key == "$bytes" => Some(text),
            _ => None,
        },
        _ => None,
    }
}

impl<'v> Node for &'v JsonValue<'_> {
    type Key = &'v str;

    fn view(&self) -> Result<View<'_>> {
        Ok(match self {
            JsonValue::Null => View::Null,
            JsonValue::Bool(b) => View::Bool(*b),
            JsonValue::Int(i) => View::Int(*i),
            JsonValue::BigInt(big) => {
                View::UInt(u64::try_from(big).map_err(|_| {
                    Error::new(Code::Range, "an integer out of range").expected("-2^63..2^64-1")
                })?)
            }
            JsonValue::Float(f) => View::Float(*f),
            JsonValue::Str(s) => View::Str(s),
            JsonValue::Array(_) => View::List,
            JsonValue::Object(_) => match base64(self) {
                None => View::Map,
                Some(text) => View::Bytes(Cow::Owned(
                    BASE64
                        .decode(text)
                        .map_err(|_| Error::new(Code::Schema, "\"$bytes\" does not hold base64"))?,
                )),
            },
        })
    }

    #[inline]
    fn is_null(&self) -> bool {
        matches!(self, JsonValue::Null)
    }

    fn list_len(&self) -> usize {
        if let JsonValue::Array(items) = self { items.len() } else { 0 }
    }

    fn each_item(&self, visit: &mut dyn FnMut(Self) -> Result<()>) -> Result<()> {
        if let JsonValue::Array(items) = self {
            items.iter().try_for_each(visit)?;
        }
        Ok(())
    }

    fn each_entry(&self, visit: &mut dyn FnMut(Self::Key, Self) -> Result<()>) -> Result<()> {
        if let JsonValue::Object(entries) = self {
            entries.iter().try_for_each(|(key, value)| visit(key, value))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{member, members, values};

    #[test]
    fn values_are_counted_as_they_are_made() {
        let many: &[(&str, usize)] = &[
            ("0", 1),
            ("[]", 1),
            ("{ }", 1),
            ("[0]", 2),
            ("[ [ ] , { } ]", 3),
            (r#"{"a":[1,"x,[{\"",{}],"b":{"c":null}}"#, 7),
            (r#"["\\",[[[0]]]]"#, 6),
            (r#""a,b""#, 1),
        ];
        for (text, expected) in many {
            assert_eq!(values(text.as_bytes(), usize::MAX), *expected, "{text}");
        }
        assert_eq!(values(b"[0,0,0,0,0,0]", 3), 4);
        assert_eq!(values(b"[\"\\", 9), 2); // a string without its end
    }

    #[test]
    fn the_members_of_some_names() {
        let of = |text: &str| members(text.as_bytes(), &["a", "b", "end"], &["end"]);
        let (a, b, end) = (("a", Some("1".to_owned())), ("b", None), ("end", None));
        assert_eq!(of(r#"{"x":{"a":2},"a":"1","b":[3],"a":"4","end":5,"b":6}"#), [a.clone(), b.clone(), end]);
        assert_eq!(of(r#"{"b":{"a":1},"a":"1"}"#), [b.clone(), a.clone()]);
        assert_eq!(of(r#"{"a":"1","b":nope,"end":1}"#), [a.clone(), b]);
        assert_eq!(of(r#"{"a":"1","b":"#), [a]);
        assert_eq!(of("[]"), []);
    }

    #[test]
    fn the_first_member_of_some_names() {
        let of = |text: &str| member(text.as_bytes(), &["format", "version"]);
        let named = |name, value: &str| Some((name, Some(value.to_owned())));
        assert_eq!(of(r#"{"a":{"format":"x"},"form\u0061t":"\u0079","version":1}"#), named("format", "y"));
        assert_eq!(of(r#" {"b":[1,{"c":"]"}],"version":"2"}"#), named("version", "2"));
        assert_eq!(of(r#"{"version":2,"format":"y"}"#), Some(("version", None)));
        assert_eq!(of(r#"{"format":"y", and here it breaks"#), named("format", "y"));
        for none in ["", "[]", "{}", r#"{"a":"format"}"#, r#"{"a":nope,"format":"y"}"#, r#"{"format":"y"#] {
            assert_eq!(of(none), None, "{none}");
        }
    }
}
