// SPDX-License-Identifier: Apache-2.0
//! Parses COSE_Sign1 in its most common form; nothing is verified.
//!
//! ```text
//! 0xd2 [ << {1: alg, 3: content type, 4: kid} >>, {} or {"iat": seconds}, blob, 64 bytes ]
//! ```
//!
//! The reference is `omsgrain.crypto.cose`. An envelope of another form may be valid, and is left
//! to the reference. So nothing is refused here, and nothing is accepted that the reference would
//! refuse. Spec: RFC 9052 §4.2, OMS §9
//!
//! Part of the row that `signature` names.

use crate::codec::cbor::Cbor;
use crate::codec::{Cursor, Head, Wire};
use crate::extent::ENVELOPE;

/// Bytes of a signature, of Ed25519 or P-256.
pub const SIGNATURE: usize = 64;

/// Bytes of headers and signature together, as in the reference.
const MAX_OVERHEAD: usize = 64 << 10;
/// Bytes of the blob, as in the reference.
const MAX_PAYLOAD: usize = 2 << 20;

const ALG: i64 = 1;
const CONTENT_TYPE: i64 = 3;
const KID: i64 = 4;

/// A parsed envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sign1<'a> {
    /// The signed headers, as encoded.
    pub protected: &'a [u8],
    /// The number of the algorithm.
    pub alg: i64,
    /// The signer.
    pub kid: &'a str,
    /// The content type of the payload.
    pub content_type: &'a str,
    /// The signer's claim of the time, in epoch seconds. Nothing proves it.
    pub iat: Option<u64>,
    /// The signed payload.
    pub payload: &'a [u8],
    /// As encoded.
    pub signature: &'a [u8; SIGNATURE],
}

impl<'a> Sign1<'a> {
    /// Parses an envelope; None if it has another form.
    pub fn read(envelope: &'a [u8]) -> Option<Self> {
        if envelope.first() != Some(&ENVELOPE) || envelope.len() > MAX_PAYLOAD + MAX_OVERHEAD {
            return None;
        }
        let mut cursor = Cursor::new(envelope);
        cursor.at = 1;
        if Cbor::head(&mut cursor).ok()? != Head::Array(4) {
            return None;
        }
        let protected = bytes(&mut cursor)?;
        let (alg, content_type, kid) = signed(protected)?;
        let iat = unsigned(&mut cursor)?;
        let payload = bytes(&mut cursor)?;
        let signature = bytes(&mut cursor)?.try_into().ok()?;
        if cursor.left() > 0 || envelope.len() - payload.len() > MAX_OVERHEAD {
            return None;
        }
        Some(Sign1 { protected, alg, kid, content_type, iat, payload, signature })
    }

    /// The Sig_structure: the bytes to sign. Spec: RFC 9052 §4.4
    pub fn to_be_signed(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.protected.len() + self.payload.len() + 32);
        Cbor::array(&mut out, 4);
        Cbor::str(&mut out, "Signature1");
        Cbor::bytes(&mut out, self.protected);
        Cbor::bytes(&mut out, b"");
        Cbor::bytes(&mut out, self.payload);
        out
    }
}

/// The three headers, each once and nothing else, in any order.
fn signed(protected: &[u8]) -> Option<(i64, &str, &str)> {
    let mut cursor = Cursor::new(protected);
    if Cbor::head(&mut cursor).ok()? != Head::Map(3) {
        return None;
    }
    let (mut alg, mut content_type, mut kid) = (None, None, None);
    for _ in 0..3 {
        let Head::Int(label) = Cbor::head(&mut cursor).ok()? else { return None };
        let value = Cbor::head(&mut cursor).ok()?;
        let twice = match (label, value) {
            (ALG, Head::Int(number)) => alg.replace(number).is_some(),
            (CONTENT_TYPE, Head::Str(len)) => content_type.replace(text(&mut cursor, len)?).is_some(),
            (KID, Head::Bytes(len) | Head::Str(len)) => kid.replace(text(&mut cursor, len)?).is_some(),
            _ => return None,
        };
        if twice {
            return None;
        }
    }
    if cursor.left() > 0 { None } else { Some((alg?, content_type?, kid?)) }
}

