// SPDX-License-Identifier: Apache-2.0
//! Rows of a store's blobs as blobs with their addresses, and whether these are where they belong.

use omsgrain_core::index_rows::Place;
use omsgrain_core::placed;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::functions::hex;

/// Below this many bytes, releasing the GIL costs more than it gives: others want a page of ten.
const RELEASE_FROM: usize = 32_768;

/// What is behind the first `skip` bytes of each row, and its address.
#[pyfunction]
pub fn stored_blobs<'py>(
    py: Python<'py>,
    rows: Vec<Bound<'py, PyBytes>>,
    skip: usize,
) -> Vec<(Bound<'py, PyBytes>, Bound<'py, PyString>)> {
    let views: Vec<&[u8]> = rows.iter().map(|row| row.as_bytes()).collect();
    let size: usize = views.iter().map(|row| row.len()).sum();
    let hash = || placed::addresses(&views, skip);
    let digests = if size < RELEASE_FROM { hash() } else { py.detach(hash) };
    let blob = |row: &[u8]| PyBytes::new(py, row.get(skip..).unwrap_or_default());
    views.iter().zip(&digests).map(|(row, digest)| (blob(row), hex(py, digest))).collect()
}

/// Whether each address belongs at the place beside it.
#[pyfunction]
pub fn all_placed(places: Vec<Bound<'_, PyBytes>>, addresses: Vec<Bound<'_, PyString>>) -> PyResult<bool> {
    for (place, address) in places.iter().zip(&addresses) {
        let Ok(place) = Place::try_from(place.as_bytes()) else { return Ok(false) };
        if !placed::fits(&place, &address.to_cow()?) {
            return Ok(false);
        }
    }
    Ok(true)
}
