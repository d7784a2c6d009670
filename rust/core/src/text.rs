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
    let out = match is_nfc_quick(text.chars()) {
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
    match is_nfc_quick(text.chars()) {
        IsNormalized::Yes => Ok(()),
        _ if text.nfc().eq(text.chars()) => Ok(()),
        _ => Err(Error::new(Code::Corrupt, "a string is not in Unicode normal form C")),
    }
}

#[cold]
fn bom() -> Error {
    Error::new(Code::Corrupt, "a string begins with a byte order mark")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn composes_and_checks() {
        assert_eq!(nfc("e\u{301}").unwrap(), "é");
        assert_eq!(nfc("\u{212a}").unwrap(), "K");
        assert!(check_nfc("é").is_ok() && check_nfc("e\u{301}").is_err());
        assert_eq!(nfc("\u{feff}x").unwrap_err().code(), Code::Corrupt);
        assert!(nfc("x\u{feff}").is_ok());
    }
}
