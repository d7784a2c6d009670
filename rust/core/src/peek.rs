// SPDX-License-Identifier: Apache-2.0
//! A few fields of a payload that was verified when it was stored, without reading the rest.

use crate::codec::cbor::Cbor;
use crate::codec::msgpack::Msgpack;
use crate::codec::{Cursor, Encoding, Head, Wire, skip};
use crate::header::{
    COMPRESSED, CONTENT_REFS, EMBEDDING_REFS, ENCRYPTED, Facts, Header, LEN, ns_hash, seconds,
};
use crate::registry::{self, id};
use crate::{Code, Error, Result, decode, extent};
use alloc::{borrow::ToOwned as _, string::String};

/// The fields that were read. A field of the wrong kind counts as absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peek<'p> {
    /// The reference bits of a header.
    pub refs: u8,
    /// In ms since 1970.
    pub created_at: Option<i64>,
    /// The unchanged text.
    pub namespace: Option<&'p str>,
    /// The unchanged text.
    pub user_id: Option<&'p str>,
}

impl<'p> Peek<'p> {
    /// Reads these fields of a plain payload.
    ///
    /// # Errors
    /// `ERR_CORRUPT` if it is not a map, or ends too early or too late.
    pub fn at(encoding: Encoding, payload: &'p [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(payload);
        match encoding {
            Encoding::Msgpack => look::<Msgpack>(payload, &mut cursor),
            Encoding::Cbor => look::<Cbor>(payload, &mut cursor),
        }
        .map_err(|e| e.at(cursor.at))
    }

    /// The header facts of this payload, without the sensitivity.
    pub fn facts(&self) -> Facts {
        let namespace = self.namespace.unwrap_or("");
        let no_namespace = namespace.is_empty();
        Facts {
            refs: self.refs,
            sensitivity: 0,
            ns_hash: if no_namespace { 0 } else { ns_hash(namespace) },
            no_namespace,
            // Only an opaque grain can have a time that the header cannot hold; the header then has
            // 0.
            created_at: self.created_at.and_then(seconds).unwrap_or(0),
        }
    }
}

/// The user_id of a blob, with or without envelope; None if it has none or is sealed.
///
/// # Errors
/// `ERR_CORRUPT` if it is not a grain.
pub fn user_id(blob: &[u8]) -> Result<Option<String>> {
    let blob = extent::inner(blob)?;
    let header = Header::read(blob)?;
    if header.has(ENCRYPTED) {
        return Ok(None);
    }
    let payload = decode::payload(header, blob)?;
    let seen = Peek::at(header.encoding(), &payload).map_err(|e| e.shifted(LEN))?;
    Ok(seen.user_id.map(str::to_owned))
}

/// The time of a blob, in ms since 1970, as a function of its bytes alone: from its header, in whole
/// seconds, where the payload is sealed, compressed or damaged.
pub fn created_at(blob: &[u8]) -> u64 {
    let Ok(header) = Header::read(blob) else { return 0 };
    let seconds = u64::from(header.created_at) * 1000;
    if header.has(ENCRYPTED | COMPRESSED) {
        return seconds;
    }
    let seen = Peek::at(header.encoding(), &blob[LEN..]).ok().and_then(|seen| seen.created_at);
    seen.and_then(|ms| u64::try_from(ms).ok()).unwrap_or(seconds)
}

fn look<'p, W: Wire>(payload: &'p [u8], cursor: &mut Cursor<'p>) -> Result<Peek<'p>> {
    let broken = |what, at| Error::new(Code::Corrupt, what).at(at);
    let names = [id::CONTENT_REFS, id::EMBEDDING_REFS, id::CREATED_AT, id::NAMESPACE, id::USER_ID]
        .map(|id| (id, registry::field(id).short.as_bytes()));
    let mut seen = Peek::default();
    let Head::Map(len) = W::head(cursor)? else { return Err(broken("the payload is not a map", 0)) };
    for _ in 0..len {
        let Head::Str(size) = W::head(cursor)? else {
            return Err(broken("a map key is not a string", cursor.at));
        };
        let key = cursor.take(size)?;
        let head = W::head(cursor)?;
        skip::<W>(cursor, head)?;
        let Some((id, _)) = names.iter().find(|(_, name)| *name == key) else { continue };
        match (*id, head) {
            (id::CONTENT_REFS, Head::Array(1..)) => seen.refs |= CONTENT_REFS,
            (id::EMBEDDING_REFS, Head::Array(1..)) => seen.refs |= EMBEDDING_REFS,
            (id::CREATED_AT, Head::Int(ms)) => seen.created_at = Some(ms),
            (id::NAMESPACE, Head::Str(size)) => seen.namespace = Some(text(payload, cursor.at, size)?),
            (id::USER_ID, Head::Str(size)) => seen.user_id = Some(text(payload, cursor.at, size)?),
            _ => {}
        }
    }
    if cursor.left() > 0 { Err(broken("bytes follow the payload", cursor.at)) } else { Ok(seen) }
}

