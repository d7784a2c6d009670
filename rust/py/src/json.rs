// SPDX-License-Identifier: Apache-2.0
//! Parses JSON into Python objects, if it is unambiguous.

use std::io::Write as _;

use omsgrain_core::json::{JsonValue, jcs};
use omsgrain_core::{Code, Error, Node, View, json};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString};

use crate::error::raise;
use crate::pyref::{Exact, declined};

/// One JSON document, and on request its canonical text, without the key `without` of an object. It
/// refuses what `canonical_json` refuses. For a large document it calls `alive` from time to time
/// and lets other threads run; it ends with the error that `alive` raises.
#[pyfunction]
#[pyo3(signature = (text, depth = 128, canonical = false, without = None, alive = None))]
pub fn parse_json<'py>(
    py: Python<'py>,
    text: &Bound<'py, PyBytes>,
    depth: usize,
    canonical: bool,
    without: Option<&str>,
    alive: Option<Py<PyAny>>,
) -> PyResult<(Bound<'py, PyAny>, Option<Bound<'py, PyBytes>>)> {
    let bytes = text.as_bytes();
    let (alive, mut told) = (alive.as_ref(), None);
    let read = || -> omsgrain_core::Result<_> {
        let value = json::parse(bytes)?;
        let mut ask = || match alive {
            Some(alive) => Python::attach(|py| alive.call0(py)).map(drop).map_err(|error| {
                told = Some(error);
                Error::new(Code::Format, "stopped")
            }),
            None => Ok(()),
        };
        ask()?;
        let written = canonical.then(|| jcs::of_value(&value, without, depth, &mut ask)).transpose()?;
        Ok((value, written))
    };
    let (value, written) = match py.detach(read) {
        Ok(both) => both,
        Err(error) => return Err(told.unwrap_or_else(|| raise(py, &error))),
    };
    let built = {
        let _rest = if bytes.len() >= MANY { Rest::of_collector(py)? } else { None };
        Builder::new(py, alive).object(&value, depth)
    };
    let object = match built {
        Ok(object) => object,
        Err(Stop::Python(error)) => return Err(error),
        Err(Stop::Unclear) => {
            // `value` only finds that something is wrong; this finds what and where.
            let refused = jcs::of_value(&value, without, depth, &mut || Ok(())).err();
            let error = refused.unwrap_or_else(|| Error::new(Code::Format, "the JSON is ambiguous"));
            return Err(raise(py, &error));
        }
    };
    Ok((object, written.map(|text| PyBytes::new(py, &text))))
}

/// The number of values in a document, without keys. The count stops once it exceeds `most`.
#[pyfunction]
pub fn json_values(py: Python<'_>, text: &Bound<'_, PyBytes>, most: usize) -> usize {
    let bytes = text.as_bytes();
    py.detach(|| json::values(bytes, most))
}

/// The first member of an object with one of the names: its name, and its value if that is a
/// string. The text after it is not read. None if the text before it is not JSON.
#[pyfunction]
pub fn json_member(text: &[u8], names: Vec<String>) -> Option<(String, Option<String>)> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    json::member(text, &names).map(|(name, value)| (name.to_owned(), value))
}

/// The members of an object with one of the names, up to the first with one of `until`; each as in
/// `json_member`.
#[pyfunction]
pub fn json_members(text: &[u8], names: Vec<String>, until: Vec<String>) -> Vec<(String, Option<String>)> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let until: Vec<&str> = until.iter().map(String::as_str).collect();
    let found = json::members(text, &names, &until);
    found.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// From this many bytes on, the garbage collector is off while objects are made.
const MANY: usize = 64 << 10;

/// Turns the garbage collector off while it exists. A tree of JSON has no cycles, and searching for
/// cycles takes a third of the time of making the tree. Other threads do without the collector
/// meanwhile.
struct Rest<'py>(Bound<'py, PyModule>);

impl<'py> Rest<'py> {
    /// None if it is already off.
    fn of_collector(py: Python<'py>) -> PyResult<Option<Self>> {
        let gc = py.import("gc")?;
        if !gc.call_method0("isenabled")?.is_truthy()? {
            return Ok(None);
        }
        gc.call_method0("disable")?;
        Ok(Some(Rest(gc)))
    }
}

impl Drop for Rest<'_> {
    fn drop(&mut self) {
        // It takes no argument and cannot fail.
        let _ = self.0.call_method0("enable");
    }
}

/// Why a value could not be built.
enum Stop {
    Unclear,
    Python(PyErr),
}

impl From<PyErr> for Stop {
    fn from(error: PyErr) -> Stop {
        Stop::Python(error)
    }
}

/// Slots for known keys; a document has few different keys, and repeats them.
const KEYS: usize = 256;

/// The number of values between two calls of `alive`, when other threads can run.
const STEP: usize = 1 << 15;

