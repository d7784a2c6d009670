// SPDX-License-Identifier: Apache-2.0
//! A Python object as a source for the encoder. References are owned: a `tzinfo` may run Python
//! code during the walk, and that code may change the containers.

use std::borrow::Cow;

use omsgrain_core::decode::{Decoded, Item};
use omsgrain_core::registry::{FIELDS, Nested, UNKNOWN};
use omsgrain_core::{Code, Error, Node, Result, Value, View};
use pyo3::exceptions::PyAttributeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMapping, PyMemoryView, PyString, PyTuple,
};

use crate::error::unreadable;

/// Any object.
pub struct Object<'py>(pub Bound<'py, PyAny>);

/// A map key that is known to be text.
pub struct Key<'py>(Bound<'py, PyString>);

impl AsRef<str> for Key<'_> {
    #[inline]
    fn as_ref(&self) -> &str {
        // `Key` is made only from strings whose UTF-8 was read before; CPython keeps it.
        self.0.to_str().unwrap_or_default()
    }
}

impl<'py> Node for Object<'py> {
    type Key = Key<'py>;

    fn view(&self) -> Result<View<'_>> {
        let any = &self.0;
        if let Ok(text) = any.cast_exact::<PyString>() {
            return string(text);
        }
        if let Ok(float) = any.cast_exact::<PyFloat>() {
            return Ok(View::Float(float.value()));
        }
        if any.cast_exact::<PyInt>().is_ok() {
            return integer(any);
        }
        if any.cast_exact::<PyDict>().is_ok() {
            return Ok(View::Map);
        }
        if any.cast_exact::<PyList>().is_ok() {
            return Ok(View::List);
        }
        if let Ok(flag) = any.cast_exact::<PyBool>() {
            return Ok(View::Bool(flag.is_true()));
        }
        if any.is_none() {
            return Ok(View::Null);
        }
        rare(any)
    }

    #[inline]
    fn is_null(&self) -> bool {
        self.0.is_none()
    }

    fn list_len(&self) -> usize {
        match self.0.cast::<PyList>() {
            Ok(list) => list.len(),
            Err(_) => self.0.cast::<PyTuple>().map_or(0, |tuple| tuple.len()),
        }
    }

    fn each_item(&self, visit: &mut dyn FnMut(Self) -> Result<()>) -> Result<()> {
        if let Ok(list) = self.0.cast::<PyList>() {
            list.iter().try_for_each(|item| visit(Object(item)))
        } else if let Ok(tuple) = self.0.cast::<PyTuple>() {
            tuple.iter().try_for_each(|item| visit(Object(item)))
        } else {
            Ok(())
        }
    }

    fn each_entry(&self, visit: &mut dyn FnMut(Self::Key, Self) -> Result<()>) -> Result<()> {
        let py = self.0.py();
        let copy;
        let dict = match (self.0.cast::<PyDict>(), self.0.cast::<PyMapping>()) {
            (Ok(dict), _) => dict,
            (_, Ok(mapping)) => {
                copy = PyDict::new(py);
                copy.update(mapping).map_err(|e| unreadable(py, "a mapping", e))?;
                &copy
            }
            _ => return Ok(()),
        };
        let (before, mut walk) = (dict.len(), dict.iter());
        for _ in 0..before {
            let Some((key, value)) = walk.next() else { return Err(changed()) };
            let Ok(key) = key.cast_into::<PyString>() else {
                return Err(Error::new(Code::Schema, "a map key is not a string"));
            };
            string(&key)?;
            visit(Key(key), Object(value))?;
            // Other threads, and Python code in a value (a `tzinfo`, an `__index__`), may change
            // the map. PyO3's walk then panics: at once if its length changed, at its end if its
            // keys did.
            if dict.len() != before {
                return Err(changed());
            }
        }
        if walk.next().is_some() { Err(changed()) } else { Ok(()) }
    }
}

#[cold]
fn changed() -> Error {
    Error::new(Code::Schema, "a map changed while it was read")
}

#[inline]
fn string<'a>(text: &'a Bound<'_, PyString>) -> Result<View<'a>> {
    text.to_str().map(View::Str).map_err(|_| {
        Error::new(Code::Schema, "the string contains a lone surrogate").expected("Unicode text")
    })
}

#[inline]
fn integer<'a>(any: &Bound<'_, PyAny>) -> Result<View<'a>> {
    match any.extract::<i64>() {
        Ok(i) => Ok(View::Int(i)),
        Err(_) => any
            .extract::<u64>()
            .map(View::UInt)
            .map_err(|_| Error::new(Code::Range, "an integer out of range").expected("-2^63..2^64-1")),
    }
}

