// SPDX-License-Identifier: Apache-2.0
//! Which characters settle the question whether text is in NFC, as masks of 64 characters.

use std::fmt::Write as _;

use unicode_normalization::char::canonical_combining_class;
use unicode_normalization::{IsNormalized, is_nfc_quick};

/// A mask of 64 characters for each kind.
type Masks = [u64; 2];

/// `PAGES`: for each 64 characters the place of their masks in `MASKS`. The first mask of a pair
/// has the settled ones, the second the marks that are in order as long as they stand alone.
/// `BASIC`: the first masks at once, for characters of at most three bytes.
/// `FIRST`, `SECOND`, `THIRD`: for each byte at its place in a character the groups of those, not
/// settled, that it can stand in. Three bytes that have no group in common begin none of them.
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
    for (name, bits) in ["FIRST", "SECOND", "THIRD"].iter().zip(unsettled(&settled)) {
        let _ = writeln!(out, "static {name}: [u64; 256] = {bits:?};");
    }
    let _ = writeln!(out, "static BASIC: [u64; {}] = {basic:?};", basic.len());
    let _ = writeln!(out, "static PAGES: [u8; {}] = {pages:?};", pages.len());
    let _ = writeln!(out, "static MASKS: [[u64; 2]; {}] = {distinct:?};", distinct.len());
    out
}

/// A group is of one first byte; of the two that begin most scripts with marks, of two bytes.
fn unsettled(settled: &[u64]) -> [[u64; 256]; 3] {
    let (mut bits, mut groups) = ([[0; 256]; 3], Vec::new());
    for c in ('\u{80}'..=char::MAX).filter(|c| settled[*c as usize / 64] >> (*c as u32 % 64) & 1 == 0) {
        let mut utf8 = [0; 4];
        c.encode_utf8(&mut utf8);
        let group = if matches!(utf8[0], 0xe0 | 0xe3) { [utf8[0], utf8[1]] } else { [utf8[0], 0] };
        let number = groups.iter().position(|known| *known == group).unwrap_or(groups.len());
        if number == groups.len() {
            assert!(number < 64, "more groups than bits");
            groups.push(group);
        }
        bits[0][usize::from(utf8[0])] |= 1 << number;
        bits[1][usize::from(utf8[1])] |= 1 << number;
        match c.len_utf8() {
            2 => bits[2].iter_mut().for_each(|any| *any |= 1 << number),
            _ => bits[2][usize::from(utf8[2])] |= 1 << number,
        }
    }
    bits
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
