// SPDX-License-Identifier: Apache-2.0
//! The nine bytes before the payload. Spec: OMS §3
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 1 | version |
//! | 1 | 1 | flags |
//! | 2 | 1 | type |
//! | 3 | 2 | ns_hash |
//! | 5 | 4 | created_at, epoch seconds |

use crate::codec::Encoding;
use crate::{Code, Error, Result, address};
use alloc::string::ToString as _;

/// The only version.
pub const VERSION: u8 = 1;

const AT_VERSION: usize = 0;
const AT_FLAGS: usize = AT_VERSION + 1;
const AT_TYPE: usize = AT_FLAGS + 1;
const AT_NS_HASH: usize = AT_TYPE + 1;
pub(crate) const AT_CREATED: usize = AT_NS_HASH + 2;
/// Bytes of a header.
pub const LEN: usize = AT_CREATED + 4;
/// Bytes of the smallest blob: a header and an empty map.
pub const MIN_BLOB: usize = LEN + 1;

/// Flag bit: the blob is in a COSE_Sign1 envelope.
pub const SIGNED: u8 = 1 << 0;
/// Flag bit: the payload is sealed.
pub const ENCRYPTED: u8 = 1 << 1;
/// Flag bit: the payload is a zstd frame.
pub const COMPRESSED: u8 = 1 << 2;
/// Flag bit: content_refs is present and not empty.
pub const CONTENT_REFS: u8 = 1 << 3;
/// Flag bit: embedding_refs is present and not empty.
pub const EMBEDDING_REFS: u8 = 1 << 4;
/// Flag bit: the payload is CBOR.
pub const CBOR: u8 = 1 << 5;
const SENSITIVITY_SHIFT: u32 = 6;

/// A header, read or to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// All eight flag bits.
    pub flags: u8,
    /// The type byte: 1 to 10, or an opaque one.
    pub type_byte: u8,
    /// A routing hint from the namespace.
    pub ns_hash: u16,
    /// A routing hint: whole seconds of created_at.
    pub created_at: u32,
}

impl Header {
    /// Reads the header of a blob without its payload.
    ///
    /// # Errors
    /// `ERR_TOO_SHORT`, `ERR_VERSION`.
    pub fn read(blob: &[u8]) -> Result<Header> {
        if blob.len() < MIN_BLOB {
            return Err(Error::new(Code::TooShort, "the blob is too short")
                .expected(format!("at least {MIN_BLOB} bytes"))
                .found(format!("{}", blob.len())));
        }
        if blob[AT_VERSION] != VERSION {
            let version = blob[AT_VERSION];
            return Err(Error::new(Code::Version, format!("version {version} is not known"))
                .expected("version 1")
                .found(version.to_string())
                .at(AT_VERSION));
        }
        let created = &blob[AT_CREATED..LEN];
        Ok(Header {
            flags: blob[AT_FLAGS],
            type_byte: blob[AT_TYPE],
            ns_hash: u16::from_be_bytes([blob[AT_NS_HASH], blob[AT_NS_HASH + 1]]),
            created_at: created.iter().fold(0, |all, byte| all << 8 | u32::from(*byte)),
        })
    }

    /// The nine bytes.
    pub fn to_bytes(self) -> [u8; LEN] {
        let mut out = [0; LEN];
        out[AT_VERSION] = VERSION;
        out[AT_FLAGS] = self.flags;
        out[AT_TYPE] = self.type_byte;
        out[AT_NS_HASH..AT_CREATED].copy_from_slice(&self.ns_hash.to_be_bytes());
        out[AT_CREATED..LEN].copy_from_slice(&self.created_at.to_be_bytes());
        out
    }

    /// Whether a flag bit is set.
    pub fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// 0 public, 1 internal, 2 pii, 3 phi.
    pub fn sensitivity(self) -> u8 {
        self.flags >> SENSITIVITY_SHIFT
    }

    /// The wire format of the payload.
    pub fn encoding(self) -> Encoding {
        if self.has(CBOR) { Encoding::Cbor } else { Encoding::Msgpack }
    }

