// SPDX-License-Identifier: Apache-2.0
//! The memtable of a store's index, and the keys of its terms.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use omsgrain_core::address::Digest;
use omsgrain_core::index_rows::{self, Key, Kind, Place};
use omsgrain_core::indexed_paths::IndexedPaths as Paths;
use omsgrain_core::memtable::{self, Made, Memtable as Core, Only, Part};
use omsgrain_core::{Code, Error, Node as _, check};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::convert::Object;
use crate::error::raise;
use crate::index::Rows;
use crate::indexed_paths::{IndexedPaths, given};

/// The key of a term: its kind by the name of a query's filter, and its value.
#[pyfunction]
#[pyo3(signature = (kind, value, second = None))]
pub fn term<'py>(
    py: Python<'py>,
    kind: &str,
    value: Bound<'py, PyAny>,
    second: Option<&str>,
) -> PyResult<Bound<'py, PyBytes>> {
    make_key(kind, value, second).map(|key| PyBytes::new(py, &key)).map_err(|e| raise(py, &e))
}

fn make_key(kind: &str, value: Bound<'_, PyAny>, second: Option<&str>) -> Result<Key, Error> {
    let not_text = || Error::new(Code::Schema, "the term must be a string");
    Ok(match index_rows::kind(kind)? {
        Kind::All => index_rows::of_all(),
        Kind::Sealed => index_rows::of_sealed(),
        Kind::Type => index_rows::of_type(value.extract().map_err(|_| not_text())?),
        Kind::SubjectRelation => {
            let subject: String = value.extract().map_err(|_| not_text())?;
            let nfc = omsgrain_core::text::nfc;
            index_rows::pair(&nfc(&subject)?, &nfc(second.ok_or_else(not_text)?)?)
        }
        Kind::Fingerprint => {
            let wrong = |_| Error::new(Code::Schema, "a fingerprint has 16 bytes");
            index_rows::of_fingerprint(&value.extract().map_err(wrong)?)
        }
        Kind::Object => index_rows::of_node(Kind::Object, &Object(value))?,
        kind => {
            let text: String = value.extract().map_err(|_| not_text())?;
            kind.of_str(&omsgrain_core::text::nfc(&text)?)
        }
    })
}

/// The key of a fingerprint's bucket, and the bytes that its places have there; None for a key of
/// another kind.
#[pyfunction]
pub fn bucket<'py>(py: Python<'py>, key: &[u8]) -> Option<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
    let (key, place) = index_rows::bucket(key, &Place::default())?;
    Some((PyBytes::new(py, &key), PyBytes::new(py, &place[6..12])))
}

/// A time as ms since 1970, from ms, an aware datetime or RFC 3339 text.
#[pyfunction]
pub fn millis(py: Python<'_>, value: Bound<'_, PyAny>) -> PyResult<i64> {
    let node = Object(value);
    node.view().and_then(|view| check::millis(&view)).map_err(|e| raise(py, &e))
}

/// The memtable: the rows after the watermark. Any thread may call its methods.
///
/// A background thread adds the grains of `later`; a method that needs them waits for it.
#[pyclass(frozen, module = "omsgrain._core")]
pub struct Tail(Arc<Shared>, Arc<Paths>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// The thread that adds waiting grains holds this lock.
    turn: Mutex<()>,
}

#[derive(Default)]
struct State {
    rows: Core,
    waiting: VecDeque<Arc<Grains>>,
}

/// Grains whose rows a background thread makes, or the first thread that needs them.
#[pyclass(frozen, module = "omsgrain._core")]
pub struct Coming(Arc<Grains>);

/// Copies of blobs: the background thread cannot hold Python's objects.
struct Grains {
    sequences: Vec<u64>,
    digests: Vec<Digest>,
    ends: Vec<usize>,
    bytes: Vec<u8>,
    paths: Arc<Paths>,
    made: OnceLock<Result<Made, Error>>,
}

/// Starts making the rows of grains with rising sequence numbers.
#[pyfunction]
#[pyo3(signature = (sequences, blobs, digests, paths = None))]
pub fn coming(
    py: Python<'_>,
    sequences: Vec<u64>,
    blobs: Vec<Bound<'_, PyBytes>>,
    digests: Vec<Bound<'_, PyBytes>>,
    paths: Option<&IndexedPaths>,
) -> PyResult<Coming> {
    let size = blobs.iter().map(|blob| blob.as_bytes().len()).sum();
    let (mut bytes, mut ends) = (Vec::with_capacity(size), Vec::with_capacity(blobs.len()));
    for blob in &blobs {
        bytes.extend_from_slice(blob.as_bytes());
        ends.push(bytes.len());
    }
    let digests = digests.iter().map(|digest| whole(py, digest).copied()).collect::<PyResult<_>>()?;
    let grains =
        Arc::new(Grains { sequences, digests, ends, bytes, paths: given(paths), made: OnceLock::new() });
    let own = Arc::clone(&grains);
    beside(move || _ = own.made());
    Ok(Coming(grains))
}

/// Starts a thread. If none can start, the waiting caller does the work.
fn beside(work: impl FnOnce() + Send + 'static) {
    drop(std::thread::Builder::new().name("omsgrain-rows".to_owned()).spawn(work));
}

#[pymethods]
impl Tail {
    /// With fingerprints in buckets, or each as a key of its own; with rows of indexed paths.
    #[new]
    #[pyo3(signature = (buckets = false, paths = None))]
    fn new(buckets: bool, paths: Option<&IndexedPaths>) -> Self {
        let rows = if buckets { Core::with_buckets() } else { Core::default() };
        let state = Mutex::new(State { rows, ..State::default() });
        Tail(Arc::new(Shared { state, ..Shared::default() }), given(paths))
    }