struct Builder<'py, 'v> {
    py: Python<'py>,
    left: usize,
    alive: Option<&'v Py<PyAny>>,
    keys: Vec<Option<(&'v str, Bound<'py, PyString>)>>,
}

impl<'py, 'v> Builder<'py, 'v> {
    fn new(py: Python<'py>, alive: Option<&'v Py<PyAny>>) -> Self {
        Self { py, left: STEP, alive, keys: (0..KEYS).map(|_| None).collect() }
    }

    fn object(&mut self, value: &'v JsonValue<'_>, depth: usize) -> Result<Bound<'py, PyAny>, Stop> {
        let py = self.py;
        self.left -= 1;
        if self.left == 0 {
            self.left = STEP;
            py.detach(|| ());
            if let Some(alive) = self.alive {
                alive.call0(py)?;
            }
        }
        Ok(match value {
            JsonValue::Null => py.None().into_bound(py),
            JsonValue::Bool(truth) => PyBool::new(py, *truth).to_owned().into_any(),
            JsonValue::Int(whole) => PyInt::new(py, *whole).into_any(),
            JsonValue::BigInt(big) => {
                let text = big.to_string();
                if !text.parse::<f64>().is_ok_and(f64::is_finite) {
                    return Err(Stop::Unclear);
                }
                py.get_type::<PyInt>().call1((text,))?
            }
            JsonValue::Float(float) if float.is_finite() => PyFloat::new(py, *float).into_any(),
            JsonValue::Float(_) => return Err(Stop::Unclear),
            JsonValue::Str(text) => PyString::new(py, text).into_any(),
            JsonValue::Array(items) => {
                let depth = depth.checked_sub(1).ok_or(Stop::Unclear)?;
                let mut built = Vec::with_capacity(items.len());
                for item in items.iter() {
                    built.push(self.object(item, depth)?);
                }
                PyList::new(py, built)?.into_any()
            }
            JsonValue::Object(entries) => {
                let depth = depth.checked_sub(1).ok_or(Stop::Unclear)?;
                let dict = PyDict::new(py);
                for (key, value) in entries.iter() {
                    let value = self.object(value, depth)?;
                    dict.set_item(self.key(key), value)?;
                }
                if dict.len() < entries.len() {
                    return Err(Stop::Unclear); // a repeated key
                }
                dict.into_any()
            }
        })
    }

    fn key(&mut self, key: &'v str) -> Bound<'py, PyString> {
        let py = self.py;
        let (Some(first), Some(last)) = (key.bytes().next(), key.bytes().next_back()) else {
            return PyString::new(py, key);
        };
        let mixed = key.len().wrapping_mul(31) ^ (usize::from(first) << 3) ^ usize::from(last);
        match &mut self.keys[mixed % KEYS] {
            Some((known, object)) if *known == key => object.clone(),
            place => {
                let object = PyString::new(py, key);
                *place = Some((key, object.clone()));
                object
            }
        }
    }
}

// Canonical JSON.

/// The canonical text of a JSON document; of an object without the key `without`.
#[pyfunction]
#[pyo3(signature = (text, without = None, depth = 128))]
pub fn canonical_json<'py>(
    py: Python<'py>,
    text: &Bound<'py, PyBytes>,
    without: Option<&str>,
    depth: usize,
) -> PyResult<Bound<'py, PyBytes>> {
    let bytes = text.as_bytes();
    let written = py.detach(|| jcs::canonical(bytes, without, depth)).map_err(|e| raise(py, &e))?;
    Ok(PyBytes::new(py, &written))
}

// JSON values as text, byte for byte as Python's `json` writes them in ASCII and without spaces.

/// Python handles deeper values.
const DEPTH: usize = 160;

/// The text of a value. None for rare values: a lone surrogate, a number that is not finite or has
/// more than 64 bits, a value that is not JSON.
#[pyfunction]
pub fn spell_json<'py>(py: Python<'py>, value: &Bound<'py, PyAny>) -> Option<Bound<'py, PyBytes>> {
    let mut out = Vec::with_capacity(256);
    write(py, Exact::new(value), DEPTH, &mut out).ok()?;
    Some(PyBytes::new(py, &out))
}

fn write(py: Python<'_>, value: Exact<'_>, depth: usize, out: &mut Vec<u8>) -> Result<(), Error> {
    let inside = || depth.checked_sub(1).ok_or_else(declined);
    match value.view()? {
        View::Null => out.extend_from_slice(b"null"),
        View::Bool(true) => out.extend_from_slice(b"true"),
        View::Bool(false) => out.extend_from_slice(b"false"),
        View::Int(whole) => write!(out, "{whole}").map_err(|_| declined())?,
        View::Float(float) if float.is_finite() => {
            // An exact float runs no Python code.
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
