// SPDX-License-Identifier: Apache-2.0
//! The indexed paths of a store, and the keys of values under them.

use std::sync::Arc;

use omsgrain_core::indexed_paths::{self as core, IndexedPath};
use omsgrain_core::{Code, Error, Node as _};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::convert::Object;
use crate::error::raise;

/// The indexed paths of a store.
#[pyclass(frozen, module = "omsgrain._core")]
pub struct IndexedPaths(Arc<core::IndexedPaths>);

#[pymethods]
impl IndexedPaths {
    /// Of each path its number, its keys, and the gap in its rows: the sequence numbers after the
    /// first and up to the second have none.
    #[new]
    fn new(paths: Vec<(u8, Vec<String>, u64, u64)>) -> Self {
        let path = |(number, keys, first, last)| IndexedPath { number, keys, gap: (first, last) };
        IndexedPaths(Arc::new(core::IndexedPaths(paths.into_iter().map(path).collect())))
    }
}

/// The paths of an argument; no argument means no paths.
pub fn given(paths: Option<&IndexedPaths>) -> Arc<core::IndexedPaths> {
    paths.map(|paths| Arc::clone(&paths.0)).unwrap_or_default()
}

/// Keys under a path: that of a value, and the first and the last that a value equal to it can have.
pub type ValueKeys<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// The keys of a value under a path, given by its number.
#[pyfunction]
pub fn value_keys<'py>(py: Python<'py>, number: u8, value: Bound<'py, PyAny>) -> PyResult<ValueKeys<'py>> {
    let node = Object(value);
    let keys = node.view().and_then(|view| {
        let wrong = || Error::new(Code::Schema, "no path has such a value");
        let key = core::key(number, &view).ok_or_else(wrong)?;
        let (first, last) = core::bounds(number, &view).ok_or_else(wrong)?;
        Ok((key, first, last))
    });
    let (key, first, last) = keys.map_err(|e| raise(py, &e))?;
    Ok((PyBytes::new(py, &key), PyBytes::new(py, &first), PyBytes::new(py, &last)))
}
