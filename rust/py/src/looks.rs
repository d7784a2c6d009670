// SPDX-License-Identifier: Apache-2.0
//! How texts look that are sure to be good. One that looks otherwise may be good as well.

use omsgrain_core::datetime;
use pyo3::prelude::*;

/// How a text looks: by name, or as a beginning and the characters that may stand behind it.
#[derive(FromPyObject)]
pub enum Look {
    Named(String),
    Word(String, String),
}

/// How a text looks that is sure to be good.
pub enum Form {
    Any,
    Uuid,
    Time,
    /// A time with `T`, and with its offset.
    Rfc3339,
    /// Such a time that says that it is in UTC.
    Utc,
    Day,
    /// Letters, digits, `_` and `-`, in parts between slashes.
    Path,
    /// A lower-case letter, then such letters, digits and `-`.
    Kebab,
    /// Two words of letters and digits with a colon between them; the second may have `-`.
    Prefixed,
    /// Three numbers with points between them.
    Version,
    Word(String, Box<[bool; 128]>),
    /// No text is sure to have it.
    Unknown,
}

impl Form {
    /// What was asked for; a name that is not known is sure of no text.
    pub fn of(look: Look) -> Form {
        match look {
            Look::Named(name) => match name.as_str() {
                "uuid" => Form::Uuid,
                "time" => Form::Time,
                "rfc3339" => Form::Rfc3339,
                "utc" => Form::Utc,
                "day" => Form::Day,
                "path" => Form::Path,
                "kebab" => Form::Kebab,
                "prefixed" => Form::Prefixed,
                "version" => Form::Version,
                _ => Form::Unknown,
            },
            Look::Word(head, letters) => {
                let mut set = [false; 128];
                for byte in letters.bytes() {
                    if let Some(one) = set.get_mut(usize::from(byte)) {
                        *one = true;
                    }
                }
                Form::Word(head, Box::new(set))
            }
        }
    }

    /// Whether a text surely looks so.
    pub fn has(&self, text: &str) -> bool {
        match self {
            Form::Any => true,
            Form::Uuid => is_uuid(text.as_bytes()),
            Form::Time => is_time(text),
            Form::Rfc3339 => is_rfc3339(text),
            Form::Utc => is_rfc3339(text) && text.ends_with(['Z', 'z']),
            Form::Day => text.len() == DAY && is_time(&format!("{text}T00:00:00Z")),
            Form::Path => text
                .split('/')
                .all(|part| is_of(part, |c| matches!(c, b'_' | b'-') || c.is_ascii_alphanumeric())),
            Form::Kebab => {
                text.starts_with(|c: char| c.is_ascii_lowercase())
                    && is_of(text, |c| c == b'-' || c.is_ascii_lowercase() || c.is_ascii_digit())
            }
            Form::Prefixed => text.split_once(':').is_some_and(|(prefix, name)| {
                [prefix, name].iter().all(|word| word.starts_with(|c: char| c.is_ascii_alphabetic()))
                    && is_of(prefix, |c| c.is_ascii_alphanumeric())
                    && is_of(name, |c| c == b'-' || c.is_ascii_alphanumeric())
            }),
            Form::Version => {
                text.split('.').count() == 3
                    && text.split('.').all(|part| is_of(part, |c| c.is_ascii_digit()))
            }
            Form::Word(head, set) => text.strip_prefix(head.as_str()).is_some_and(|rest| {
                is_of(rest, |byte| set.get(usize::from(byte)).is_some_and(|known| *known))
            }),
            Form::Unknown => false,
        }
    }
}

fn is_uuid(text: &[u8]) -> bool {
    let fits = |(at, byte): (usize, &u8)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    text.len() == 36 && text.iter().enumerate().all(fits)
}

/// Whether there is something, all of it such bytes.
fn is_of(text: &str, known: impl Fn(u8) -> bool) -> bool {
    !text.is_empty() && text.bytes().all(known)
}

/// Bytes of a day.
const DAY: usize = 10;
/// Bytes of a time whose fraction nobody cuts.
const LONG: usize = 48;

/// Python's calendar has no year 0.
fn is_time(text: &str) -> bool {
    text.len() <= LONG && !text.starts_with("0000") && datetime::parse_rfc3339(text).is_some()
}

fn is_rfc3339(text: &str) -> bool {
    !text.contains(' ') && is_time(text)
}
