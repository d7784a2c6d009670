// SPDX-License-Identifier: Apache-2.0
//! Content addresses: SHA-256 of the whole blob, as 64 lower-case hex digits. Spec: OMS §5

use alloc::{string::String, string::ToString as _};
use core::{fmt, str::FromStr};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::{Code, Error, Result};

/// The address of a grain: the SHA-256 of its blob. As text it is 64 lower-case hex digits.
///
/// ```
/// use omsgrain_core::Address;
///
/// let address = Address::of(b"");
/// let text = address.to_string();
/// assert_eq!(text, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
/// assert_eq!(text.parse::<Address>()?, address);
/// # Ok::<(), omsgrain_core::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(Digest);

impl Address {
    /// Hashes a blob. It does not check that the blob is a grain.
    pub fn of(blob: &[u8]) -> Address {
        Address(sha256(blob))
    }

    /// The 32 bytes of the hash.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl From<[u8; 32]> for Address {
    fn from(bytes: [u8; 32]) -> Address {
        Address(bytes)
    }
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Address> {
        parse(text).map(Address)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&to_hex(&self.0))
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

/// An address as bytes.
pub type Digest = [u8; 32];

/// SHA-256. Inlined into the hash of a namespace it would slow `encode` by a twentieth.
#[inline(never)]
pub fn sha256(bytes: &[u8]) -> Digest {
    Sha256::digest(bytes).into()
}

/// An address as text.
pub fn to_hex(digest: &Digest) -> String {
    let mut out = [0u8; 64];
    write_hex(digest, &mut out);
    out.iter().map(|byte| char::from(*byte)).collect()
}

/// An address as text, into a buffer.
pub fn write_hex(digest: &Digest, out: &mut [u8; 64]) {
    for (pair, byte) in out.as_chunks_mut().0.iter_mut().zip(digest) {
        *pair = PAIRS[usize::from(*byte)];
    }
}

/// Both digits of each byte.
const PAIRS: [[u8; 2]; 256] = {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [DIGITS[byte >> 4], DIGITS[byte & 15]];
        byte += 1;
    }
    pairs
};

/// Reads an address.
///
/// # Errors
/// `ERR_HASH_LENGTH`, `ERR_HASH_FORMAT` (upper case is refused too).
pub fn parse(text: &str) -> Result<Digest> {
    if text.chars().count() != 64 {
        return Err(Error::new(Code::HashLength, "an address of the wrong length")
            .expected("64 characters")
            .found(text.chars().count().to_string()));
    }
    let digit = |c: u8| match c {
        b'0'..=b'9' => Some(c - b'0'),
        b'a'..=b'f' => Some(c - b'a' + 10),
        _ => None,
    };
    let wrong = || Error::new(Code::HashFormat, "not an address").expected("digits 0-9 and a-f");
    if text.len() != 64 {
        return Err(wrong());
    }
    let mut out = [0; 32];
    for (byte, pair) in out.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let (high, low) = (digit(pair[0]), digit(pair[1]));
        *byte = high.zip(low).map(|(high, low)| high << 4 | low).ok_or_else(wrong)?;
    }
    Ok(out)
}

/// Whether [`parse`] accepts a text.
#[inline]
pub(crate) fn is_address(text: &str) -> bool {
    let digit = |b: u8| b.is_ascii_digit() | (b'a'..=b'f').contains(&b);
    text.len() == 64 && text.bytes().fold(true, |good, b| good & digit(b))
}

/// Checks that a blob has this address, in constant time, and returns its digest.
///
/// # Errors
/// `ERR_INTEGRITY`, with both addresses.
pub fn verify(blob: &[u8], expected: &Digest) -> Result<Digest> {
    let actual = sha256(blob);
    same(&actual, expected)?;
    Ok(actual)
}

/// Checks that two digests are the same, in constant time.
///
/// # Errors
/// `ERR_INTEGRITY`, with both addresses.
pub fn same(actual: &Digest, expected: &Digest) -> Result<()> {
    if bool::from(actual.ct_eq(expected)) {
        return Ok(());
    }
    Err(Error::new(Code::Integrity, "the blob has another address")
        .expected(to_hex(expected))
        .found(to_hex(actual)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_both_ways() {
        let digest = sha256(b"");
        let text = to_hex(&digest);
        assert_eq!(text, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(parse(&text).unwrap(), digest);
        for c in 0..=255u8 {
            let text = char::from(c).to_string() + &text[1..];
            assert_eq!(is_address(&text), parse(&text).is_ok(), "{c}");
        }
        assert_eq!(parse(&text.to_uppercase()).unwrap_err().kind(), Code::HashFormat);
        assert_eq!(parse(&"é".repeat(64)).unwrap_err().kind(), Code::HashFormat);
        assert_eq!(parse(&"é".repeat(32)).unwrap_err().kind(), Code::HashLength);
        assert_eq!(parse(&text[1..]).unwrap_err().kind(), Code::HashLength);
    }

    #[test]
    fn verify_names_both_addresses() {
        assert!(verify(b"", &sha256(b"")).is_ok());
        let refused = verify(b"x", &sha256(b"")).unwrap_err();
        assert_eq!(refused.kind(), Code::Integrity);
        assert_eq!(refused.expectation(), Some(to_hex(&sha256(b"")).as_str()));
    }
}
