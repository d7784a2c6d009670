// SPDX-License-Identifier: Apache-2.0
//! A Python object as the encoder sees it. References are owned: a `tzinfo` may run Python code
//! while we walk, and that code may change the containers we walk.

use std::borrow::Cow;

use omsgrain_core::{Code, Error, Node, Result, View};
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
        // `Key` is only made of strings whose UTF-8 was asked for before; CPython keeps it.
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
            // Other threads and Python code in a value (a `tzinfo`, an `__index__`) may change it,
            // and then PyO3's walk panics: of another length at once, of other keys at its end.
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
    text.to_str()
        .map(View::Str)
        .map_err(|_| Error::new(Code::Schema, "a string holds a lone surrogate").expected("Unicode text"))
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

/// What is none of the seven common types: subclasses, buffers, times, other mappings.
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
    // numpy's integers and the like.
    match any.call_method0(intern!(py, "__index__")) {
        Ok(whole) => return integer(&whole),
        Err(none) if none.is_instance_of::<PyAttributeError>(py) => {}
        Err(failed) => return Err(unreadable(py, "an integer", failed)),
    }
    let kind = any.get_type().name().map(|name| name.to_string()).unwrap_or_default();
    Err(Error::new(Code::Schema, "a value that a grain cannot hold")
        .expected("a string, number, bool, bytes, list, dict, None, or in a datetime field a datetime")
        .found(format!("a {kind}")))
}

/// Milliseconds of an aware datetime, floored; none for other objects.
fn instant(any: &Bound<'_, PyAny>) -> Result<Option<i64>> {
    let py = any.py();
    let times = times(py).map_err(|e| unreadable(py, "a datetime", e))?;
    if !any.is_instance(times.datetime.bind(py)).unwrap_or(false) {
        return Ok(None);
    }
    let offset = any.call_method0(intern!(py, "utcoffset")).map_err(|e| unreadable(py, "a datetime", e))?;
    if offset.is_none() {
        return Err(Error::new(Code::Schema, "a naive datetime names no point in time")
            .expected("a datetime with a time zone"));
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
