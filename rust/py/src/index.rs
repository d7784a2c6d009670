// SPDX-License-Identifier: Apache-2.0
//! Rows for a table, made on demand: LMDB reads them from an iterator, and a list of tuples would
//! cost more than writing them.

use std::sync::Arc;

use omsgrain_core::address::Digest;
use omsgrain_core::batch;
use omsgrain_core::index_rows::Place;
use omsgrain_core::memtable::Part;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::functions::hex;

/// A key and its value.
pub type Row<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// Sorted index rows. They can be walked several times.
#[pyclass(frozen, module = "omsgrain._core")]
pub struct Rows(Arc<Part>);

impl Rows {
    pub fn of_part(part: Part) -> Self {
        Rows(Arc::new(part))
    }
}

#[pymethods]
impl Rows {
    fn __iter__(&self) -> RowsIterator {
        RowsIterator { part: Arc::clone(&self.0), at: 0, key: 0, made: None }
    }
}

/// A walk over index rows.
#[pyclass(module = "omsgrain._core")]
pub struct RowsIterator {
    part: Arc<Part>,
    at: usize,
    key: usize,
    /// The last returned key, which the next rows share.
    made: Option<Py<PyBytes>>,
}

#[pymethods]
impl RowsIterator {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> Option<Row<'py>> {
        let place: &Place = self.part.places.get(self.at)?;
        while self.part.keys.get(self.key)?.1 <= self.at {
            self.key += 1;
            self.made = None;
        }
        self.at += 1;
        let value = PyBytes::new(py, place);
        if let Some(key) = &self.made {
            return Some((key.bind(py).clone(), value));
        }
        let key = PyBytes::new(py, &self.part.keys.get(self.key)?.0);
        self.made = Some(key.clone().unbind());
        Some((key, value))
    }
}

/// Rows of blobs with consecutive sequence numbers: the first bytes of the address, then the blob.
#[pyclass(module = "omsgrain._core")]
pub struct BlobRows {
    next: u64,
    mark: usize,
    digests: std::vec::IntoIter<Py<PyBytes>>,
    blobs: std::vec::IntoIter<Py<PyBytes>>,
}

/// The rows of the blobs of some addresses, from a sequence number on.
#[pyfunction]
pub fn blob_rows(first: u64, digests: Vec<Py<PyBytes>>, blobs: Vec<Py<PyBytes>>, mark: usize) -> BlobRows {
    BlobRows { next: first, mark, digests: digests.into_iter(), blobs: blobs.into_iter() }
}

#[pymethods]
impl BlobRows {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Row<'py>>> {
        let (Some(digest), Some(blob)) = (self.digests.next(), self.blobs.next()) else { return Ok(None) };
        let (digest, blob) = (digest.as_bytes(py), blob.as_bytes(py));
        let mark = &digest[..self.mark.min(digest.len())];
        let row = PyBytes::new_with(py, mark.len() + blob.len(), |out| {
            out[..mark.len()].copy_from_slice(mark);
            out[mark.len()..].copy_from_slice(blob);
            Ok(())
        })?;
        let key = PyBytes::new(py, &self.next.to_be_bytes());
        self.next += 1;
        Ok(Some((key, row)))
    }
}

// Stored rows as blobs with their addresses, and whether the addresses match the rows.

/// A blob and its address.
pub type Stored<'py> = (Bound<'py, PyBytes>, Bound<'py, PyString>);

/// Below this many bytes, releasing the GIL costs more than it gains, also for a page of ten.
const RELEASE_FROM: usize = 32_768;

/// The bytes after the first `skip` bytes of each row, and their address.
#[pyfunction]
pub fn stored_blobs<'py>(py: Python<'py>, rows: Vec<Bound<'py, PyBytes>>, skip: usize) -> Vec<Stored<'py>> {
    let views: Vec<&[u8]> = rows.iter().map(|row| row.as_bytes()).collect();
    with_addresses(py, &views, &hashed(py, &views, skip), skip)
}

/// The same; None if a blob does not match its place or its digest.
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
        let bytes = place.as_bytes();
        bytes == digest || Place::try_from(bytes).is_ok_and(|place| batch::is_at(&place, digest))
    };
    let all = places.len() == digests.len() && places.iter().zip(&digests).all(right);
    all.then(|| with_addresses(py, &views, &digests, skip))
}

/// The digests of rows without their first `skip` bytes.
pub fn hashed(py: Python<'_>, rows: &[&[u8]], skip: usize) -> Vec<Digest> {
    let size: usize = rows.iter().map(|row| row.len()).sum();
    let hash = || batch::addresses(rows, skip);
    if size < RELEASE_FROM { hash() } else { py.detach(hash) }
}

/// Rows without their first `skip` bytes, with their addresses.
pub fn with_addresses<'py>(
    py: Python<'py>,
    rows: &[&[u8]],
    digests: &[Digest],
    skip: usize,
) -> Vec<Stored<'py>> {
    let blob = |row: &[u8]| PyBytes::new(py, row.get(skip..).unwrap_or_default());
    rows.iter().zip(digests).map(|(row, digest)| (blob(row), hex(py, digest))).collect()
}

/// Whether each address matches its place.
#[pyfunction]
pub fn all_placed(places: Vec<Bound<'_, PyBytes>>, addresses: Vec<Bound<'_, PyString>>) -> PyResult<bool> {
    for (place, address) in places.iter().zip(&addresses) {
        let Ok(place) = Place::try_from(place.as_bytes()) else { return Ok(false) };
        if !batch::fits(&place, &address.to_cow()?) {
            return Ok(false);
        }
    }
    Ok(true)
}
