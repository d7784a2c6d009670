// SPDX-License-Identifier: Apache-2.0
//! Rows for a table, made on demand: LMDB reads them from an iterator, and a list of tuples would
//! cost more than writing them.

use std::collections::HashSet;
use std::sync::Arc;

use omsgrain_core::address::Digest;
use omsgrain_core::batch::{on_all_cores, total};
use omsgrain_core::blind_index::{PlainGrain, TOKEN, Token};
use omsgrain_core::index_rows::Place;
use omsgrain_core::memtable::Part;
use omsgrain_core::{Code, Error, batch, blind_index as core, peek, searched};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

use crate::error::raise;
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

// Stored rows as blobs with their addresses, and whether the addresses match the rows.

/// A blob and its address.
type Stored<'py> = (Bound<'py, PyBytes>, Bound<'py, PyString>);

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

fn hashed(py: Python<'_>, rows: &[&[u8]], skip: usize) -> Vec<Digest> {
    let size: usize = rows.iter().map(|row| row.len()).sum();
    let hash = || batch::addresses(rows, skip);
    if size < RELEASE_FROM { hash() } else { py.detach(hash) }
}

fn with_addresses<'py>(py: Python<'py>, rows: &[&[u8]], digests: &[Digest], skip: usize) -> Vec<Stored<'py>> {
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

// Blind tokens, the times of their places, and the user of a grain.

/// Bytes of Python, one after the other.
type Parts<'py> = Vec<Bound<'py, PyBytes>>;

/// The fields to search, and the fields that mark a grain, by full names.
#[pyclass(frozen, module = "omsgrain._core")]
pub struct TextFields(searched::TextFields);

#[pymethods]
impl TextFields {
    #[new]
    fn new(skipped: HashSet<String>, fixed: HashSet<String>, marked: HashSet<String>) -> Self {
        TextFields(searched::TextFields { skipped, fixed, marked })
    }

    /// For each plain grain the searched texts, one per line; whether it has a marked field; and
    /// its address.
    fn of<'py>(
        &self,
        py: Python<'py>,
        plain: Parts<'py>,
    ) -> PyResult<Vec<(String, bool, Bound<'py, PyBytes>)>> {
        let blobs = views(&plain);
        let found = py.detach(|| self.0.of(&blobs)).map_err(|e| raise(py, &e))?;
        Ok(found.into_iter().map(|one| (one.text, one.marked, PyBytes::new(py, &one.digest))).collect())
    }
}

/// For each plain grain its concatenated tokens, and its time in ms. The words of a grain are one
/// text, separated by spaces; a word may repeat.
#[pyfunction]
pub fn blind<'py>(
    py: Python<'py>,
    plain: Parts<'py>,
    words: Vec<Bound<'py, PyString>>,
    token_keys: Parts<'py>,
) -> PyResult<Vec<(Bound<'py, PyBytes>, u64)>> {
    if words.len() != plain.len() || token_keys.len() != plain.len() {
        return Err(PyValueError::new_err("pass words and a key for each grain"));
    }
    let words = words.iter().map(|words| words.to_str()).collect::<PyResult<Vec<_>>>()?;
    let words: Vec<Vec<&[u8]>> = words.iter().map(|words| split(words)).collect();
    let grains: Vec<PlainGrain<'_>> = plain
        .iter()
        .zip(&words)
        .zip(&token_keys)
        .map(|((blob, words), key)| PlainGrain { blob: blob.as_bytes(), words, key: key.as_bytes() })
        .collect();
    let made = py.detach(|| core::blind(&grains)).map_err(|e| raise(py, &e))?;
    Ok(made.into_iter().map(|b| (PyBytes::new(py, b.tokens.as_flattened()), b.created_at)).collect())
}

fn split(words: &str) -> Vec<&[u8]> {
    words.split(' ').filter(|word| !word.is_empty()).map(str::as_bytes).collect()
}