/// Other objects than the seven common types: subclasses, buffers, times, other mappings.
#[cold]
fn rare<'a>(any: &'a Bound<'_, PyAny>) -> Result<View<'a>> {
    let py = any.py();
    if let Ok(text) = any.cast::<PyString>() {
        return string(text);
    }
    if any.is_instance_of::<PyInt>() {
        return integer(any);
    }
    if let Ok(float) = any.cast::<PyFloat>() {
        return Ok(View::Float(float.value()));
    }
    if let Ok(bytes) = any.cast::<PyBytes>() {
        return Ok(View::Bytes(Cow::Borrowed(bytes.as_bytes())));
    }
    if let Ok(bytes) = any.cast::<PyByteArray>() {
        return Ok(View::Bytes(Cow::Owned(bytes.to_vec())));
    }
    if any.is_instance_of::<PyMemoryView>() {
        let copy = any.call_method0(intern!(py, "tobytes")).and_then(|copy| copy.extract::<Vec<u8>>());
        return copy.map(|b| View::Bytes(Cow::Owned(b))).map_err(|e| unreadable(py, "a memoryview", e));
    }
    if any.is_instance_of::<PyList>() || any.is_instance_of::<PyTuple>() {
        return Ok(View::List);
    }
    if let Some(ms) = instant(any)? {
        return Ok(View::Instant(ms));
    }
    if any.is_instance_of::<PyDict>() || any.cast::<PyMapping>().is_ok() {
        return Ok(View::Map);
    }
    // numpy's integers, for example.
    match any.call_method0(intern!(py, "__index__")) {
        Ok(whole) => return integer(&whole),
        Err(none) if none.is_instance_of::<PyAttributeError>(py) => {}
        Err(failed) => return Err(unreadable(py, "an integer", failed)),
    }
    let kind = any.get_type().name().map(|name| name.to_string()).unwrap_or_default();
    Err(Error::new(Code::Schema, "a grain cannot contain this value")
        .expected("a string, number, bool, bytes, list, dict, None, or in a datetime field a datetime")
        .found(format!("a {kind}")))
}

/// Milliseconds of an aware datetime, floored; None for other objects.
fn instant(any: &Bound<'_, PyAny>) -> Result<Option<i64>> {
    let py = any.py();
    let times = times(py).map_err(|e| unreadable(py, "a datetime", e))?;
    if !any.is_instance(times.datetime.bind(py)).unwrap_or(false) {
        return Ok(None);
    }
    let offset = any.call_method0(intern!(py, "utcoffset")).map_err(|e| unreadable(py, "a datetime", e))?;
    if offset.is_none() {
        return Err(
            Error::new(Code::Schema, "the datetime has no time zone").expected("a datetime with a time zone")
        );
    }
    let floored = any
        .sub(times.epoch.bind(py))
        .and_then(|since| since.floor_div(times.millisecond.bind(py)))
        .and_then(|ms| ms.extract::<i64>());
    floored.map(Some).map_err(|e| unreadable(py, "a datetime", e))
}

struct Times {
    datetime: Py<PyAny>,
    epoch: Py<PyAny>,
    millisecond: Py<PyAny>,
}

fn times(py: Python<'_>) -> PyResult<&Times> {
    static TIMES: PyOnceLock<Times> = PyOnceLock::new();
    TIMES.get_or_try_init(py, || {
        let module = py.import("datetime")?;
        let datetime = module.getattr("datetime")?;
        let utc = module.getattr("timezone")?.getattr("utc")?;
        let epoch = datetime.call_method1("fromtimestamp", (0, utc))?;
        let millisecond = module.getattr("timedelta")?.call1((0, 0, 1000))?;
        Ok(Times { datetime: datetime.unbind(), epoch: epoch.unbind(), millisecond: millisecond.unbind() })
    })
}

// A decoded grain as a Python dict by full names. The names are made once and shared.

/// The fields of a grain.
pub fn fields<'py>(py: Python<'py>, decoded: &Decoded<'_>) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for item in &decoded.items {
        let value = match (&item.value, item.field().and_then(|f| f.nested)) {
            (Value::Bool(b), _) if item.negate => PyBool::new(py, !b).to_owned().into_any(),
            (Value::List(entries), Some(table)) => {
                let entries = entries.iter().map(|entry| nested(py, entry, table));
                PyList::new(py, entries.collect::<PyResult<Vec<_>>>()?)?.into_any()
            }
            (value, _) => object(py, value)?,
        };
        dict.set_item(name(py, item), value)?;
    }
    Ok(dict)
}

fn name<'py>(py: Python<'py>, item: &Item<'_>) -> Bound<'py, PyString> {
    if item.id == UNKNOWN { PyString::new(py, item.key) } else { known_name(py, item.id) }
}

/// The full name of a field in the table.
pub fn known_name(py: Python<'_>, id: u8) -> Bound<'_, PyString> {
    static NAMES: PyOnceLock<Vec<Py<PyString>>> = PyOnceLock::new();
    let names =
        NAMES.get_or_init(py, || FIELDS.iter().map(|f| PyString::intern(py, f.name).unbind()).collect());
    names[usize::from(id)].bind(py).clone()
}

fn nested<'py>(py: Python<'py>, entry: &Value<'_>, table: &'static Nested) -> PyResult<Bound<'py, PyAny>> {
    let Value::Map(entries) = entry else { return object(py, entry) };
    let dict = PyDict::new(py);
    for (key, value) in entries {
        let key = table.by_short(key).map_or(key.as_ref(), |f| f.name);
        dict.set_item(key, object(py, value)?)?;
    }
    Ok(dict.into_any())
}

