// SPDX-License-Identifier: Apache-2.0
//! The hash of the field tables. build/registry.rs searches for the seed, and the library looks
//! keys up. Both use this file, so they cannot differ.

#[allow(dead_code)] // the library has the tables already
/// Slots of a table. There are about 150 keys, so the search soon finds a seed without collisions.
pub const SLOTS: usize = 2048;

/// The slot of a key: a mix of its ends and its length. The caller compares the whole key.
#[inline]
pub fn slot(key: &[u8], seed: u64) -> usize {
    let n = key.len();
    let word = |at: usize| {
        let mut bytes = [0u8; 8];
        bytes.copy_from_slice(&key[at..at + 8]);
        u64::from_le_bytes(bytes)
    };
    let half = |at: usize| {
        let mut bytes = [0u8; 4];
        bytes.copy_from_slice(&key[at..at + 4]);
        u64::from(u32::from_le_bytes(bytes))
    };
    let (a, b) = match n {
        0 => (0, 0),
        1..=3 => (u64::from(key[0]) | u64::from(key[n / 2]) << 8 | u64::from(key[n - 1]) << 16, 0),
        4..=7 => (half(0), half(n - 4)),
        _ => (word(0), word(n - 8)),
    };
    let mixed = (a ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ (b.rotate_left(29) ^ n as u64).wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
    ((mixed ^ (mixed >> 31)).wrapping_mul(0xff51_afd7_ed55_8ccd) >> 53) as usize
}
