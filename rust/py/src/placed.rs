// SPDX-License-Identifier: Apache-2.0
//! Rows of a store's blobs as blobs with their addresses, and whether these are where they belong.

use omsgrain_core::address::Digest;
use omsgrain_core::index_rows::Place;
use omsgrain_core::placed;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::functions::hex;

/// A blob and its address.
type Stored<'py> = (Bound<'py, PyBytes>, Bound<'py, PyString>);

/// Below this many bytes, releasing the GIL costs more than it gives: others want a page of ten.
const RELEASE_FROM: usize = 32_768;

/// What is behind the first `skip` bytes of each row, and its address.
#[pyfunction]
pub fn stored_blobs<'py>(py: Python<'py>, rows: Vec<Bound<'py, PyBytes>>, skip: usize) -> Vec<Stored<'py>> {
    let views: Vec<&[u8]> = rows.iter().map(|row| row.as_bytes()).collect();
    with_addresses(py, &views, &hashed(py, &views, skip), skip)
}

/// The same; none if one of the blobs does not belong at the place beside it.
#[pyfunction]
pub fn blobs_at<'py>(
    py: Python<'py>,
    rows: Vec<Bound<'py, PyBytes>>,
    places: Vec<Bound<'py, PyBytes>>,
    skip: usize,
) -> Option<Vec<Stored<'py>>> {
    let views: Vec<&[u8]> = rows.iter().map(|row| row.as_bytes()).collect();
    let digests = hashed(py, &views, skip);
    let right = |(place, digest): (&Bound<'_, PyBytes>, &Digest)| {
        Place::try_from(place.as_bytes()).is_ok_and(|place| placed::is_at(&place, digest))
    };
    let all = places.len() == digests.len() && places.iter().zip(&digests).all(right);
    all.then(|| with_addresses(py, &views, &digests, skip))
}

fn hashed(py: Python<'_>, rows: &[&[u8]], skip: usize) -> Vec<Digest> {
    let size: usize = rows.iter().map(|row| row.len()).sum();
    let hash = || placed::addresses(rows, skip);
    if size < RELEASE_FROM { hash() } else { py.detach(hash) }
}

fn with_addresses<'py>(py: Python<'py>, rows: &[&[u8]], digests: &[Digest], skip: usize) -> Vec<Stored<'py>> {
    let blob = |row: &[u8]| PyBytes::new(py, row.get(skip..).unwrap_or_default());
    rows.iter().zip(digests).map(|(row, digest)| (blob(row), hex(py, digest))).collect()
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
