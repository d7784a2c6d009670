// SPDX-License-Identifier: Apache-2.0
//! The texts of a grain that a search reads. The caller folds them into words, since that needs
//! tables that the core does not have; it passes the part of them for ASCII.

use std::collections::HashSet;

use crate::address::{Digest, sha256};
use crate::batch::{on_all_cores, total};
use crate::header::{Header, SIGNED};
use crate::value::Value;
use crate::{Result, decode, extent};

/// The fields to search, by their full names.
#[derive(Debug)]
pub struct TextFields {
    /// Their texts are not searched.
    pub skipped: HashSet<String>,
    /// The keys of maps inside them are not searched.
    pub fixed: HashSet<String>,
    /// A grain with one of them is marked.
    pub marked: HashSet<String>,
    /// The fold of each ASCII character, one for one. Texts of ASCII alone are folded
    /// here.
    pub folds: [u8; 128],
}

/// The searched parts of one grain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Searched {
    /// Its texts, one per line; folded, if they are ASCII.
    pub text: String,
    /// It has a marked field.
    pub marked: bool,
    /// Its address.
    pub digest: Digest,
}

impl TextFields {
    /// Reads plain grains, on all cores. The address is that of the given blob.
    ///
    /// # Errors
    /// As [`decode::read`], for the first grain that it refuses.
    pub fn of(&self, blobs: &[&[u8]]) -> Result<Vec<Searched>> {
        on_all_cores(2 * total(blobs), blobs.len(), |i| self.of_one(blobs[i])).into_iter().collect()
    }

    fn of_one(&self, blob: &[u8]) -> Result<Searched> {
        let inner = extent::inner(blob)?;
        let header = Header::read(inner)?;
        let header = Header { flags: header.flags & !SIGNED, ..header };
        let payload = decode::payload(header, inner)?;
        let mut found = Searched { text: String::new(), marked: false, digest: sha256(blob) };
        if let Value::Map(fields) = decode::read(header, &payload)?.into_value() {
            for (name, value) in &fields {
                found.marked |= self.marked.contains(name.as_ref());
                if !self.skipped.contains(name.as_ref()) {
                    add(&mut found.text, value, !self.fixed.contains(name.as_ref()));
                }
            }
        }
        if found.text.is_ascii() {
            found.text = found.text.bytes().map(|byte| char::from(self.folds[usize::from(byte)])).collect();
        }
        Ok(found)
    }
}

/// Adds the texts inside a value; a grain is at most 32 deep.
fn add(out: &mut String, value: &Value<'_>, keys: bool) {
    match value {
        Value::Str(text) => line(out, text),
        Value::List(items) => items.iter().for_each(|item| add(out, item, keys)),
        Value::Map(entries) => {
            for (key, value) in entries {
                if keys {
                    line(out, key);
                }
                add(out, value, keys);
            }
        }
        _ => {}
    }
}

fn line(out: &mut String, text: &str) {
    if !out.is_empty() {
        out.push('\n');
    }
    out.push_str(text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::{Options, encode};
    use crate::json;

    fn names(names: &[&str]) -> HashSet<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn texts_and_keys() {
        let fields = TextFields {
            skipped: names(&["user_id", "type"]),
            fixed: names(&["x_fixed"]),
            marked: names(&["x_mark"]),
            folds: std::array::from_fn(
                |code| if code == 10 { b'+' } else { (code as u8).to_ascii_uppercase() },
            ),
        };
        for (text, marked) in [
            (r#""user_id":"u","content":"a","x_own":{"k":["b",{"l":"c"},1]},"x_fixed":{"k":"d"}"#, false),
            (
                r#""user_id":"u","content":"a","x_own":{"k":["b",{"l":"c"}]},"x_fixed":{"k":"d"},"x_mark":1"#,
                true,
            ),
        ] {
            let whole = format!(r#"{{"type":"event","created_at":5,{text}}}"#);
            let blob = encode(&&json::parse(whole.as_bytes()).unwrap(), &Options::default()).unwrap();
            let [found] = &fields.of(&[&blob]).unwrap()[..] else { panic!("one grain") };
            let mut lines: Vec<_> = found.text.split('+').collect();
            lines.sort_unstable();
            assert_eq!(lines, ["A", "B", "C", "D", "K", "L"]);
            assert_eq!((found.marked, found.digest), (marked, sha256(&blob)));
        }
        let blob = encode(
            &&json::parse(r#"{"type":"event","content":"é","created_at":5}"#.as_bytes()).unwrap(),
            &Options::default(),
        )
        .unwrap();
        assert_eq!(fields.of(&[&blob]).unwrap()[0].text, "é");
        assert!(fields.of(&[b"\x01"]).is_err());
    }
}
