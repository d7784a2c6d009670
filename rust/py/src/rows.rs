// SPDX-License-Identifier: Apache-2.0
//! Rows for a table, made as they are asked for: LMDB takes them from an iterator, and tuples that
//! all stand in a list would cost more than writing them.

use std::sync::Arc;

use omsgrain_core::index_rows::Place;
use omsgrain_core::tail::Part;
use omsgrain_core::{Code, Error};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::raise;

/// A key and its value.
pub type Row<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// Index rows in order. It can be walked again.
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
    /// The key that was given last, which the next rows share.
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

/// Rows of blobs, whose sequence numbers follow each other: the first bytes of the address, then
/// the blob.
#[pyclass(module = "omsgrain._core")]
pub struct BlobRows {
    next: u64,
    mark: usize,
    digests: std::vec::IntoIter<Py<PyBytes>>,
    blobs: std::vec::IntoIter<Py<PyBytes>>,
}

/// The rows of the blobs under some addresses, from a sequence number on.
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

/// Rows of addresses and their sequence numbers, sorted.
#[pyfunction]
pub fn address_rows<'py>(
    py: Python<'py>,
    digests: Vec<Bound<'py, PyBytes>>,
    sequences: Vec<u64>,
) -> PyResult<AddressRows> {
    let mut rows = Vec::with_capacity(digests.len());
    for (digest, sequence) in digests.iter().zip(sequences) {
        let wrong = |_| raise(py, &Error::new(Code::HashLength, "a digest has 32 bytes"));
        let digest: [u8; 32] = digest.as_bytes().try_into().map_err(wrong)?;
        rows.push((digest, sequence));
    }
    py.detach(|| rows.sort_unstable());
    Ok(AddressRows(rows.into_iter()))
}

/// A walk over rows of addresses.
#[pyclass(module = "omsgrain._core")]
pub struct AddressRows(std::vec::IntoIter<([u8; 32], u64)>);

#[pymethods]
impl AddressRows {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> Option<Row<'py>> {
        let (digest, sequence) = self.0.next()?;
        Some((PyBytes::new(py, &digest), PyBytes::new(py, &sequence.to_be_bytes())))
    }
}
