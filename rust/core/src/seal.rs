// SPDX-License-Identifier: Apache-2.0
//! The parts of a sealed grain around the cipher: its header, and the bytes to encrypt. Spec: OMS
//! §20
//!
//! ```text
//! sealed   header with the encrypted bit ++ nonce, 12 ++ cipher text ++ tag, 16
//! inside   the payload, if header and payload give the plain blob; else the whole blob or envelope
//! ```
//!
//! The first byte shows which: a blob begins with 01, an envelope with d2, a payload with neither.

use crate::codec::EXTENDED;
use crate::header::{
    CBOR, COMPRESSED, CONTENT_REFS, EMBEDDING_REFS, ENCRYPTED, Header, LEN, SIGNED, VERSION,
};
use crate::peek::Peek;
use crate::{Code, Error, Result, compress, extent};
use alloc::vec::Vec;

const REFS: u8 = CONTENT_REFS | EMBEDDING_REFS;

/// How a grain is sealed.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// Encrypt the whole blob, even if the payload would be enough.
    pub whole: bool,
    /// Hide namespace, time and references.
    pub hidden: bool,
    /// Set the signed bit, since the sealed grain is going to be signed.
    pub signed: bool,
}

/// The header of the sealed grain, and where the bytes to encrypt begin in `blob`.
///
/// # Errors
/// `ERR_SIGNED_MISMATCH` for a signed blob without its envelope, or the reverse. `ERR_UNSUPPORTED`
/// if it is sealed already. `ERR_CORRUPT`, `ERR_TOO_SHORT`, `ERR_VERSION` if it is not a grain.
pub fn header(blob: &[u8], how: How) -> Result<(Header, usize)> {
    let plain = plain_header(blob)?;
    if plain.has(ENCRYPTED) {
        return Err(Error::new(Code::Unsupported, "the grain is already encrypted").at(1));
    }
    let by_payload = !how.whole && blob[0] == VERSION && remade(plain, &blob[LEN..])? == plain;
    let start = if by_payload { LEN } else { 0 };
    Ok((outer(plain, How { whole: !by_payload, ..how }), start))
}

/// The bytes before `inner` in the plain blob or envelope: the remade header, or nothing.
///
/// It reads only the header, since the grain was verified before it was encrypted. `outer` is the
/// header of the sealed grain.
///
/// # Errors
/// `ERR_CORRUPT` if the grain inside would have another outer header; as [`header`].
pub fn before(outer: Header, inner: &[u8]) -> Result<Vec<u8>> {
    let whole = matches!(inner.first(), Some(&(VERSION | extent::ENVELOPE)));
    let plain = if whole { plain_header(inner)? } else { remade(outer, inner)? };
    let is = |hidden| self::outer(plain, How { whole, hidden, signed: outer.has(SIGNED) }) == outer;
    if plain.has(ENCRYPTED) || !(is(true) || is(false)) {
        return Err(Error::new(Code::Corrupt, "the encrypted grain does not match the header").at(1));
    }
    Ok(if whole { Vec::new() } else { plain.to_bytes().to_vec() })
}

/// The header of the sealed grain.
fn outer(plain: Header, how: How) -> Header {
    let mut kept = !(SIGNED | ENCRYPTED | REFS | COMPRESSED | CBOR);
    if !how.whole {
        kept |= COMPRESSED | CBOR;
    }
    if !how.hidden {
        kept |= REFS;
    }
    let flags = plain.flags & kept | ENCRYPTED | if how.signed { SIGNED } else { 0 };
    let (ns_hash, created_at) = if how.hidden { (0, 0) } else { (plain.ns_hash, plain.created_at) };
    Header { flags, type_byte: plain.type_byte, ns_hash, created_at }
}

/// The header of a blob, or of the blob in an envelope; only the latter may be signed.
fn plain_header(bytes: &[u8]) -> Result<Header> {
    let enveloped = bytes.first() == Some(&extent::ENVELOPE);
    let blob = if enveloped {
        let (blob, len) = extent::envelope(bytes)?;
        if len != bytes.len() {
            return Err(Error::new(Code::Corrupt, "bytes follow the envelope").at(len));
        }
        blob
    } else {
        bytes
    };
    let header = Header::read(blob)?;
    if header.has(SIGNED) != enveloped {
        return Err(Error::new(Code::SignedMismatch, "the signed bit does not match the envelope").at(1));
    }
    Ok(header)
}