    /// Adds grains with rising sequence numbers.
    fn add(
        &self,
        py: Python<'_>,
        sequences: Vec<u64>,
        blobs: Vec<Bound<'_, PyBytes>>,
        digests: Vec<Bound<'_, PyBytes>>,
    ) -> PyResult<()> {
        let digests = digests.iter().map(|digest| whole(py, digest)).collect::<PyResult<Vec<&Digest>>>()?;
        let grains: Vec<(u64, &Digest, &[u8])> = sequences
            .into_iter()
            .zip(digests)
            .zip(&blobs)
            .map(|((sequence, digest), blob)| (sequence, digest, blob.as_bytes()))
            .collect();
        py.detach(|| memtable::make(&grains, &self.1).map(|made| self.0.lock().rows.take(&made)))
            .map_err(|e| raise(py, &e))
    }

    /// Adds grains whose rows are being made, before the next query at the latest.
    fn add_later(&self, coming: &Coming) {
        self.0.lock().waiting.push_back(Arc::clone(&coming.0));
        let shared = Arc::clone(&self.0);
        beside(move || shared.settle());
    }

    /// The number of grains under a key.
    fn count(&self, py: Python<'_>, key: &[u8]) -> usize {
        self.settled(py).rows.count(key)
    }

    /// Whether a place is under a key.
    fn has(&self, py: Python<'_>, key: &[u8], value: &[u8]) -> bool {
        Place::try_from(value).is_ok_and(|place| self.settled(py).rows.has(key, &place))
    }

    /// The next places under a key.
    #[pyo3(signature = (key, after, newest, limit))]
    fn page<'py>(
        &self,
        py: Python<'py>,
        key: &[u8],
        after: Option<&[u8]>,
        newest: bool,
        limit: usize,
    ) -> PyResult<Bound<'py, PyList>> {
        let places = self.settled(py).rows.page(key, after, newest, limit);
        PyList::new(py, places.iter().map(|place| PyBytes::new(py, place)))
    }

    /// The number of rows.
    fn rows(&self, py: Python<'_>) -> usize {
        self.settled(py).rows.rows()
    }

    /// The rows of the keys after `key`, whole keys at a time, about `limit` rows.
    #[pyo3(signature = (key, limit))]
    fn rows_after<'py>(
        &self,
        py: Python<'py>,
        key: Option<&[u8]>,
        limit: usize,
    ) -> PyResult<Vec<(Bound<'py, PyBytes>, Bound<'py, PyList>)>> {
        let part = self.after(py, key, limit, &Only::Others(&HashSet::new()));
        let mut start = 0;
        let python = |(key, end): &(Key, usize)| {
            let places = part.places[start..*end].iter().map(|place| PyBytes::new(py, place));
            start = *end;
            Ok((PyBytes::new(py, key), PyList::new(py, places)?))
        };
        part.keys.iter().map(python).collect()
    }

    /// The same as pairs of key and value, and the last key; only for grains with these sequence
    /// numbers, or for all others.
    #[pyo3(signature = (key, limit, numbers, inside))]
    fn part<'py>(
        &self,
        py: Python<'py>,
        key: Option<&[u8]>,
        limit: usize,
        numbers: HashSet<u32>,
        inside: bool,
    ) -> Option<(Rows, Bound<'py, PyBytes>)> {
        let only = if inside { Only::These(&numbers) } else { Only::Others(&numbers) };
        let part = self.after(py, key, limit, &only);
        let last = PyBytes::new(py, &part.keys.last()?.0);
        Some((Rows::of_part(part), last))
    }
}

impl Tail {
    /// The first places under a key.
    pub fn first(&self, py: Python<'_>, key: &[u8], newest: bool, limit: usize) -> Vec<Place> {
        self.settled(py).rows.page(key, None, newest, limit)
    }

    /// The state, after all waiting grains were added.
    fn settled(&self, py: Python<'_>) -> MutexGuard<'_, State> {
        loop {
            let state = self.0.lock();
            if state.waiting.is_empty() {
                return state;
            }
            drop(state);
            py.detach(|| self.0.settle());
        }
    }

    /// The rows are copied. Making Python lists may run the garbage collector, and so other
    /// threads; a thread that waits here for the lock would hold the GIL.
    fn after(&self, py: Python<'_>, key: Option<&[u8]>, limit: usize, only: &Only<'_>) -> Part {
        self.settled(py).rows.rows_after(key, limit, only)
    }
}

impl Shared {
    /// If a thread panicked while it held the lock, the rows are still complete: each is pushed in
    /// one step.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds all waiting grains.
    fn settle(&self) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(grains) = self.first() {
            let made = grains.made();
            let mut state = self.lock();
            if let Ok(made) = made {
                state.rows.take(made);
            }
            state.waiting.pop_front();
        }
    }

    fn first(&self) -> Option<Arc<Grains>> {
        self.lock().waiting.front().cloned()
    }
}

impl Grains {
    fn made(&self) -> &Result<Made, Error> {
        self.made.get_or_init(|| self.make())
    }

    fn make(&self) -> Result<Made, Error> {
        let mut start = 0;
        let numbered = self.sequences.iter().zip(&self.digests).zip(&self.ends);
        let grains: Vec<(u64, &Digest, &[u8])> = numbered
            .map(|((sequence, digest), end)| {
                let blob = &self.bytes[start..*end];
                start = *end;
                (*sequence, digest, blob)
            })
            .collect();
        memtable::make(&grains, &self.paths)
    }
}

pub fn whole<'d>(py: Python<'_>, digest: &'d Bound<'_, PyBytes>) -> PyResult<&'d Digest> {
    let wrong = |_| raise(py, &Error::new(Code::HashLength, "a digest has 32 bytes"));
    digest.as_bytes().try_into().map_err(wrong)
}
