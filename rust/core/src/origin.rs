// SPDX-License-Identifier: Apache-2.0
//! Where a grain came from: the side channel of what was read from a document of another format.
//!
//! Its key is no field of OMS, so every implementation keeps it as it is. The value is JSON in
//! ASCII, as bytes, since text would be brought to NFC: `{"f": format, "k": kind of record, "id":
//! the record's own id, "h": SHA-256 of its text as it came, ...}`.

use jiter::JsonValue;
use smallvec::SmallVec;

use crate::address::is_address;
use crate::json;

/// The key of the side channel.
pub const KEY: &str = "x_src";

/// What precedes the hash of a text among the names of a grain.
const SHA256: &str = "sha256:";

/// By what a record is found, each once: the id that it had in its document, and the hash of its
/// text, which tells that another one has the same; nothing if this is no such value.
pub fn names(source: &[u8]) -> SmallVec<[String; 2]> {
    let mut names = SmallVec::new();
    let Ok(JsonValue::Object(entries)) = json::parse(source) else { return names };
    // Of a key that stands twice the last counts.
    let text = |name| match entries.iter().rfind(|(key, _)| key == name) {
        Some((_, JsonValue::Str(text))) => Some(text.as_ref()),
        _ => None,
    };
    names.extend(text("id").map(String::from));
    if let Some(hash) = text("h").filter(|hash| is_address(hash)) {
        let name = format!("{SHA256}{hash}");
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::names;

    fn of(source: &str) -> Vec<String> {
        names(source.as_bytes()).into_vec()
    }

    #[test]
    fn the_id_of_a_record() {
        assert_eq!(of(r#"{"f":"aimem","k":"chunk","id":"urn:aimem:p:\u00e9"}"#), ["urn:aimem:p:é"]);
        assert_eq!(of(r#"{"id":"a","id":"b"}"#), ["b"]);
        for other in ["", "\0", "[]", "{}", r#"{"id":1}"#, r#"{"id":"a""#] {
            assert!(of(other).is_empty(), "{other}");
        }
    }

    #[test]
    fn the_hash_of_its_text() {
        let hash = "0123456789abcdef".repeat(4);
        let name = format!("sha256:{hash}");
        assert_eq!(of(&format!(r#"{{"id":"a","h":"{hash}"}}"#)), ["a", name.as_str()]);
        assert_eq!(of(&format!(r#"{{"h":"{hash}","id":1}}"#)), [name.as_str()]);
        assert_eq!(of(&format!(r#"{{"id":"{name}","h":"{hash}"}}"#)), [name.as_str()]);
        for other in [&hash[1..], &format!("{hash}0"), &hash.to_uppercase(), &hash.replace('a', "g")] {
            assert_eq!(of(&format!(r#"{{"id":"a","h":"{other}"}}"#)), ["a"], "{other}");
        }
        assert_eq!(of(r#"{"id":"a","h":7}"#), ["a"]);
    }
}
