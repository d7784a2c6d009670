// SPDX-License-Identifier: Apache-2.0
//! A grain that was read, as a Python dict by full names. The names are made once and shared.

use omsgrain_core::Value;
use omsgrain_core::decode::{Decoded, Item};
use omsgrain_core::registry::{FIELDS, Nested, UNKNOWN};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString};

use crate::wide;

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

/// The full name of a field of the table.
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

/// Any value. Depth is bounded by the reader.
pub fn object<'py>(py: Python<'py>, value: &Value<'_>) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(b) => PyBool::new(py, *b).to_owned().into_any(),
        Value::Int(i) => PyInt::new(py, *i).into_any(),
        Value::UInt(u) => PyInt::new(py, *u).into_any(),
        Value::Float(f) => PyFloat::new(py, *f).into_any(),
        Value::Str(s) => wide::text(py, s.as_bytes())?.into_any(),
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
