// SPDX-License-Identifier: Apache-2.0
//! Tests of many bytes at once: whether they surely are settled letters, in the sense of `text`.
//!
//! The compiler vectorizes these tests: they compare bytes, without branches or tables. For Latin,
//! Cyrillic and Chinese text the first byte of each letter is enough. For other scripts a test
//! takes all three bytes. One script's test takes a third of the time of the test for all scripts.

/// The number of bytes that are tested at once, without a branch.
pub const PIECE: usize = 32;

/// The number of bytes at the start that surely are settled letters, in whole pieces. Testing
/// letter by letter takes at least twice the time, since the processor cannot predict where a word
/// ends.
pub fn calm(bytes: &[u8]) -> usize {
    let mut at = 0;
    let mut script = None;
    // A letter at the end of a piece continues after it.
    while let Some(piece) = bytes.get(at..).and_then(<[u8]>::first_chunk) {
        if !begin_settled(piece) && !script.is_some_and(|script: Script| script.has(piece)) {
            // Text stays in its script, so the next pieces are tested for it alone.
            let before = script.replace(Script::of(piece));
            let is_other = before != script && script.is_some_and(|script| script.has(piece));
            if !is_other && !Script::Any.has(piece) {
                break;
            }
        }
        at += PIECE;
    }
    while at > 0 && bytes.get(at).is_some_and(|byte| is_inside(*byte)) {
        at -= 1;
    }
    at
}

/// Whether every byte of a piece begins or continues settled letters only.
#[inline(always)]
fn begin_settled(piece: &[u8; PIECE + 2]) -> bool {
    piece[..PIECE].iter().fold(true, |all, a| all & begins_settled(*a))
}

/// Whether every letter that begins with this byte is settled.
#[inline(always)]
fn begins_settled(a: u8) -> bool {
    (a < 0xcc)
        | between(a, 0xcf, 0xd1)
        | between(a, 0xd3, 0xd5)
        | between(a, 0xe4, 0xe9)
        | between(a, 0xeb, 0xec)
}

/// Letters that are tested together: those of one script, or all that are covered.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Script {
    Latin,
    Greek,
    Hebrew,
    Arabic,
    Indic,
    Thai,
    Kana,
    Hangul,
    Symbols,
    Any,
}

impl Script {
    /// The script of the first letter that is not sure to be settled by its first byte.
    fn of(piece: &[u8; PIECE + 2]) -> Script {
        let at = piece.iter().position(|a| !begins_settled(*a)).unwrap_or_default();
        match piece[at..] {
            [0xe1, 0xb8..=0xbb, ..] => Script::Latin,
            [0xce, ..] => Script::Greek,
            [0xd7, ..] => Script::Hebrew,
            [0xd8 | 0xd9, ..] => Script::Arabic,
            [0xe0, 0xa4 | 0xa5, ..] => Script::Indic,
            [0xe0, 0xb8 | 0xb9, ..] => Script::Thai,
            [0xe3, ..] => Script::Kana,
            [0xea | 0xed, ..] => Script::Hangul,
            [0xe2 | 0xef | 0xf0, ..] => Script::Symbols,
            _ => Script::Any,
        }
    }

    /// Whether a piece surely has settled letters only, and none of other scripts.
    fn has(self, piece: &[u8; PIECE + 2]) -> bool {
        match self {
            Script::Latin => all(piece, latin),
            Script::Greek => all(piece, greek),
            Script::Hebrew => all(piece, hebrew),
            Script::Arabic => all(piece, arabic),
            Script::Indic => all(piece, indic),
            Script::Thai => all(piece, thai),
            Script::Kana => all(piece, kana),
            Script::Hangul => all(piece, hangul),
            Script::Symbols => all(piece, symbol),
            Script::Any => all(piece, any),
        }
    }
}

/// Whether all letters of a piece are settled by their first byte or by a test of three bytes.
#[inline(always)]
fn all(piece: &[u8; PIECE + 2], test: impl Fn(u8, u8, u8) -> bool) -> bool {
    let mut open = 0;
    for at in 0..PIECE {
        let (a, b, c) = (piece[at], piece[at + 1], piece[at + 2]);
        open |= u8::from(!(begins_settled(a) | test(a, b, c)));
    }
    open == 0
}

#[inline(always)]
fn latin(a: u8, b: u8, _: u8) -> bool {
    (a == 0xe1) & between(b, 0xb8, 0xbb)
}

