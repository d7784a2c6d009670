// SPDX-License-Identifier: Apache-2.0
//! The tail of a store's index, and the keys of its terms.

use std::sync::{Mutex, PoisonError};

use omsgrain_core::address::Digest;
use omsgrain_core::index_rows::{self, Key, Kind, Place};
use omsgrain_core::tail::Tail as Core;
use omsgrain_core::{Code, Error, Node as _, check};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::error::raise;
use crate::node::Object;

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
    let not_text = || Error::new(Code::Schema, "this term is a string");
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

/// A time as ms since 1970, from ms, an aware datetime or RFC 3339 text.
#[pyfunction]
pub fn millis(py: Python<'_>, value: Bound<'_, PyAny>) -> PyResult<i64> {
    let node = Object(value);
    node.view().and_then(|view| check::millis(&view)).map_err(|e| raise(py, &e))
}

/// The rows beyond the watermark. All methods may be called from any thread.
#[pyclass(frozen, module = "omsgrain._core")]
pub struct Tail(Mutex<Core>);

#[pymethods]
impl Tail {
    #[new]
    fn new() -> Self {
        Tail(Mutex::new(Core::default()))
    }

    /// Adds grains with rising sequence numbers.
    fn add(
        &self,
        py: Python<'_>,
        sequences: Vec<u64>,
        blobs: Vec<Bound<'_, PyBytes>>,
        digests: Vec<Bound<'_, PyBytes>>,
    ) -> PyResult<()> {
        let wrong = || raise(py, &Error::new(Code::HashLength, "a digest has 32 bytes"));
        let digests: Vec<&Digest> =
            digests.iter().map(|d| d.as_bytes().try_into()).collect::<Result<_, _>>().map_err(|_| wrong())?;
        let grains: Vec<(u64, &Digest, &[u8])> = sequences
            .into_iter()
            .zip(digests)
            .zip(&blobs)
            .map(|((sequence, digest), blob)| (sequence, digest, blob.as_bytes()))
            .collect();
        py.detach(|| self.lock().add(&grains)).map_err(|e| raise(py, &e))
    }

    /// How many grains are under a key.
    fn count(&self, key: &[u8]) -> usize {
        self.lock().count(key)
    }

    /// Whether a place is under a key.
    fn has(&self, key: &[u8], value: &[u8]) -> bool {
        Place::try_from(value).is_ok_and(|place| self.lock().has(key, &place))
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
        let places = self.lock().page(key, after, newest, limit);
        PyList::new(py, places.iter().map(|place| PyBytes::new(py, place)))
    }

    /// How many rows there are.
    fn rows(&self) -> usize {
        self.lock().rows()
    }

    /// The rows of the keys after `key`, whole keys at a time, about `limit` rows.
    #[pyo3(signature = (key, limit))]
    fn rows_after<'py>(
        &self,
        py: Python<'py>,
        key: Option<&[u8]>,
        limit: usize,
    ) -> PyResult<Vec<(Bound<'py, PyBytes>, Bound<'py, PyList>)>> {
        // Copied first: making Python lists may run the garbage collector and so other threads,
        // and one that waits here for the lock would do so with the GIL.
        let found: Vec<(Vec<u8>, Vec<Place>)> =
            self.lock().rows_after(key, limit).into_iter().map(|(k, p)| (k.to_vec(), p.to_vec())).collect();
        let python = |(key, places): (Vec<u8>, Vec<Place>)| {
            let places = PyList::new(py, places.iter().map(|place| PyBytes::new(py, place)))?;
            Ok((PyBytes::new(py, &key), places))
        };
        found.into_iter().map(python).collect()
    }
}

impl Tail {
    /// A thread that panicked in here left rows that are whole: each is pushed in one step.
    fn lock(&self) -> std::sync::MutexGuard<'_, Core> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
