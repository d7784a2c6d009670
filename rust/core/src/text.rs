// SPDX-License-Identifier: Apache-2.0
//! Unicode rules for every string and key: NFC, no leading byte order mark. Spec: OMS §4.4
//!
//! Nearly every letter is *settled*: it does not change in NFC, and does not combine with the
//! letter before it. So text of settled letters is in NFC, and the text between two settled letters
//! can be checked and composed separately. build/letters.rs writes masks of the settled letters.

use alloc::borrow::Cow;

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

use crate::script::{PIECE, calm, is_inside};
use crate::{Code, Error, Result};

include!(concat!(env!("OUT_DIR"), "/letters.rs"));

pub(crate) const BOM: char = '\u{feff}';

/// The bytes as text; None if they are not UTF-8.
#[inline]
pub fn utf8(bytes: &[u8]) -> Option<&str> {
    #[cfg(feature = "std")]
    return simdutf8::basic::from_utf8(bytes).ok();
    #[cfg(not(feature = "std"))]
    core::str::from_utf8(bytes).ok()
}

/// The text in NFC, borrowed if it already is.
///
/// # Errors
/// `ERR_CORRUPT` for a leading byte order mark.
#[inline]
pub fn nfc(text: &str) -> Result<Cow<'_, str>> {
    if text.is_ascii() {
        return Ok(Cow::Borrowed(text));
    }
    let out = match in_order(text) {
        good if good == text.len() => Cow::Borrowed(text),
        good => Cow::Owned(text[..good].chars().chain(text[good..].nfc()).collect()),
    };
    if out.starts_with(BOM) { Err(bom()) } else { Ok(out) }
}

/// Checks text that was read.
///
/// # Errors
/// `ERR_CORRUPT` if it is not in NFC or begins with a byte order mark.
#[inline]
pub fn check_nfc(text: &str) -> Result<()> {
    if text.is_ascii() {
        return Ok(());
    }
    if text.starts_with(BOM) {
        return Err(bom());
    }
    if in_order(text) == text.len() {
        return Ok(());
    }
    Err(Error::new(Code::Corrupt, "a string is not in Unicode normal form C"))
}

/// Whether all letters are settled: if so, the text is in NFC.
#[cfg(test)]
pub(crate) fn is_settled(text: &str) -> bool {
    settled(text.as_bytes(), false) == text.len()
}

/// The number of bytes at the start that are in NFC, up to the letter before the first that
/// changes.
fn in_order(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    loop {
        at += settled(&bytes[at..], at > 0);
        let Some(mark) = Letter::first(&bytes[at..]) else { return at };
        let behind = at + mark.len;
        let next = Letter::first(&bytes[behind..]);
        if mark.is(ALONE) && next.is_none_or(|next| next.is(SETTLED)) {
            at = behind;
            continue;
        }
        let start = text[..at].char_indices().next_back().map_or(0, |(start, _)| start);
        let mut end = behind;
        while let Some(letter) = Letter::first(&bytes[end..]).filter(|letter| !letter.is(SETTLED)) {
            end += letter.len;
        }
        let part = &text[start..end];
        if is_nfc_quick(part.chars()) != IsNormalized::Yes && !part.nfc().eq(part.chars()) {
            return start;
        }
        at = end;
    }
}

/// A settled letter.
const SETTLED: usize = 0;
/// A mark that may follow a settled letter, or nothing, and precede one.
const ALONE: usize = 1;

/// One letter: the place of its masks, its bit in them, and its length in bytes.
struct Letter {
    page: usize,
    bit: u8,
    len: usize,
}

impl Letter {
    /// The first letter of some UTF-8 bytes.
    #[inline(always)]
    fn first(bytes: &[u8]) -> Option<Letter> {
        let low = |byte: u8| usize::from(byte & 63);
        Some(match *bytes {
            [a, ..] if a < 0x80 => Letter { page: usize::from(a >> 6), bit: a & 63, len: 1 },
            [a, b, ..] if a < 0xe0 => Letter { page: usize::from(a & 31), bit: b & 63, len: 2 },
            [a, b, c, ..] if a < 0xf0 => {
                Letter { page: usize::from(a & 15) << 6 | low(b), bit: c & 63, len: 3 }
            }
            [a, b, c, d, ..] => {
                Letter { page: usize::from(a & 7) << 12 | low(b) << 6 | low(c), bit: d & 63, len: 4 }
            }
            _ => return None,
        })
    }

    #[inline(always)]
    fn is(&self, kind: usize) -> bool {
        let masks = PAGES.get(self.page).map_or([0; 2], |place| MASKS[usize::from(*place)]);
        masks[kind] >> self.bit & 1 == 1
    }
}

/// The number of bytes of settled letters at the start. After a mark, another one is often near:
/// then the first letters are tested one by one.
#[inline]
fn settled(bytes: &[u8], after_mark: bool) -> usize {
    // Small machines have no branch prediction, and no room for the tables.
    if !cfg!(feature = "std") {
        return by_letters(bytes);
    }
    let mut at = if after_mark { 0 } else { calm(bytes) };
    loop {
        let mut end = bytes.len().min(at + PIECE);
        while bytes.get(end).is_some_and(|byte| is_inside(*byte)) {
            end += 1;
        }
        at += by_letters(&bytes[at..end]);
        if at < end || end == bytes.len() {
            return at;
        }
        at += calm(&bytes[at..]);
    }
}