/// The time in the unsigned headers, if they have nothing else.
fn unsigned(cursor: &mut Cursor<'_>) -> Option<Option<u64>> {
    match Cbor::head(cursor).ok()? {
        Head::Map(0) => return Some(None),
        Head::Map(1) => {}
        _ => return None,
    }
    let Head::Str(len) = Cbor::head(cursor).ok()? else { return None };
    if text(cursor, len)? != "iat" {
        return None;
    }
    match Cbor::head(cursor).ok()? {
        Head::Int(seconds) => u64::try_from(seconds).ok().map(Some),
        Head::UInt(seconds) => Some(Some(seconds)),
        _ => None,
    }
}

fn bytes<'a>(cursor: &mut Cursor<'a>) -> Option<&'a [u8]> {
    match Cbor::head(cursor).ok()? {
        Head::Bytes(len) => cursor.take(len).ok(),
        _ => None,
    }
}

fn text<'a>(cursor: &mut Cursor<'a>, len: usize) -> Option<&'a str> {
    std::str::from_utf8(cursor.take(len).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIGNED: &[u8] = &[0xa3, 1, 0x27, 3, 0x61, b't', 4, 0x41, b'k'];

    fn envelope(signed: &[u8], unsigned: &[u8], signature: usize) -> Vec<u8> {
        let mut out = vec![0xd2, 0x84];
        Cbor::bytes(&mut out, signed);
        out.extend_from_slice(unsigned);
        Cbor::bytes(&mut out, b"blob");
        Cbor::bytes(&mut out, &vec![7; signature]);
        out
    }

    #[test]
    fn the_parts_are_found() {
        let bytes = envelope(SIGNED, b"\xa1\x63iat\x18\x20", 64);
        let read = Sign1::read(&bytes).unwrap();
        assert_eq!((read.alg, read.content_type, read.kid, read.iat), (-8, "t", "k", Some(32)));
        assert_eq!((read.protected, read.payload, read.signature), (SIGNED, &b"blob"[..], &[7; 64]));
        let structure = [b"\x84\x6aSignature1\x49", SIGNED, b"\x40\x44blob"].concat();
        assert_eq!(read.to_be_signed(), structure);
        let other = envelope(&[0xa3, 4, 0x61, b'k', 3, 0x61, b't', 1, 0x26], &[0xa0], 64);
        let read = Sign1::read(&other).unwrap();
        assert_eq!((read.alg, read.content_type, read.kid, read.iat), (-7, "t", "k", None));
    }

    #[test]
    fn other_shapes_are_left_alone() {
        let good = envelope(SIGNED, &[0xa0], 64);
        for end in 0..good.len() {
            assert_eq!(Sign1::read(&good[..end]), None, "{end}");
        }
        assert_eq!(Sign1::read(&[&good[..], &[0]].concat()), None);
        for (signed, unsigned, signature) in [
            (SIGNED, &[0xa0][..], 63),
            (SIGNED, b"\xa1\x63iat\x20", 64),
            (SIGNED, b"\xa1\x63iat\xf5", 64),
            (SIGNED, b"\xa1\x63iat\x18\x01", 64),
            (SIGNED, b"\xa1\x01\x27", 64),
            (SIGNED, &[0x80], 64),
            (&SIGNED[..8], &[0xa0], 64),
            (&[SIGNED, &[0]].concat(), &[0xa0], 64),
            (&[0xa3, 1, 0x27, 1, 0x27, 4, 0x41, b'k'], &[0xa0], 64),
            (&[0xa3, 1, 0x38, 7, 3, 0x61, b't', 4, 0x41, b'k'], &[0xa0], 64),
            (&[0xa3, 1, 0x27, 3, 0x61, b't', 4, 0x41, 0xff], &[0xa0], 64),
            (&[0xa3, 0xf5, 0x27, 3, 0x61, b't', 4, 0x41, b'k'], &[0xa0], 64),
            (&[0xa2, 1, 0x27, 4, 0x41, b'k'], &[0xa0], 64),
        ] {
            assert_eq!(
                Sign1::read(&envelope(signed, unsigned, signature)),
                None,
                "{signed:x?} {unsigned:x?}"
            );
        }
    }
}
