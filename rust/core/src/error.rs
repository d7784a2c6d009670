// SPDX-License-Identifier: Apache-2.0
//! One error, with a stable code and the place where it happened.

use alloc::borrow::Cow;
use alloc::{borrow::ToOwned as _, boxed::Box, string::String, string::ToString as _, vec::Vec};
use core::fmt;

/// The result of a fallible function of this crate.
pub type Result<T> = core::result::Result<T, Error>;

macro_rules! codes {
    ($($name:ident = $text:literal),+ $(,)?) => {
        /// The stable codes of the format (Spec: OMS errors) that the core can return.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code { $(#[doc = $text] $name),+ }

        impl Code {
            /// The code as the specification writes it.
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$name => $text),+ }
            }
        }
    };
}

codes! {
    TooShort = "ERR_TOO_SHORT",
    TooLarge = "ERR_TOO_LARGE",
    Version = "ERR_VERSION",
    Corrupt = "ERR_CORRUPT",
    NotMap = "ERR_NOT_MAP",
    NoType = "ERR_NO_TYPE",
    UnknownType = "ERR_UNKNOWN_TYPE",
    Schema = "ERR_SCHEMA",
    Empty = "ERR_EMPTY",
    Range = "ERR_RANGE",
    FloatInvalid = "ERR_FLOAT_INVALID",
    Integrity = "ERR_INTEGRITY",
    HashFormat = "ERR_HASH_FORMAT",
    HashLength = "ERR_HASH_LENGTH",
    SignedMismatch = "ERR_SIGNED_MISMATCH",
    SensitivityMismatch = "ERR_SENSITIVITY_MISMATCH",
    Did = "ERR_DID",
    Key = "ERR_KEY",
    Format = "ERR_FORMAT",
    Unsupported = "ERR_UNSUPPORTED",
}

/// Why fields or bytes are not a valid grain: a stable code, one sentence, and the place.
///
/// It never contains content of the grain: text is shown as its length.
///
/// ```
/// use omsgrain_core::{Options, Value, encode};
///
/// let fields = Value::from([
///     ("type", "belief".into()),
///     ("subject", "dock 4".into()),
///     ("relation", "mg:state_at".into()),
///     ("object", "blocked".into()),
///     ("confidence", 1.5.into()),
///     ("source_type", "sensor".into()),
///     ("created_at", 1_768_471_200_000.into()),
/// ]);
/// let error = encode(&fields, &Options::default()).unwrap_err();
/// assert_eq!(error.code(), "ERR_RANGE");
/// assert_eq!(error.pointer().as_deref(), Some("/confidence"));
/// ```
// Boxed, so that a `Result` stays small on success.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<Detail>);

#[derive(Clone, PartialEq, Eq)]
struct Detail {
    code: Code,
    message: Cow<'static, str>,
    /// Innermost segment first: each caller adds its own segment.
    path: Vec<String>,
    offset: Option<usize>,
    expected: Option<Cow<'static, str>>,
    found: Option<Cow<'static, str>>,
}

impl Error {
    /// An error with a code and one sentence, which must not contain content of the grain.
    #[cold]
    #[doc(hidden)]
    pub fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        let message = message.into();
        let (path, offset, expected, found) = (Vec::new(), None, None, None);
        Error(Box::new(Detail { code, message, path, offset, expected, found }))
    }

    /// Adds the expected value.
    #[must_use]
    #[doc(hidden)]
    pub fn expected(mut self, what: impl Into<Cow<'static, str>>) -> Self {
        self.0.expected = Some(what.into());
        self
    }

    /// Adds the found value: a kind, a size, a number; never personal content.
    #[must_use]
    #[doc(hidden)]
    pub fn found(mut self, what: impl Into<Cow<'static, str>>) -> Self {
        self.0.found = Some(what.into());
        self
    }

    /// Adds the map key around the error. A key that does not look like a name may be personal (an
    /// e-mail address, say) and is shown as "…".
    #[must_use]
    #[doc(hidden)]
    pub fn in_key(mut self, key: &str) -> Self {
        let shown = if is_plain_name(key) { key } else { "…" };
        self.0.path.push(shown.to_owned());
        self
    }

    /// Adds the array position around the error.
    #[must_use]
    #[doc(hidden)]
    pub fn in_index(mut self, index: usize) -> Self {
        self.0.path.push(index.to_string());
        self
    }

    /// Sets the byte offset, unless a deeper place already did.
    #[must_use]
    #[doc(hidden)]
    pub fn at(mut self, offset: usize) -> Self {
        self.0.offset.get_or_insert(offset);
        self
    }

    /// Shifts the byte offset, for errors of a part that was read separately.
    #[must_use]
    #[doc(hidden)]
    pub fn shifted(mut self, by: usize) -> Self {
        self.0.offset = self.0.offset.map(|offset| offset + by);
        self
    }

    /// The stable code, as the specification writes it: `ERR_SCHEMA`.
    pub fn code(&self) -> &'static str {
        self.0.code.as_str()
    }

    #[doc(hidden)]
    pub fn kind(&self) -> Code {
        self.0.code
    }

    /// The sentence, without code and place.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The place in the fields, as a JSON pointer: `/confidence`.
    pub fn pointer(&self) -> Option<String> {
        let path = &self.0.path;
        (!path.is_empty()).then(|| path.iter().rev().fold(String::new(), |all, s| all + "/" + s))
    }

    /// The place in the blob, as a byte offset.
    pub fn offset(&self) -> Option<usize> {
        self.0.offset
    }

    /// The expected value.
    pub fn expectation(&self) -> Option<&str> {
        self.0.expected.as_deref()
    }

    /// The found value: a kind, a size or a number.
    pub fn finding(&self) -> Option<&str> {
        self.0.found.as_deref()
    }
}

/// Whether a key looks like an identifier, so that an error may show it.
fn is_plain_name(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.:$".contains(&b))
}

/// A string as an error may show it: never the content.
pub fn shown(text: &str) -> String {
    format!("a string of {} bytes", text.len())
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code(), self.message())?;
        if let Some(pointer) = self.pointer() {
            write!(f, " (at {pointer})")?;
        }
        if let Some(offset) = self.offset() {
            write!(f, " (byte {offset})")?;
        }
        if let Some(expected) = self.expectation() {
            write!(f, "; expected {expected}")?;
        }
        if let Some(found) = self.finding() {
            write!(f, "; found {found}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for Error {}
