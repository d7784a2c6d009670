// SPDX-License-Identifier: Apache-2.0
//! Masks of 64 characters, which show the characters that decide whether text is in NFC.

use std::fmt::Write as _;

use unicode_normalization::char::canonical_combining_class;
use unicode_normalization::{IsNormalized, is_nfc_quick};

/// One mask of 64 characters for each kind.
type Masks = [u64; 2];

/// `PAGES`: for each 64 characters, the place of their masks in `MASKS`. The first mask of a pair
/// has the settled characters; the second has the marks that are in NFC next to settled ones.
/// `BASIC`: the first masks at once, for characters of at most three bytes.
pub fn tables() -> String {
    let mut distinct: Vec<Masks> = Vec::new();
    let mut pages = Vec::new();
    for start in (0..=u32::from(char::MAX)).step_by(64) {
        let masks = masks(start);
        let place = distinct.iter().position(|known| *known == masks).unwrap_or(distinct.len());
        if place == distinct.len() {
            distinct.push(masks);
        }
        pages.push(u8::try_from(place).expect("at most 256 pairs of masks"));
    }
    let settled: Vec<u64> = pages.iter().map(|place| distinct[usize::from(*place)][0]).collect();
    let basic = &settled[..1024];
    let mut out = String::new();
    let _ = writeln!(out, "static BASIC: [u64; {}] = {basic:?};", basic.len());
    let _ = writeln!(out, "static PAGES: [u8; {}] = {pages:?};", pages.len());
    let _ = writeln!(out, "static MASKS: [[u64; 2]; {}] = {distinct:?};", distinct.len());
    out
}

fn masks(start: u32) -> Masks {
    let mut masks = [0; 2];
    for (bit, c) in (start..start + 64).enumerate() {
        let Some(c) = char::from_u32(c) else { continue };
        if is_nfc_quick([c].into_iter()) == IsNormalized::Yes {
            masks[usize::from(canonical_combining_class(c) != 0)] |= 1 << bit;
        }
    }
    masks
}
