// SPDX-License-Identifier: Apache-2.0
//! Where a grain ends when others follow it. Blobs and envelopes show their end, sealed grains do
//! not. Spec: OMS §11

use crate::codec::cbor::Cbor;
use crate::codec::msgpack::Msgpack;
use crate::codec::{Cursor, EXTENDED, Encoding, Head, Wire};
use crate::header::{COMPRESSED, ENCRYPTED, Header, LEN};
use crate::{Code, Error, Result, compress};

/// First byte of a COSE_Sign1 envelope: CBOR tag 18. A blob begins with its version, 1.
pub const ENVELOPE: u8 = 0xd2;

/// The length of the grain at the start of `bytes`; None if it is sealed, and so opaque.
///
/// # Errors
/// `ERR_CORRUPT`, `ERR_VERSION`, `ERR_TOO_SHORT`: no grain begins here.
pub fn extent(bytes: &[u8]) -> Result<Option<usize>> {
    if bytes.first() == Some(&ENVELOPE) {
        return envelope(bytes).map(|(_, len)| Some(len));
    }
    let header = Header::read(bytes)?;
    if header.has(ENCRYPTED) {
        return Ok(None);
    }
    let payload = &bytes[LEN..];
    let len = if header.has(COMPRESSED) {
        compress::frame_len(payload)
    } else {
        let mut cursor = Cursor::new(payload);
        let skipped = match header.encoding() {
            Encoding::Msgpack => skip::<Msgpack>(&mut cursor, 1),
            Encoding::Cbor => skip::<Cbor>(&mut cursor, 1),
        };
        skipped.map(|()| cursor.at)
    };
    len.map(|len| Some(LEN + len)).map_err(|e| e.shifted(LEN))
}

/// The blob in a COSE_Sign1 envelope and the length of the envelope; nothing is verified. Spec:
/// RFC 9052 §4.2
///
/// # Errors
/// `ERR_CORRUPT` if it is not `18([bytes, map, bytes, bytes])`.
pub fn envelope(bytes: &[u8]) -> Result<(&[u8], usize)> {
    let broken = |at| Error::new(Code::Corrupt, "not a COSE_Sign1 envelope").at(at);
    if bytes.first() != Some(&ENVELOPE) {
        return Err(broken(0));
    }
    let mut cursor = Cursor::new(bytes);
    cursor.at = 1;
    if !matches!(Cbor::head(&mut cursor), Ok(Head::Array(4))) {
        return Err(broken(1));
    }
    byte_string(&mut cursor).ok_or_else(|| broken(2))?;
    let at = cursor.at;
    skip::<Cbor>(&mut cursor, 1)?;
    if bytes[at] >> 5 != 5 {
        return Err(broken(at));
    }
    let at = cursor.at;
    let blob = byte_string(&mut cursor).ok_or_else(|| broken(at))?;
    let at = cursor.at;
    byte_string(&mut cursor).ok_or_else(|| broken(at))?;
    Ok((blob, cursor.at))
}

/// The blob itself, without its envelope if it has one.
///
/// # Errors
/// As [`envelope`].
pub fn inner(bytes: &[u8]) -> Result<&[u8]> {
    if bytes.first() == Some(&ENVELOPE) { Ok(envelope(bytes)?.0) } else { Ok(bytes) }
}

fn byte_string<'a>(cursor: &mut Cursor<'a>) -> Option<&'a [u8]> {
    match Cbor::head(cursor) {
        Ok(Head::Bytes(len)) => cursor.take(len).ok(),
        _ => None,
    }
}

/// Skips one value.
fn skip<W: Wire>(cursor: &mut Cursor<'_>, depth: usize) -> Result<()> {
    let at = cursor.at;
    if depth > EXTENDED.max_depth {
        return Err(Error::new(Code::Corrupt, "nested too deep").at(at));
    }
    let values = match W::head(cursor).map_err(|e| e.at(at))? {
        Head::Str(len) | Head::Bytes(len) => {
            cursor.take(len).map_err(|e| e.at(at))?;
            0
        }
        Head::Array(len) => len,
        Head::Map(len) => len.saturating_mul(2),
        _ => 0,
    };
    // Each value takes at least a byte, so a false length ends soon.
    (0..values).try_for_each(|_| skip::<W>(cursor, depth + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_found() {
        let blob = [&[1, 0, 1, 0, 0, 0, 0, 0, 0][..], &[0x81, 0xa1, b't', 0x93, 1, 2, 0xa1, b'x']].concat();
        let followed = [&blob[..], b"\x81more"].concat();
        assert_eq!(extent(&followed).unwrap(), Some(blob.len()));
        assert!(extent(&blob[..blob.len() - 1]).is_err());
        let mut sealed = blob.clone();
        sealed[1] |= ENCRYPTED;
        assert_eq!(extent(&sealed).unwrap(), None);
    }

    #[test]
    fn envelopes_are_opened() {
        let bytes = [0xd2, 0x84, 0x41, 7, 0xa1, 1, 2, 0x43, 1, 2, 3, 0x41, 9, 0xff];
        assert_eq!(envelope(&bytes).unwrap(), (&[1u8, 2, 3][..], 13));
        assert!(envelope(&bytes[..10]).is_err() && envelope(&[0xd2, 0x83]).is_err());
    }
}
