// SPDX-License-Identifier: Apache-2.0
//! Where a grain came from: the side channel of what was read from a document of another format.
//!
//! Its key is no field of OMS, so every implementation keeps it as it is. The value is JSON in
//! ASCII, as bytes, since text would be brought to NFC: `{"f": format, "k": kind of record, "id":
//! the record's own id, ...}`.

use jiter::JsonValue;

use crate::json;

/// The key of the side channel.
pub const KEY: &str = "x_src";

/// The id that a record had in its document; none if this is no such value.
pub fn id(source: &[u8]) -> Option<String> {
    let JsonValue::Object(entries) = json::parse(source).ok()? else { return None };
    match entries.iter().rfind(|(key, _)| key == "id") {
        Some((_, JsonValue::Str(id))) => Some(id.clone().into_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::id;

    #[test]
    fn the_id_of_a_record() {
        assert_eq!(
            id(br#"{"f":"aimem","k":"chunk","id":"urn:aimem:p:\u00e9"}"#).as_deref(),
            Some("urn:aimem:p:é")
        );
        for other in [&b""[..], b"\x00", b"[]", b"{}", br#"{"id":1}"#, br#"{"id":"a""#] {
            assert_eq!(id(other), None);
        }
    }
}
