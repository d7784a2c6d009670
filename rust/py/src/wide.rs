// SPDX-License-Identifier: Apache-2.0
//! Long texts of all scripts as Python strings. CPython reads UTF-16 in a third of the time that
//! UTF-8 takes it, so they are brought into UTF-16 first.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

/// Shorter texts are not worth the two steps.
pub const LONG: usize = 96;

/// The text of these bytes, which were checked.
pub fn text<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyString>> {
    if is_long(bytes) { from_utf16(py, &utf16(bytes)) } else { PyString::from_bytes(py, bytes) }
}

/// U+FFFE, a byte order mark in the other order.
const SWAPPED: &[u8] = "\u{fffe}".as_bytes();

/// Whether it is better to go by UTF-16.
pub fn is_long(bytes: &[u8]) -> bool {
    bytes.len() >= LONG && !bytes.is_ascii() && !bytes.starts_with(SWAPPED)
}

/// The text of these units, in the order of the machine: as "utf-16" is read where no byte order
/// mark stands. No text of a grain begins with one, and [`is_long`] keeps the other away.
pub fn from_utf16<'py>(py: Python<'py>, units: &[u8]) -> PyResult<Bound<'py, PyString>> {
    PyString::from_encoded_object(&PyBytes::new(py, units), Some(c"utf-16"), None)
}

/// Bytes that are looked at together.
const BLOCK: usize = 64;

/// Each byte is taken for the last of a letter, and the unit that it would end is computed; then
/// those are kept which do end one. Nothing branches on a letter, whose length is hard to foresee
/// where words are short: that takes a third of the time of a loop over letters.
pub fn utf16(utf8: &[u8]) -> Vec<u8> {
    // A letter has at least as many bytes as it has units.
    let mut out = Vec::with_capacity(2 * utf8.len());
    for start in (0..utf8.len()).step_by(BLOCK) {
        // Three bytes before the block and one behind it.
        let mut around = [0; BLOCK + 4];
        let (from, to) = (start.saturating_sub(3), utf8.len().min(start + BLOCK + 1));
        let ahead = from + 3 - start;
        around[ahead..ahead + to - from].copy_from_slice(&utf8[from..to]);
        let (mut units, mut kept) = ([0; BLOCK], [0; BLOCK]);
        for i in 0..BLOCK {
            units[i] = unit(around[i + 1].into(), around[i + 2].into(), around[i + 3].into());
            kept[i] = u8::from(around[i + 4] & 0xc0 != 0x80) | u8::from(around[i + 1] >= 0xf0);
        }
        let (mut packed, mut count) = ([[0; 2]; BLOCK], 0usize);
        for i in 0..BLOCK.min(utf8.len() - start) {
            // What is not kept is written over.
            packed[count % BLOCK] = units[i].to_ne_bytes();
            count = count.wrapping_add(usize::from(kept[i]));
        }
        out.extend_from_slice(packed[..count].as_flattened());
    }
    out
}

/// The unit that ends with the last of these three bytes. A letter of four bytes has two, and the first
/// ends with its third byte.
#[inline(always)]
fn unit(b: u16, c: u16, d: u16) -> u16 {
    let (mid, low) = ((c & 63) << 6, d & 63);
    let first = (0xd800 - 0x40) + ((b & 7) << 8 | (c & 63) << 2 | (d >> 4 & 3));
    let second = 0xdc00 | (mid & 0x3c0) | low;
    let three = b << 12 | mid | low;
    let long = if b >= 0xf0 { first } else { three };
    let long = if b >= 0xe0 { long } else { second };
    let two = (c & 31) << 6 | low;
    let more = if c >= 0xc0 { two } else { long };
    if d < 0x80 { d } else { more }
}
