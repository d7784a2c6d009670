// SPDX-License-Identifier: Apache-2.0
//! JSON values as text, to the byte as Python's `json` writes them in ASCII and without spaces.

use std::io::Write as _;

use omsgrain_core::{Node, Result, View};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::borrowed::{Exact, declined};

/// Values deeper inside one another are left to Python.
const DEPTH: usize = 160;

/// The text of a value; None for what is rare: a lone surrogate, a number that is none or has more
/// than 64 bits, what is no JSON.
#[pyfunction]
pub fn spell_json<'py>(py: Python<'py>, value: &Bound<'py, PyAny>) -> Option<Bound<'py, PyBytes>> {
    let mut out = Vec::with_capacity(256);
    write(py, Exact::new(value), DEPTH, &mut out).ok()?;
    Some(PyBytes::new(py, &out))
}

fn write(py: Python<'_>, value: Exact<'_>, depth: usize, out: &mut Vec<u8>) -> Result<()> {
    let inside = || depth.checked_sub(1).ok_or_else(declined);
    match value.view()? {
        View::Null => out.extend_from_slice(b"null"),
        View::Bool(true) => out.extend_from_slice(b"true"),
        View::Bool(false) => out.extend_from_slice(b"false"),
        View::Int(whole) => write!(out, "{whole}").map_err(|_| declined())?,
        View::Float(float) if float.is_finite() => {
            // No code of anybody runs for an exact float.
            let text = value.owned(py).bind(py).repr().map_err(|_| declined())?;
            out.extend_from_slice(text.to_str().map_err(|_| declined())?.as_bytes());
        }
        View::Str(text) => string(text, out),
        View::List => {
            let depth = inside()?;
            let mut sign = b'[';
            value.each_item(&mut |item| {
                out.push(sign);
                sign = b',';
                write(py, item, depth, out)
            })?;
            out.extend_from_slice(if sign == b'[' { b"[]" } else { b"]" });
        }
        View::Map => {
            let depth = inside()?;
            let mut sign = b'{';
            value.each_entry(&mut |key, item| {
                out.push(sign);
                sign = b',';
                string(key.as_ref(), out);
                out.push(b':');
                write(py, item, depth, out)
            })?;
            out.extend_from_slice(if sign == b'{' { b"{}" } else { b"}" });
        }
        _ => return Err(declined()),
    }
    Ok(())
}

fn string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let mut rest = text;
    let special = |byte: u8| !(b' '..=b'~').contains(&byte) || byte == b'"' || byte == b'\\';
    while let Some(at) = rest.bytes().position(special) {
        let (plain, other) = rest.split_at(at);
        out.extend_from_slice(plain.as_bytes());
        let mut letters = other.chars();
        if let Some(letter) = letters.next() {
            escape(letter, out);
        }
        rest = letters.as_str();
    }
    out.extend_from_slice(rest.as_bytes());
    out.push(b'"');
}

fn escape(letter: char, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let short = match letter {
        '"' => b'"',
        '\\' => b'\\',
        '\n' => b'n',
        '\r' => b'r',
        '\t' => b't',
        '\u{8}' => b'b',
        '\u{c}' => b'f',
        _ => {
            for unit in letter.encode_utf16(&mut [0; 2]) {
                out.extend_from_slice(b"\\u");
                out.extend([12, 8, 4, 0].map(|shift| HEX[usize::from(*unit >> shift & 15)]));
            }
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}
