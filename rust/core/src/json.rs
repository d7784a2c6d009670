// SPDX-License-Identifier: Apache-2.0
//! JSON as a source of grains: a parsed value is walked as it is, without a tree of our own.
//! Bytes stand in JSON as `{"$bytes": base64}`.

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
            // The parser's words name kinds and places, never content.
            kind => Error::new(Code::Format, format!("not JSON: {kind}")),
        };
        error.at(e.index)
    })
}

/// The first member of an object that has one of some names: its name, and its value if that is a
/// string. What stands behind it is not looked at; none if what stands before it is not JSON.
pub fn member<'n>(text: &[u8], names: &[&'n str]) -> Option<(&'n str, Option<String>)> {
    let mut reader = Jiter::new(text);
    let mut key = reader.next_object().ok()?;
    while let Some(name) = key {
        if let Some(found) = names.iter().find(|wanted| **wanted == name) {
            let value = match reader.peek().ok()? {
                Peek::String => Some(reader.known_str().ok()?.to_owned()),
                _ => None,
            };
            return Some((found, value));
        }
        reader.next_skip().ok()?;
        key = reader.next_key().ok()?;
    }
    None
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
    use super::member;

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