/// The header of a plain blob, from its payload and the rest of a header.
fn remade(header: Header, payload: &[u8]) -> Result<Header> {
    let unpacked;
    let mut payload = payload;
    if header.has(COMPRESSED) {
        unpacked = compress::decompress(payload, EXTENDED.max_size - LEN).map_err(|e| e.shifted(LEN))?;
        payload = &unpacked;
    }
    let facts = Peek::at(header.encoding(), payload).map_err(|e| e.shifted(LEN))?.facts();
    let flags = header.flags & !(SIGNED | ENCRYPTED | REFS) | facts.refs;
    Ok(Header { flags, ns_hash: facts.ns_hash, created_at: facts.created_at, ..header })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::{Options, encode};
    use crate::json;

    const HOW: How = How { whole: false, hidden: true, signed: false };

    fn blob() -> Vec<u8> {
        let text = r#"{"type":"event","content":"x","created_at":1768471200999,"namespace":"home",
            "content_refs":[{"uri":"mem:1","modality":"image"}],"structural_tags":["phi:mrn"]}"#;
        encode(&&json::parse(text.as_bytes()).unwrap(), &Options::default()).unwrap()
    }

    fn in_envelope(blob: &[u8]) -> Vec<u8> {
        let mut signed = blob.to_vec();
        signed[1] |= SIGNED;
        [&[0xd2, 0x84, 0x40, 0xa0, 0x58, signed.len() as u8][..], &signed, &[0x41, 7]].concat()
    }

    /// Joins the parts of a sealed grain again.
    fn opened(blob: &[u8], how: How) -> Vec<u8> {
        let (header, start) = header(blob, how).unwrap();
        [&before(header, &blob[start..]).unwrap(), &blob[start..]].concat()
    }

    #[test]
    fn the_header_shows_what_it_may() {
        let blob = blob();
        let plain = Header::read(&blob).unwrap();
        assert_eq!((plain.flags, plain.sensitivity()), (CONTENT_REFS | 3 << 6, 3));
        let (hidden, start) = header(&blob, HOW).unwrap();
        assert_eq!(start, LEN);
        assert_eq!(hidden, Header { flags: ENCRYPTED | 3 << 6, type_byte: 2, ns_hash: 0, created_at: 0 });
        let (shown, _) = header(&blob, How { hidden: false, signed: true, ..HOW }).unwrap();
        assert_eq!(shown, Header { flags: plain.flags | ENCRYPTED | SIGNED, ..plain });
    }

    #[test]
    fn what_was_sealed_comes_back() {
        let blob = blob();
        let mut foreign = encode(
            &&json::parse(br#"{"type":"event","content":"x","created_at":1}"#).unwrap(),
            &Options::default(),
        )
        .unwrap();
        foreign[3..5].copy_from_slice(&[0xe3, 0xb0]); // the hash of "": valid, but not remade
        let enveloped = in_envelope(&blob);
        for whole in [true, false] {
            for hidden in [true, false] {
                for signed in [true, false] {
                    let how = How { whole, hidden, signed };
                    for plain in [&blob, &foreign, &enveloped] {
                        assert_eq!(opened(plain, how), *plain, "{how:?}");
                    }
                    assert_eq!(header(&blob, how).unwrap().1, if whole { 0 } else { LEN });
                    assert_eq!(header(&foreign, how).unwrap().1, 0);
                    assert_eq!(header(&enveloped, how).unwrap().1, 0);
                }
            }
        }
    }

    #[test]
    fn another_header_is_refused() {
        let blob = blob();
        for how in [HOW, How { whole: true, ..HOW }, How { hidden: false, ..HOW }] {
            let (good, start) = header(&blob, how).unwrap();
            for bit in 0..8 {
                let other = Header { flags: good.flags ^ 1 << bit, ..good };
                let refused = before(other, &blob[start..]).is_err();
                // The encrypted bit was checked before. The signer does not matter for the grain
                // inside. Another sensitivity or compression is another plain header, which the
                // payload or the full check of the blob refuses.
                let by_payload = start == LEN && [2, 5, 6, 7].contains(&bit);
                assert!(refused || bit == 0 || by_payload, "{how:?} {bit}");
            }
            for other in [
                Header { type_byte: 3, ..good },
                Header { ns_hash: 1, ..good },
                Header { created_at: 1, ..good },
            ] {
                let refused = before(other, &blob[start..]).is_err();
                assert!(refused || start == LEN && other.type_byte == 3, "{how:?} {other:?}");
            }
        }
    }

    #[test]
    fn what_cannot_be_sealed() {
        let blob = blob();
        let with = |flag| [&[1, blob[1] | flag], &blob[2..]].concat();
        assert_eq!(header(&with(SIGNED), HOW).unwrap_err().kind(), Code::SignedMismatch);
        assert_eq!(header(&with(ENCRYPTED), HOW).unwrap_err().kind(), Code::Unsupported);
        assert_eq!(header(&in_envelope(&with(ENCRYPTED)), HOW).unwrap_err().kind(), Code::Unsupported);
        let mut unsigned = in_envelope(&blob);
        unsigned[7] &= !SIGNED;
        assert_eq!(header(&unsigned, HOW).unwrap_err().kind(), Code::SignedMismatch);
        let followed = [&in_envelope(&blob)[..], b"x"].concat();
        assert_eq!(header(&followed, HOW).unwrap_err().kind(), Code::Corrupt);
        assert!(header(b"", HOW).is_err() && before(Header::read(&blob).unwrap(), b"").is_err());
    }
}
