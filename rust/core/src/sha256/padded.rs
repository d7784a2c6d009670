// SPDX-License-Identifier: Apache-2.0
//! A message as blocks. Spec: FIPS 180-4 §5.1

use super::BLOCK;

/// Bytes of padding at the least: one bit and the length.
const PADDING: usize = 9;

/// What is behind the whole blocks: the rest, one bit, zeros, and the length in bits.
pub type Last = [[u8; BLOCK]; 2];

/// Writes the last blocks of a message; gives its whole blocks, and how many there are in all.
pub fn pad<'m>(message: &'m [u8], last: &mut Last) -> (&'m [[u8; BLOCK]], usize) {
    let (whole, rest) = message.as_chunks();
    let blocks = (message.len() + PADDING).div_ceil(BLOCK);
    let last = last.as_flattened_mut();
    last.fill(0);
    last[..rest.len()].copy_from_slice(rest);
    last[rest.len()] = 0x80;
    let end = (blocks - whole.len()) * BLOCK;
    last[end - 8..end].copy_from_slice(&((message.len() as u64) << 3).to_be_bytes());
    (whole, blocks)
}

/// A block by its number; behind the last, any.
#[inline]
pub fn block<'b>(whole: &'b [[u8; BLOCK]], last: &'b Last, number: usize) -> &'b [u8; BLOCK] {
    match number.checked_sub(whole.len()) {
        None => &whole[number],
        Some(behind) => &last[behind & 1],
    }
}
