// SPDX-License-Identifier: Apache-2.0
//! Unicode rules for every string and key: NFC, no leading byte order mark. Spec: OMS §4.4

use std::borrow::Cow;

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

use crate::{Code, Error, Result};

const BOM: char = '\u{feff}';

/// The text in NFC, borrowed where it already is.
///
/// # Errors
/// `ERR_CORRUPT` for a leading byte order mark.
#[inline]
pub fn nfc(text: &str) -> Result<Cow<'_, str>> {
    if text.is_ascii() {
        return Ok(Cow::Borrowed(text));
    }
    let out = match quick(text) {
        IsNormalized::Yes => Cow::Borrowed(text),
        _ => Cow::Owned(text.nfc().collect()),
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
    match quick(text) {
        IsNormalized::Yes => Ok(()),
        _ if text.nfc().eq(text.chars()) => Ok(()),
        _ => Err(Error::new(Code::Corrupt, "a string is not in Unicode normal form C")),
    }
}

/// Letters of the scripts in daily use that neither change in NFC nor combine: text of these alone
/// is in NFC, and the tables of Unicode need not be asked.
const SETTLED: [(char, char); 11] = [
    ('\u{0}', '\u{2ff}'),
    ('\u{391}', '\u{3c9}'),
    ('\u{400}', '\u{482}'),
    ('\u{5d0}', '\u{5ea}'),
    ('\u{621}', '\u{64a}'),
    ('\u{904}', '\u{939}'),
    ('\u{2010}', '\u{2027}'),
    ('\u{3041}', '\u{3096}'),
    ('\u{30a1}', '\u{30fa}'),
    ('\u{4e00}', '\u{9fff}'),
    ('\u{ac00}', '\u{d7a3}'),
];

#[inline]
fn quick(text: &str) -> IsNormalized {
    let settled =
        |c: char| c <= '\u{2ff}' || SETTLED[1..].iter().any(|(low, high)| (*low..=*high).contains(&c));
    if text.chars().all(settled) { IsNormalized::Yes } else { is_nfc_quick(text.chars()) }
}

#[cold]
fn bom() -> Error {
    Error::new(Code::Corrupt, "a string begins with a byte order mark")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settled_letters_neither_change_nor_combine() {
        use unicode_normalization::char::canonical_combining_class;
        for c in SETTLED.iter().flat_map(|(low, high)| *low..=*high) {
            assert_eq!(is_nfc_quick([c].into_iter()), IsNormalized::Yes, "{c:?}");
            assert_eq!(canonical_combining_class(c), 0, "{c:?}");
        }
    }

    #[test]
    fn composes_and_checks() {
        assert_eq!(nfc("e\u{301}").unwrap(), "é");
        assert_eq!(nfc("\u{212a}").unwrap(), "K");
        assert!(check_nfc("é").is_ok() && check_nfc("e\u{301}").is_err());
        assert_eq!(nfc("\u{feff}x").unwrap_err().code(), Code::Corrupt);
        assert!(nfc("x\u{feff}").is_ok());
    }
}
