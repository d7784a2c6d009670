// SPDX-License-Identifier: Apache-2.0
//! The rows of a store's tables of addresses, which lead from an address to its grain:
//!
//! ```text
//! key    first byte of the address
//! value  next 6 bytes of the address ++ sequence number, 4 bytes
//! ```
//!
//! Addresses are random, so each row that is added dirties a page of its own in a large table. Rows
//! of 10 bytes share pages longer than whole addresses would. A row is a hint: whoever finds a grain
//! by it compares the whole address, since two addresses may begin alike.

use crate::Result;
use crate::address::Digest;
use crate::memtable::in_range;

/// Bytes of an address in a row, those of the key too.
const BYTES: usize = 7;

/// The key of a row.
pub type First = [u8; 1];
/// The value of a row.
pub type Rest = [u8; BYTES + 3];
/// A row.
pub type Row = (First, Rest);

/// The row of an address and a sequence number.
///
/// # Errors
/// `ERR_RANGE` for a number beyond 32 bits.
pub fn row(digest: &Digest, sequence: u64) -> Result<Row> {
    in_range(sequence)?;
    let mut value = Rest::default();
    value[..BYTES - 1].copy_from_slice(&digest[1..BYTES]);
    value[BYTES - 1..].copy_from_slice(&(sequence as u32).to_be_bytes());
    Ok(([digest[0]], value))
}

/// The key of an address, and the bytes that its values begin with; None for a shorter one.
#[must_use]
pub fn split(digest: &[u8]) -> Option<(&[u8], &[u8])> {
    digest.get(..BYTES)?.split_at_checked(1)
}

/// The number in a value, if it begins as that of an address does.
#[must_use]
pub fn number(value: &Rest, digest: &[u8]) -> Option<u64> {
    let (_, rest) = split(digest)?;
    let (found, number) = value.split_last_chunk::<4>()?;
    (found == rest).then(|| u64::from(u32::from_be_bytes(*number)))
}

#[cfg(test)]
mod tests {
    use super::{number, row, split};

    #[test]
    fn a_row_leads_back_to_its_number() {
        let mut digest = [0; 32];
        digest.iter_mut().zip(1..).for_each(|(byte, n)| *byte = n);
        let (key, value) = row(&digest, 0x0a0b_0c0d).unwrap();
        assert_eq!((key, value), ([1], [2, 3, 4, 5, 6, 7, 10, 11, 12, 13]));
        assert_eq!(split(&digest), Some((&[1_u8][..], &[2_u8, 3, 4, 5, 6, 7][..])));
        assert_eq!(number(&value, &digest), Some(0x0a0b_0c0d));
        digest[31] ^= 1; // beyond the row: another address with the same beginning
        assert_eq!(number(&value, &digest), Some(0x0a0b_0c0d));
        digest[6] ^= 1;
        assert_eq!(number(&value, &digest), None);
        assert_eq!(number(&value, &digest[..6]), None);
    }

    #[test]
    fn a_number_beyond_32_bits_is_refused() {
        assert_eq!(row(&[0; 32], 1 << 32).unwrap_err().code(), "ERR_RANGE");
    }
}
