// SPDX-License-Identifier: Apache-2.0
//! A check of a store's file: its pages, and the rows of its index tables.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use omsgrain_core::address::Digest;
use omsgrain_core::indexed_paths::IndexedPaths as Paths;
use omsgrain_core::pages::{self, Expected, Source, Sum};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PySlice};

use crate::error::raise;
use crate::indexed_paths::{IndexedPaths, given};
use crate::memtable::whole;

/// The number of a table's rows, and their sum.
type Rows<'py> = (u64, Bound<'py, PyBytes>);

/// A table's name, flags and rows.
type Table<'py> = (Bound<'py, PyBytes>, u16, Rows<'py>);

/// A file as Python has it: a map of it.
struct Mapped<'a, 'py>(&'a Bound<'py, PyAny>);

impl Source for Mapped<'_, '_> {
    fn read(&mut self, at: u64, size: usize) -> Vec<u8> {
        let (Ok(start), Ok(size)) = (isize::try_from(at), isize::try_from(size)) else { return Vec::new() };
        let slice = PySlice::new(self.0.py(), start, start.saturating_add(size), 1);
        let piece = self.0.get_item(slice);
        piece
            .ok()
            .and_then(|piece| Some(piece.cast::<PyBytes>().ok()?.as_bytes().to_vec()))
            .unwrap_or_default()
    }

    fn size(&mut self) -> u64 {
        self.0.len().map_or(0, |size| size as u64)
    }
}

/// Walks the pages of a commit. Returns what does not fit, or None; and each table's name, flags,
/// and rows, with their sum if it is in `summed`.
#[pyfunction]
pub fn walk_pages<'py>(
    data: Bound<'py, PyAny>,
    page_size: usize,
    last: u64,
    trees: (Vec<u8>, Vec<u8>),
    summed: Vec<Vec<u8>>,
) -> (Option<String>, Vec<Table<'py>>) {
    let py = data.py();
    match pages::walk(&mut Mapped(&data), page_size, last, (&trees.0, &trees.1), &summed) {
        Ok(tables) => {
            let tables =
                tables.iter().map(|one| (PyBytes::new(py, &one.name), one.flags, spelt(py, &one.sum)));
            (None, tables.collect())
        }
        Err(broken) => (Some(broken), Vec::new()),
    }
}

/// How many pages of a tree of free pages have at least some number; None if it is damaged.
#[pyfunction]
pub fn free_pages(
    data: Bound<'_, PyAny>,
    page_size: usize,
    last: u64,
    free: Vec<u8>,
    first: u64,
) -> Option<usize> {
    pages::free_pages(&mut Mapped(&data), page_size, last, &free, first).ok()
}

fn spelt<'py>(py: Python<'py>, sum: &Sum) -> Rows<'py> {
    (sum.rows, PyBytes::new(py, &sum.sum.to_be_bytes()))
}

/// The expected rows of the index tables of a store.
#[pyclass(module = "omsgrain._core", frozen)]
pub struct RowSums(Mutex<Expected>, Arc<Paths>);

#[pymethods]
impl RowSums {
    #[new]
    #[pyo3(signature = (paths = None))]
    fn new(paths: Option<&IndexedPaths>) -> Self {
        RowSums(Mutex::default(), given(paths))
    }

    /// Adds grains with their sequence numbers; `past` has those of past grains.
    fn add(
        &self,
        py: Python<'_>,
        sequences: Vec<u64>,
        blobs: Vec<Bound<'_, PyBytes>>,
        digests: Vec<Bound<'_, PyBytes>>,
        past: HashSet<u64>,
    ) -> PyResult<()> {
        let digests = digests.iter().map(|digest| whole(py, digest)).collect::<PyResult<Vec<&Digest>>>()?;
        let grains: Vec<(u64, &Digest, &[u8], bool)> = sequences
            .into_iter()
            .zip(digests)
            .zip(&blobs)
            .map(|((sequence, digest), blob)| (sequence, digest, blob.as_bytes(), past.contains(&sequence)))
            .collect();
        py.detach(|| self.0.lock().unwrap_or_else(PoisonError::into_inner).add(&grains, &self.1))
            .map_err(|e| raise(py, &e))
    }

    /// The rows of addresses, of terms, and of past terms.
    fn sums<'py>(&self, py: Python<'py>) -> (Rows<'py>, Rows<'py>, Rows<'py>) {
        let sums = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (spelt(py, &sums.addresses), spelt(py, &sums.current), spelt(py, &sums.past))
    }
}