/// The number of bytes of settled letters at the start. Each length of a letter has its own loop:
/// within a word the processor predicts the length, and need not wait for one letter to find the
/// next.
#[inline]
fn by_letters(bytes: &[u8]) -> usize {
    let is = |page: usize, last: u8| BASIC[page] >> (last & 63) & 1 == 1;
    let mut rest = bytes;
    loop {
        while let [a @ 0x80..0xe0, b, after @ ..] = rest
            && is(usize::from(a & 31), *b)
        {
            rest = after;
        }
        while let [a @ 0xe0..0xf0, b, c, after @ ..] = rest
            && is(usize::from(a & 15) << 6 | usize::from(b & 63), *c)
        {
            rest = after;
        }
        match rest {
            // Words of other scripts have one space between them.
            [..0x80, after @ ..] if !after.first().is_some_and(u8::is_ascii) => rest = after,
            [..0x80, ..] => rest = &rest[ascii(rest)..],
            _ => match Letter::first(rest).filter(|letter| letter.is(SETTLED)) {
                Some(letter) => rest = &rest[letter.len..],
                None => return bytes.len() - rest.len(),
            },
        }
    }
}

/// How many bytes at the start are ASCII, eight at a time.
#[inline(always)]
fn ascii(bytes: &[u8]) -> usize {
    let (eights, last) = bytes.as_chunks();
    for (i, eight) in eights.iter().enumerate() {
        let high = u64::from_le_bytes(*eight) & 0x8080_8080_8080_8080;
        if high != 0 {
            return 8 * i + high.trailing_zeros() as usize / 8;
        }
    }
    8 * eights.len() + last.iter().take_while(|byte| byte.is_ascii()).count()
}

#[cold]
fn bom() -> Error {
    Error::new(Code::Corrupt, "a string begins with a byte order mark")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agree(text: &str) {
        let composed: String = text.nfc().collect();
        let bom = composed.starts_with(BOM);
        assert_eq!(nfc(text).ok(), (!bom).then_some(Cow::Borrowed(&*composed)), "{text:?}");
        assert_eq!(check_nfc(text).is_ok(), composed == text && !bom, "{text:?}");
        assert!(!is_settled(text) || composed == text, "{text:?}");
    }

    #[test]
    fn composes_and_checks() {
        assert_eq!(nfc("e\u{301}").unwrap(), "é");
        assert_eq!(nfc("\u{212a}").unwrap(), "K");
        assert!(check_nfc("é").is_ok() && check_nfc("e\u{301}").is_err());
        assert_eq!(nfc("\u{feff}x").unwrap_err().kind(), Code::Corrupt);
        assert!(nfc("x\u{feff}").is_ok());
    }

    #[test]
    fn every_character_alone_and_between_others() {
        let mut text = String::new();
        for c in '\0'..=char::MAX {
            text.clear();
            text.push(c);
            agree(&text);
            if !(c as u32).is_multiple_of(8) && is_settled(&text) {
                continue; // a sample of the million similar ones is enough
            }
            text.insert(0, 'a');
            text.push_str("\u{301}é");
            agree(&text);
        }
    }

    fn random(mut seed: u64) -> impl FnMut(usize) -> usize {
        move |n| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % n
        }
    }

    /// Letters that change, combine or block another.
    fn odd_letters() -> Vec<char> {
        ('\u{80}'..=char::MAX)
            .filter(|c| !is_settled(c.encode_utf8(&mut [0; 4])) || c.nfd().count() > 1)
            .filter(|c| !('\u{ac00}'..='\u{d7a3}').contains(c) || (*c as u32).is_multiple_of(97))
            .collect()
    }

    #[test]
    fn long_text_of_several_scripts_with_odd_letters() {
        let (mut below, odd) = (random(12), odd_letters());
        let words: Vec<&str> = "größe tất съешь κόσμε שלום مرحبا नाम काम สวัสดี 你好， こんにちは 안녕하세요 ☕— 👩\u{200d}🔬 हिन्दी"
            .split(' ')
            .collect();
        for _ in 0..3_000 {
            let mut text = String::new();
            let mut word = words[0];
            for _ in 0..below(30) {
                if below(5) == 0 {
                    word = words[below(words.len())];
                }
                text.push_str(word);
                match below(25) {
                    0 => text.push(odd[below(odd.len())]),
                    1..8 => text.push(' '),
                    _ => (),
                }
            }
            agree(&text);
            let composed: String = text.nfc().collect();
            agree(&composed);
        }
    }

    #[test]
    fn random_text_of_every_kind_of_letter() {
        let (mut below, odd) = (random(11), odd_letters());
        let plain: Vec<char> = "aeé кнאבعكलनर中かがガ가각ᄀ😀\u{feff}".chars().collect();
        let mut text = String::new();
        for round in 0..20_000 {
            text.clear();
            for _ in 0..below(14) {
                let from = if below(4) < round % 4 { &odd } else { &plain };
                text.push(from[below(from.len())]);
            }
            agree(&text);
            let composed: String = text.nfc().collect();
            agree(&composed);
        }
    }
}
