// SPDX-License-Identifier: Apache-2.0
//! Canonical JSON.

use omsgrain_core::jcs;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::raise;

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