/// Any value. The reader bounds its depth.
pub fn object<'py>(py: Python<'py>, value: &Value<'_>) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(b) => PyBool::new(py, *b).to_owned().into_any(),
        Value::Int(i) => PyInt::new(py, *i).into_any(),
        Value::UInt(u) => PyInt::new(py, *u).into_any(),
        Value::Float(f) => PyFloat::new(py, *f).into_any(),
        Value::Str(s) => text(py, s.as_bytes())?.into_any(),
        Value::Bytes(b) => PyBytes::new(py, b).into_any(),
        Value::List(items) => {
            let items: Vec<_> = items.iter().map(|item| object(py, item)).collect::<PyResult<_>>()?;
            PyList::new(py, items)?.into_any()
        }
        Value::Map(entries) => {
            let dict = PyDict::new(py);
            for (key, value) in entries {
                dict.set_item(key, object(py, value)?)?;
            }
            dict.into_any()
        }
    })
}

// Long texts of all scripts as Python strings. CPython reads UTF-16 in a third of the time of
// UTF-8, so they are converted to UTF-16 first.

/// For shorter texts, the conversion costs more than it gains.
pub const LONG: usize = 96;

/// The text of these checked bytes.
pub fn text<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyString>> {
    if is_long(bytes) { from_utf16(py, &utf16(bytes)) } else { PyString::from_bytes(py, bytes) }
}

/// U+FFFE, a byte order mark in the other order.
const SWAPPED: &[u8] = "\u{fffe}".as_bytes();

/// Whether UTF-16 is the faster way.
pub fn is_long(bytes: &[u8]) -> bool {
    bytes.len() >= LONG && !bytes.is_ascii() && !bytes.starts_with(SWAPPED)
}

/// The text of these units in the machine's byte order: Python reads "utf-16" so if there is no
/// byte order mark. No text of a grain begins with one, and [`is_long`] excludes the reversed one.
pub fn from_utf16<'py>(py: Python<'py>, units: &[u8]) -> PyResult<Bound<'py, PyString>> {
    PyString::from_encoded_object(&PyBytes::new(py, units), Some(c"utf-16"), None)
}

/// The number of bytes in one step.
const BLOCK: usize = 64;

/// Computes for each byte the unit of a letter that ends there, and then keeps those that end one.
/// It has no branch for each letter, since lengths are hard to predict in short words. So it takes
/// a third of the time of a loop over letters.
pub fn utf16(utf8: &[u8]) -> Vec<u8> {
    // A letter has at least as many bytes as it has units.
    let mut out = Vec::with_capacity(2 * utf8.len());
    for start in (0..utf8.len()).step_by(BLOCK) {
        // Three bytes before the block and one after it.
        let mut around = [0; BLOCK + 4];
        let (from, to) = (start.saturating_sub(3), utf8.len().min(start + BLOCK + 1));
        let ahead = from + 3 - start;
        around[ahead..ahead + to - from].copy_from_slice(&utf8[from..to]);
        let (mut units, mut kept) = ([0; BLOCK], [0; BLOCK]);
        for i in 0..BLOCK {
            units[i] = unit(around[i + 1].into(), around[i + 2].into(), around[i + 3].into());
            kept[i] = u8::from(around[i + 4] & 0xc0 != 0x80) | u8::from(around[i + 1] >= 0xf0);
        }
        let (mut packed, mut count) = ([[0; 2]; BLOCK], 0usize);
        for i in 0..BLOCK.min(utf8.len() - start) {
            // The next unit overwrites one that is not kept.
            packed[count % BLOCK] = units[i].to_ne_bytes();
            count = count.wrapping_add(usize::from(kept[i]));
        }
        out.extend_from_slice(packed[..count].as_flattened());
    }
    out
}

/// The unit that ends with the last of these three bytes. A letter of four bytes has two units; the
/// first ends with its third byte.
#[inline(always)]
fn unit(b: u16, c: u16, d: u16) -> u16 {
    let (mid, low) = ((c & 63) << 6, d & 63);
    let first = (0xd800 - 0x40) + ((b & 7) << 8 | (c & 63) << 2 | (d >> 4 & 3));
    let second = 0xdc00 | (mid & 0x3c0) | low;
    let three = b << 12 | mid | low;
    let long = if b >= 0xf0 { first } else { three };
    let long = if b >= 0xe0 { long } else { second };
    let two = (c & 31) << 6 | low;
    let more = if c >= 0xc0 { two } else { long };
    if d < 0x80 { d } else { more }
}
