// SPDX-License-Identifier: Apache-2.0
//! Embeddings that came as arrays of numbers.

use omsgrain_core::floats;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFloat, PyList};

/// The bytes of a list of floats, little-endian, and whether they are float32: that is so where
/// each is the shortest text of one, else they are float64. None if it holds anything but floats.
#[pyfunction]
pub fn pack_floats<'py>(values: &Bound<'py, PyList>) -> Option<(Bound<'py, PyBytes>, bool)> {
    let mut wide = Vec::with_capacity(values.len());
    for item in values {
        wide.push(item.cast_exact::<PyFloat>().ok()?.value());
    }
    let narrow = floats::narrowed(&wide);
    let bytes: Vec<u8> = match &narrow {
        Some(narrow) => narrow.iter().flat_map(|value| value.to_le_bytes()).collect(),
        None => wide.iter().flat_map(|value| value.to_le_bytes()).collect(),
    };
    Some((PyBytes::new(values.py(), &bytes), narrow.is_some()))
}

/// The floats of float32 bytes, little-endian: of each what its shortest text says.
#[pyfunction]
pub fn unpack_floats(data: &[u8]) -> Vec<f64> {
    let values = data.chunks_exact(4).filter_map(|four| Some(f32::from_le_bytes(four.try_into().ok()?)));
    floats::widened(values).collect()
}