    /// Compares a header with the facts of its payload, field by field.
    ///
    /// # Errors
    /// `ERR_CORRUPT`, `ERR_SENSITIVITY_MISMATCH`, with the byte offset.
    pub fn check(self, facts: &Facts) -> Result<()> {
        let refs = CONTENT_REFS | EMBEDDING_REFS;
        if self.flags & refs != facts.refs {
            return Err(Error::new(Code::Corrupt, "the reference bits do not match the payload").at(AT_FLAGS));
        }
        if self.sensitivity() < facts.sensitivity {
            return Err(Error::new(
                Code::SensitivityMismatch,
                "the header has a lower sensitivity than the tags require",
            )
            .expected(format!("sensitivity {} or more", facts.sensitivity))
            .found(self.sensitivity().to_string())
            .at(AT_FLAGS));
        }
        // Other writers hash an absent namespace as "" or as "shared". Spec: OMS §3.3
        let absent = facts.ns_hash == 0 && facts.no_namespace;
        let others = || [ns_hash(""), ns_hash("shared")];
        if self.ns_hash != facts.ns_hash && !(absent && others().contains(&self.ns_hash)) {
            return Err(Error::new(Code::Corrupt, "ns_hash does not match the namespace")
                .expected(format!("{:04x}", facts.ns_hash))
                .found(format!("{:04x}", self.ns_hash))
                .at(AT_NS_HASH));
        }
        if self.created_at != facts.created_at {
            return Err(Error::new(Code::Corrupt, "created_at differs from the payload")
                .expected(facts.created_at.to_string())
                .found(self.created_at.to_string())
                .at(AT_CREATED));
        }
        Ok(())
    }
}

/// The facts of a payload for its header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The reference bits.
    pub refs: u8,
    /// The least sensitivity that the tags require.
    pub sensitivity: u8,
    /// From the namespace.
    pub ns_hash: u16,
    /// Whether the namespace is absent or empty.
    pub no_namespace: bool,
    /// Whole seconds.
    pub created_at: u32,
}

impl Facts {
    /// The header of a grain with these facts. `sensitivity` is the writer's choice.
    pub fn header(&self, type_byte: u8, encoding: Encoding, sensitivity: u8) -> Header {
        let level = self.sensitivity.max(sensitivity.min(3));
        let cbor = if encoding == Encoding::Cbor { CBOR } else { 0 };
        let flags = self.refs | cbor | level << SENSITIVITY_SHIFT;
        Header { flags, type_byte, ns_hash: self.ns_hash, created_at: self.created_at }
    }
}

/// Whole seconds of a time in ms, if it fits into a header: from 1970 to 2106.
#[inline]
pub fn seconds(ms: i64) -> Option<u32> {
    u32::try_from(ms.div_euclid(1000)).ok()
}

/// The first two bytes of SHA-256 over a namespace in NFC. The last one is cached: grains of a
/// namespace are often consecutive, and hashing it costs half as much as the rest of the encoding.
pub fn ns_hash(namespace: &str) -> u16 {
    #[cfg(not(feature = "std"))]
    return hash(namespace);
    #[cfg(feature = "std")]
    remembered(namespace)
}

fn hash(namespace: &str) -> u16 {
    let digest = address::sha256(namespace.as_bytes());
    u16::from_be_bytes([digest[0], digest[1]])
}

#[cfg(feature = "std")]
fn remembered(namespace: &str) -> u16 {
    thread_local! {
        static LAST: core::cell::RefCell<(String, u16)> = const { core::cell::RefCell::new((String::new(), 0xe3b0)) };
    }
    LAST.with_borrow_mut(|(last, known)| {
        if last != namespace {
            *known = hash(namespace);
            namespace.clone_into(last);
        }
        *known
    })
}

#[cfg(test)]
mod tests {
    use super::ns_hash;

    #[test]
    fn the_remembered_hash_is_that_of_the_namespace() {
        for _ in 0..2 {
            assert_eq!(
                [ns_hash(""), ns_hash("shared"), ns_hash("shared"), ns_hash("")],
                [0xe3b0, 0xa4d2, 0xa4d2, 0xe3b0]
            );
        }
    }
}
