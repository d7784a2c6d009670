// SPDX-License-Identifier: Apache-2.0
//! Counts how often grains are read, until a commit writes the counts.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use omsgrain_core::address::{self, Digest};
use omsgrain_core::{Code, Error};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};

use crate::error::raise;

/// Reads of one grain, and the time of the last in ms since 1970.
#[derive(Clone, Copy, Default)]
struct Count {
    reads: u64,
    last: u64,
}

impl Count {
    fn add(&mut self, more: Count) {
        self.reads = self.reads.saturating_add(more.reads);
        self.last = self.last.max(more.last);
    }
}

#[derive(Default)]
struct State {
    counts: HashMap<Digest, Count>,
    /// The counts that a commit is writing, sorted.
    writing: Vec<(Digest, Count)>,
}

/// How often and when last grains were read since the last write of the counts. Any thread may use
/// it.
#[pyclass(frozen, module = "omsgrain._core")]
pub struct ReadCounts {
    most: usize,
    state: Mutex<State>,
}

/// The length of a row: the reads and the time, each a u64.
const ROW: usize = 16;

#[pymethods]
impl ReadCounts {
    #[new]
    fn new(most: usize) -> Self {
        ReadCounts { most, state: Mutex::default() }
    }

    /// Counts a read of each digest or address at a time; now, without a time. True once enough
    /// counts wait to be written.
    #[pyo3(signature = (read, when = None))]
    fn count(&self, py: Python<'_>, read: &Bound<'_, PyAny>, when: Option<i64>) -> PyResult<bool> {
        let digests = read.try_iter()?.map(|one| digest_of(py, &one?)).collect::<PyResult<Vec<_>>>()?;
        Ok(self.add(&digests, when))
    }

    /// Whether enough counts wait to be written.
    #[getter]
    fn full(&self) -> bool {
        self.lock().counts.len() >= self.most
    }

    /// How often and when last a grain was read; only counts that are not yet written.
    fn of(&self, py: Python<'_>, digest: &Bound<'_, PyAny>) -> PyResult<(u64, u64)> {
        let digest = digest_of(py, digest)?;
        let state = self.lock();
        let mut count = state.counts.get(&digest).copied().unwrap_or_default();
        if let Ok(at) = state.writing.binary_search_by_key(&digest, |(digest, _)| *digest) {
            count.add(state.writing[at].1);
        }
        Ok((count.reads, count.last))
    }

    /// Stages the pending counts. False if there are none, or a write is in progress.
    fn take(&self) -> bool {
        let mut state = self.lock();
        if !state.writing.is_empty() {
            return false;
        }
        state.writing = state.counts.drain().collect();
        state.writing.sort_unstable_by_key(|(digest, _)| *digest);
        !state.writing.is_empty()
    }

    /// The grains whose counts are being written, sorted.
    fn digests<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let digests: Vec<Digest> = self.lock().writing.iter().map(|(digest, _)| *digest).collect();
        PyList::new(py, digests.iter().map(|digest| PyBytes::new(py, digest)))
    }

    /// The sorted keys of their rows, given the number of each grain. A grain without a number was
    /// deleted.
    fn keys<'py>(&self, py: Python<'py>, numbers: Vec<Option<u64>>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.totals(&numbers).keys().map(|number| PyBytes::new(py, &number.to_be_bytes())))
    }

    /// Their rows, added to the existing ones. It skips a damaged row, which `check` reports.
    fn rows<'py>(
        &self,
        py: Python<'py>,
        numbers: Vec<Option<u64>>,
        there: &Bound<'py, PyDict>,
    ) -> PyResult<Vec<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)>> {
        let mut rows = Vec::new();
        for (number, mut count) in self.totals(&numbers) {
            let key = PyBytes::new(py, &number.to_be_bytes());
            if let Some(row) = there.get_item(&key)? {
                let Ok(row) = <[u8; ROW]>::try_from(row.cast::<PyBytes>()?.as_bytes()) else { continue };
                let ([reads, last], _) = row.as_chunks() else { continue };
                count.add(Count { reads: u64::from_be_bytes(*reads), last: u64::from_be_bytes(*last) });
            }
            let row = [count.reads.to_be_bytes(), count.last.to_be_bytes()];
            rows.push((key, PyBytes::new(py, row.as_flattened())));
        }
        Ok(rows)
    }

    /// Drops the staged counts if they were written; otherwise adds them to the pending ones.
    fn written(&self, done: bool) {
        let mut state = self.lock();
        let writing = std::mem::take(&mut state.writing);
        if !done {
            for (digest, count) in writing {
                state.counts.entry(digest).or_default().add(count);
            }
        }
    }
}

impl ReadCounts {
    /// As `count`.
    pub fn add(&self, digests: &[Digest], when: Option<i64>) -> bool {
        let when = when.map_or_else(now, |when| u64::try_from(when).unwrap_or(0));
        let once = Count { reads: 1, last: when };
        let mut state = self.lock();
        for digest in digests {
            state.counts.entry(*digest).or_default().add(once);
        }
        state.counts.len() >= self.most
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The staged counts by grain number: a sealed grain may have been read by two addresses.
    fn totals(&self, numbers: &[Option<u64>]) -> BTreeMap<u64, Count> {
        let mut totals: BTreeMap<u64, Count> = BTreeMap::new();
        for ((_, count), number) in self.lock().writing.iter().zip(numbers) {
            if let Some(number) = number {
                totals.entry(*number).or_default().add(*count);
            }
        }
        totals
    }
}

/// Ms since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// The digest in 32 bytes, or in an address.
fn digest_of(py: Python<'_>, one: &Bound<'_, PyAny>) -> PyResult<Digest> {
    let wrong = |_| raise(py, &Error::new(Code::HashLength, "a digest has 32 bytes"));
    match one.cast::<PyBytes>() {
        Ok(bytes) => bytes.as_bytes().try_into().map_err(wrong),
        Err(_) => {
            let text = one.cast::<PyString>()?;
            address::parse(&text.to_string_lossy()).map_err(|e| raise(py, &e))
        }
    }
}