/// The sorted rows of grains in blind-0, from the number of each grain's key, its concatenated
/// tokens, and its place.
#[pyfunction]
pub fn blind_rows(
    py: Python<'_>,
    grains: Vec<(Bound<'_, PyBytes>, Bound<'_, PyBytes>, Bound<'_, PyBytes>)>,
) -> PyResult<BlindRows> {
    let wrong = |_| PyValueError::new_err("a number has 8 bytes, a place 16");
    let mut rows = Vec::new();
    for (number, tokens, place) in &grains {
        let number: [u8; NUMBER] = number.as_bytes().try_into().map_err(wrong)?;
        let place: Place = place.as_bytes().try_into().map_err(wrong)?;
        rows.extend(tokens.as_bytes().as_chunks().0.iter().map(|token| (number, *token, place)));
    }
    py.detach(|| rows.sort_unstable());
    Ok(BlindRows(rows.into_iter()))
}

/// Bytes of the number of a key.
const NUMBER: usize = 8;

/// A walk over blind rows.
#[pyclass(module = "omsgrain._core")]
pub struct BlindRows(std::vec::IntoIter<([u8; NUMBER], Token, Place)>);

#[pymethods]
impl BlindRows {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> Option<Row<'py>> {
        let (number, token, place) = self.0.next()?;
        let mut key = [0; NUMBER + TOKEN];
        key[..NUMBER].copy_from_slice(&number);
        key[NUMBER..].copy_from_slice(&token);
        Some((PyBytes::new(py, &key), PyBytes::new(py, &place)))
    }
}

/// The token of each term under one key.
#[pyfunction]
pub fn tokens<'py>(
    py: Python<'py>,
    token_key: &Bound<'py, PyBytes>,
    keys: Parts<'py>,
) -> PyResult<Bound<'py, PyList>> {
    let (key, terms) = (token_key.as_bytes(), views(&keys));
    list(py, py.detach(|| core::tokens(key, &terms)))
}

/// The token of each term under its key.
#[pyfunction]
pub fn tokens_each<'py>(
    py: Python<'py>,
    token_keys: Parts<'py>,
    keys: Parts<'py>,
) -> PyResult<Bound<'py, PyList>> {
    let (secrets, terms) = (views(&token_keys), views(&keys));
    list(py, py.detach(|| core::tokens_each(&secrets, &terms)))
}

/// The token of one term under each key.
#[pyfunction]
pub fn tokens_many<'py>(
    py: Python<'py>,
    token_keys: Parts<'py>,
    key: &Bound<'py, PyBytes>,
) -> PyResult<Bound<'py, PyList>> {
    let (keys, term) = (views(&token_keys), key.as_bytes());
    list(py, py.detach(|| core::tokens_many(&keys, term)))
}

/// The user_id of each blob; None if there is none or the grain is sealed.
#[pyfunction]
pub fn user_ids(py: Python<'_>, blobs: Parts<'_>) -> PyResult<Vec<Option<String>>> {
    let blobs = views(&blobs);
    let found = py.detach(|| on_all_cores(total(&blobs), blobs.len(), |i| peek::user_id(blobs[i])));
    found.into_iter().collect::<Result<_, _>>().map_err(|e| raise(py, &e))
}

/// The blocks to encrypt for masking the times of places.
#[pyfunction]
pub fn place_blocks<'py>(py: Python<'py>, places: &Bound<'py, PyBytes>) -> PyResult<Bound<'py, PyBytes>> {
    let blocks = core::place_blocks(places.as_bytes()).map_err(|e| raise(py, &e))?;
    Ok(PyBytes::new(py, &blocks))
}

/// The places with their times masked by the encrypted blocks.
#[pyfunction]
pub fn mask_times<'py>(
    py: Python<'py>,
    places: &Bound<'py, PyBytes>,
    stream: &Bound<'py, PyBytes>,
) -> PyResult<Bound<'py, PyBytes>> {
    let masked = core::mask_times(places.as_bytes(), stream.as_bytes()).map_err(|e| raise(py, &e))?;
    Ok(PyBytes::new(py, &masked))
}

fn views<'a>(parts: &'a [Bound<'_, PyBytes>]) -> Vec<&'a [u8]> {
    parts.iter().map(|part| part.as_bytes()).collect()
}

fn list(py: Python<'_>, tokens: Result<Vec<Token>, Error>) -> PyResult<Bound<'_, PyList>> {
    let tokens = tokens.map_err(|e| raise(py, &e))?;
    PyList::new(py, tokens.iter().map(|token| PyBytes::new(py, token)))
}
