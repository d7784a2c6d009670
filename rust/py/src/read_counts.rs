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
use crate::functions::HeldFile;

/// Reads of one grain, and the time of the last in ms since 1970.
#[derive(Clone, Copy, Default)]
struct Count {
    reads: u64,
    last: u64,
    /// The grain's sequence number in the commit of the last read; 0 if that is not known.
    number: u64,
    /// Which commit that was. It counts the commits that were read.
    epoch: u64,
}

/// A commit: its data file and its number in that.
struct Commit {
    file: Py<HeldFile>,
    number: u64,
}

impl Commit {
    fn is(&self, file: &Py<HeldFile>, number: u64) -> bool {
        self.file.is(file) && self.number == number
    }
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
    /// The last commit that was read.
    read: Option<Commit>,
    epoch: u64,
    /// The counts that a commit is writing, sorted, and the commit of their sequence numbers.
    writing: Vec<(Digest, Count)>,
    written: Option<Commit>,
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
        let epoch = state.epoch;
        for (_, count) in &mut state.writing {
            if count.epoch != epoch {
                count.number = 0;
            }
        }
        state.written = state.read.take();
        !state.writing.is_empty()
    }

    /// The grains whose counts are being written, sorted, without those whose sequence number in
    /// this commit is known: no grain was removed since.
    #[pyo3(signature = (commit = None))]
    fn digests<'py>(
        &self,
        py: Python<'py>,
        commit: Option<(Py<HeldFile>, u64)>,
    ) -> PyResult<Bound<'py, PyList>> {
        let mut state = self.lock();
        let same = commit.is_some_and(|(file, number)| {
            state.written.as_ref().is_some_and(|written| written.is(&file, number))
        });
        if !same {
            for (_, count) in &mut state.writing {
                count.number = 0;
            }
        }
        let unknown = state.writing.iter().filter(|(_, count)| count.number == 0);
        let digests: Vec<Digest> = unknown.map(|(digest, _)| *digest).collect();
        drop(state);
        PyList::new(py, digests.iter().map(|digest| PyBytes::new(py, digest)))
    }

    /// The sorted keys of their rows, given the number of each of `digests`. A grain without a number
    /// was deleted.
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
                let there = (u64::from_be_bytes(*reads), u64::from_be_bytes(*last));
                count.add(Count { reads: there.0, last: there.1, ..Count::default() });
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
    fn add(&self, digests: &[Digest], when: Option<i64>) -> bool {
        let once = Count { reads: 1, last: time(when), ..Count::default() };
        let mut state = self.lock();
        for digest in digests {
            state.counts.entry(*digest).or_default().add(once);
        }
        state.counts.len() >= self.most
    }

    /// Counts a read of each grain with its sequence number in a commit.
    pub fn add_numbered(
        &self,
        py: Python<'_>,
        (file, commit): (&Py<HeldFile>, u64),
        grains: impl Iterator<Item = (Digest, u64)>,
        when: Option<i64>,
    ) {
        let once = Count { reads: 1, last: time(when), ..Count::default() };
        let mut state = self.lock();
        if !state.read.as_ref().is_some_and(|read| read.is(file, commit)) {
            state.read = Some(Commit { file: file.clone_ref(py), number: commit });
            state.epoch += 1;
        }
        let epoch = state.epoch;
        for (digest, number) in grains {
            let count = state.counts.entry(digest).or_default();
            count.add(once);
            (count.number, count.epoch) = (number, epoch);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The staged counts by grain number: a sealed grain may have been read by two addresses.
    fn totals(&self, numbers: &[Option<u64>]) -> BTreeMap<u64, Count> {
        let mut totals: BTreeMap<u64, Count> = BTreeMap::new();
        let mut found = numbers.iter();
        for (_, count) in &self.lock().writing {
            let known = (count.number != 0).then_some(count.number);
            if let Some(number) = known.or_else(|| found.next().copied().flatten()) {
                totals.entry(number).or_default().add(*count);
            }
        }
        totals
    }
}

/// A time in ms since 1970; now if there is none.
fn time(when: Option<i64>) -> u64 {
    when.map_or_else(now, |when| u64::try_from(when).unwrap_or(0))
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