#[inline(always)]
fn greek(a: u8, b: u8, _: u8) -> bool {
    (a == 0xce) & (b != 0x87)
}

#[inline(always)]
fn hebrew(a: u8, b: u8, _: u8) -> bool {
    (a == 0xd7) & between(b, 0x90, 0xaa)
}

#[inline(always)]
fn arabic(a: u8, b: u8, _: u8) -> bool {
    ((a == 0xd8) & (b >= 0x9b)) | ((a == 0xd9) & !between(b, 0x8b, 0xb0))
}

#[inline(always)]
fn indic(a: u8, b: u8, c: u8) -> bool {
    (a == 0xe0) & (((b == 0xa4) & (c != 0xbc)) | ((b == 0xa5) & !between(c, 0x8d, 0x9f)))
}

#[inline(always)]
fn thai(a: u8, b: u8, c: u8) -> bool {
    (a == 0xe0) & (((b == 0xb8) & (c < 0xb8)) | ((b == 0xb9) & !between(c, 0x88, 0x8b)))
}

#[inline(always)]
fn kana(a: u8, b: u8, c: u8) -> bool {
    ((a == 0xe3) & between(b, 0x81, 0x83) & !((b == 0x82) & between(c, 0x99, 0x9a))) | punctuation(a, b, c)
}

#[inline(always)]
fn hangul(a: u8, b: u8, _: u8) -> bool {
    ((a == 0xea) & (b >= 0xb0)) | ((a == 0xed) & (b < 0x9e))
}

/// Punctuation of Chinese and Japanese.
#[inline(always)]
fn punctuation(a: u8, b: u8, c: u8) -> bool {
    ((a == 0xe3) & (b == 0x80) & (c < 0xaa)) | ((a == 0xef) & (b == 0xbc))
}

/// Dashes, quotes, emoji and the marks between them.
#[inline(always)]
fn symbol(a: u8, b: u8, c: u8) -> bool {
    ((a == 0xe2) & (((b == 0x80) & (c >= 0x82)) | between(b, 0x94, 0xaa)))
        | ((a == 0xef) & (b == 0xb8) & (c < 0xa0))
        | ((a == 0xf0) & (b == 0x9f))
        | punctuation(a, b, c)
}

#[inline(always)]
fn any(a: u8, b: u8, c: u8) -> bool {
    latin(a, b, c)
        | greek(a, b, c)
        | hebrew(a, b, c)
        | arabic(a, b, c)
        | indic(a, b, c)
        | thai(a, b, c)
        | kana(a, b, c)
        | hangul(a, b, c)
        | symbol(a, b, c)
}

#[inline(always)]
fn between(byte: u8, from: u8, to: u8) -> bool {
    byte.wrapping_sub(from) <= to - from
}

/// Whether a byte of UTF-8 continues a letter.
pub fn is_inside(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::is_settled;

    #[test]
    fn letters_that_are_known_as_settled_are() {
        let mut bytes = [0; 6];
        for c in '\u{80}'..=char::MAX {
            let letter = c.encode_utf8(&mut bytes);
            let (len, settled) = (letter.len(), is_settled(letter));
            for after in [b' ', 0xff] {
                bytes[len] = after;
                assert!(settled || !begins_settled(bytes[0]), "{c:?}");
                assert!(settled || !any(bytes[0], bytes[1], bytes[2]), "{c:?}");
            }
        }
    }

    #[test]
    fn text_of_one_script_is_tested_in_pieces() {
        for (script, words) in [
            ("Latin", "Tất cả mọi người "),
            ("Greek", "κόσμε και "),
            ("Hebrew", "שלום רב "),
            ("Arabic", "مرحبا بكم "),
            ("Indic", "नाम और काम "),
            ("Thai", "สวัสดี "),
            ("Kana", "こんにちは、セカイ。"),
            ("Hangul", "안녕하세요 "),
            ("Symbols", "☕ — 🙂\u{fe0f}👩\u{200d}🔬 "),
            ("Any", "Ελλάδα κόσμε 안녕하세요 🤖 "),
        ] {
            let text = words.repeat(20);
            let piece = text.as_bytes().first_chunk().unwrap();
            let first = if script == "Any" { "Greek" } else { script };
            assert_eq!(format!("{:?}", Script::of(piece)), first);
            assert_eq!(Script::of(piece).has(piece), script != "Any", "{script}");
            assert!(text.len() - calm(text.as_bytes()) < PIECE + 6, "{script}");
            assert!(is_settled(&text), "{script}");
        }
    }
}
