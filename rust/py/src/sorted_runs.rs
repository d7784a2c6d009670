// SPDX-License-Identifier: Apache-2.0
//! Sorted runs of blind rows in LMDB.

use omsgrain_core::sorted_runs::{self as core, ENTRY, Entry, FULL};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::raise;
use crate::index::Row;

/// The rows of a run with the entries of some chunks. The key of each is a head and the last entry
/// of its chunk.
#[pyfunction]
pub fn run_rows<'py>(
    py: Python<'py>,
    head: &Bound<'py, PyBytes>,
    chunks: Vec<Bound<'py, PyBytes>>,
) -> PyResult<Vec<Row<'py>>> {
    let chunks: Vec<&[u8]> = chunks.iter().map(|chunk| chunk.as_bytes()).collect();
    let entries = core::merged(&chunks).map_err(|e| raise(py, &e))?;
    Ok(rows(py, head.as_bytes(), &entries))
}

/// The ends of the entries that begin with each prefix, concatenated; of some more than `most`
/// entries only the first ones. The cursor is py-lmdb's. A prefix begins with a group of 8 bytes.
#[pyfunction]
pub fn run_suffixes<'py>(
    py: Python<'py>,
    cursor: &Bound<'py, PyAny>,
    prefixes: Vec<Bound<'py, PyBytes>>,
    most: usize,
) -> PyResult<Vec<Bound<'py, PyBytes>>> {
    let get = |name: &str| cursor.getattr(name);
    let walk = Walk {
        get: get("get")?,
        seek: get("set_range")?,
        next: get("next")?,
        key: get("key")?,
        value: get("value")?,
    };
    prefixes.iter().map(|prefix| walk.suffixes(py, prefix.as_bytes(), most)).collect()
}

/// The methods of a cursor.
struct Walk<'py> {
    get: Bound<'py, PyAny>,
    seek: Bound<'py, PyAny>,
    next: Bound<'py, PyAny>,
    key: Bound<'py, PyAny>,
    value: Bound<'py, PyAny>,
}

/// Bytes of a group, and of what names one of its runs.
const GROUP: usize = 8;
const RUN: usize = 8;

impl<'py> Walk<'py> {
    fn suffixes(&self, py: Python<'py>, prefix: &[u8], most: usize) -> PyResult<Bound<'py, PyBytes>> {
        let short = || PyValueError::new_err("a prefix begins with a group");
        let (group, begin) = prefix.split_at_checked(GROUP).ok_or_else(short)?;
        let runs = self.get.call1((PyBytes::new(py, group),))?;
        let mut ends = Vec::new();
        if !runs.is_none() {
            for run in runs.cast_into::<PyBytes>()?.as_bytes().chunks(RUN) {
                self.of_run(py, &[group, run].concat(), begin, most, &mut ends)?;
            }
        }
        Ok(PyBytes::new(py, &ends))
    }

    fn of_run(
        &self,
        py: Python<'py>,
        head: &[u8],
        begin: &[u8],
        most: usize,
        ends: &mut Vec<u8>,
    ) -> PyResult<()> {
        let size = ENTRY.saturating_sub(begin.len());
        let mut there = self.seek.call1((PyBytes::new(py, &[head, begin].concat()),))?.is_truthy()?;
        while there && ends.len() <= most.saturating_mul(size) {
            let key = self.key.call0()?.cast_into::<PyBytes>()?;
            let Some(last) = key.as_bytes().strip_prefix(head) else { break };
            let value = self.value.call0()?.cast_into::<PyBytes>()?;
            let chunk = value.as_bytes();
            let found = core::under(chunk, begin).map_err(|e| raise(py, &e))?;
            for entry in &chunk.as_chunks::<ENTRY>().0[found] {
                ends.extend_from_slice(&entry[begin.len()..]);
            }
            if !last.starts_with(begin) {
                break;
            }
            there = self.next.call0()?.is_truthy()?;
        }
        Ok(())
    }
}

/// A chunk without some entries, which are in order: the rows in its place, and the entries that it
/// does not have. None instead of the rows if it has none of them.
#[pyfunction]
pub fn run_without<'py>(
    py: Python<'py>,
    head: &Bound<'py, PyBytes>,
    chunk: &Bound<'py, PyBytes>,
    removed: &Bound<'py, PyBytes>,
) -> PyResult<(Option<Vec<Row<'py>>>, Bound<'py, PyBytes>)> {
    let parts = core::whole(removed.as_bytes()).and_then(|removed| core::without(chunk.as_bytes(), removed));
    let (left, missing) = parts.map_err(|e| raise(py, &e))?;
    let left = left.map(|entries| rows(py, head.as_bytes(), &entries));
    Ok((left, PyBytes::new(py, missing.as_flattened())))
}

/// The places that are in all lists, concatenated.
#[pyfunction]
pub fn common_places<'py>(py: Python<'py>, lists: Vec<Bound<'py, PyBytes>>) -> PyResult<Bound<'py, PyBytes>> {
    let lists: Vec<&[u8]> = lists.iter().map(|list| list.as_bytes()).collect();
    let found = core::common(&lists).map_err(|e| raise(py, &e))?;
    Ok(PyBytes::new(py, found.as_flattened()))
}

fn rows<'py>(py: Python<'py>, head: &[u8], entries: &[Entry]) -> Vec<Row<'py>> {
    let chunks = entries.chunks(FULL);
    let row = |chunk: &[Entry]| {
        let last = chunk.last().map_or(&[][..], |entry| entry);
        (PyBytes::new(py, &[head, last].concat()), PyBytes::new(py, chunk.as_flattened()))
    };
    chunks.map(row).collect()
}