/// The string in some bytes that ends at `end`.
fn text(payload: &[u8], end: usize, len: usize) -> Result<&str> {
    let wrong = |_| Error::new(Code::Corrupt, "a string is not UTF-8").at(end - len);
    core::str::from_utf8(&payload[end - len..end]).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::{Options, encode};
    use crate::json;

    const GRAIN: &str = r#"{"type":"event","content":"x","created_at":1768471200999,"user_id":"ann",
        "namespace":"home","content_refs":[{"uri":"mem:1","modality":"image"}],"context":{"a":[[],{"user":"b"}]},
        "x_long":[[[[1,"two",3.5,{"ns":"deep","ca":1}]]]]}"#;

    fn blob(text: &str, encoding: Encoding, compress: bool) -> Vec<u8> {
        let options = Options { encoding, compress, ..Options::default() };
        encode(&&json::parse(text.as_bytes()).unwrap(), &options).unwrap()
    }

    #[test]
    fn it_sees_what_the_header_says() {
        for encoding in [Encoding::Msgpack, Encoding::Cbor] {
            for text in [GRAIN, r#"{"type":"event","content":"x","created_at":0}"#] {
                let blob = blob(text, encoding, false);
                let facts = Peek::at(encoding, &blob[LEN..]).unwrap().facts();
                assert_eq!(facts.header(2, encoding, 0), Header::read(&blob).unwrap());
            }
        }
    }

    #[test]
    fn whose_a_grain_is() {
        for (encoding, compress) in [(Encoding::Msgpack, false), (Encoding::Cbor, true)] {
            let mut ours = blob(GRAIN, encoding, compress);
            assert_eq!(user_id(&ours).unwrap().as_deref(), Some("ann"));
            ours[1] |= ENCRYPTED;
            assert_eq!(user_id(&ours).unwrap(), None);
        }
    }

    #[test]
    fn the_time_of_a_blob() {
        for encoding in [Encoding::Msgpack, Encoding::Cbor] {
            let mut plain = blob(GRAIN, encoding, false);
            assert_eq!(created_at(&plain), 1_768_471_200_999);
            plain[1] |= ENCRYPTED;
            assert_eq!(created_at(&plain), 1_768_471_200_000);
            assert_eq!(created_at(&plain[..8]), 0);
        }
        let long = GRAIN.replace("two", &"two ".repeat(100));
        assert_eq!(created_at(&blob(&long, Encoding::Msgpack, true)), 1_768_471_200_000);
    }

    #[test]
    fn what_is_cut_or_lies_is_refused() {
        let whole = blob(GRAIN, Encoding::Msgpack, false);
        for end in LEN..whole.len() {
            assert!(Peek::at(Encoding::Msgpack, &whole[LEN..end]).is_err(), "{end}");
        }
        for bytes in [&b"\x81\xa1x\x01\x00"[..], b"\x90", b"\x81\x01\x01", b"\x81\xa4user\xa1\xff"] {
            assert!(Peek::at(Encoding::Msgpack, bytes).is_err(), "{bytes:?}");
        }
        let lying = b"\x81\xa1x\xdf\xff\xff\xff\xff\xa1y\x01";
        let refused = Peek::at(Encoding::Msgpack, lying).unwrap_err();
        assert_eq!((refused.kind(), refused.offset()), (Code::Corrupt, Some(lying.len())));
    }
}
