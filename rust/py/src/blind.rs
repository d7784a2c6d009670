// SPDX-License-Identifier: Apache-2.0
//! Blind tokens, the rows of encrypted grains, and the user of a grain.

use std::collections::{HashMap, HashSet};

use omsgrain_core::Error;
use omsgrain_core::batch::{on_all_cores, total};
use omsgrain_core::blind_index::{PlainGrain, Token};
use omsgrain_core::index_rows::{Place, place};
use omsgrain_core::sorted_runs::{ENTRY, Entry};
use omsgrain_core::{blind_index as core, peek, searched};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

use crate::error::raise;
use crate::index::Row;
use crate::indexed_paths::{IndexedPaths, given};

/// Bytes of Python, one after the other.
type Parts<'py> = Vec<Bound<'py, PyBytes>>;

/// The fields to search, and the fields that mark a grain, by full names.
#[pyclass(frozen, module = "omsgrain._core")]
pub struct TextFields(searched::TextFields);

#[pymethods]
impl TextFields {
    #[new]
    fn new(
        skipped: HashSet<String>,
        fixed: HashSet<String>,
        marked: HashSet<String>,
        folds: [u8; 128],
    ) -> Self {
        TextFields(searched::TextFields { skipped, fixed, marked, folds })
    }

    /// For each plain grain the searched texts, one per line, folded if they are ASCII; whether it
    /// has a marked field; and its address.
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

/// Bytes of the number of a key.
const NUMBER: usize = 8;
type Number = [u8; NUMBER];

/// The rows beside an encrypted grain, made from its content.
#[pyclass(frozen, module = "omsgrain._core")]
pub struct BlindEntry {
    number: Number,
    digest: Py<PyBytes>,
    blind: core::Blind,
    kept: bool,
}

#[pymethods]
impl BlindEntry {
    /// The number of the key that encrypts it.
    #[getter]
    fn number<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.number)
    }

    /// Its plain address.
    #[getter]
    fn digest(&self, py: Python<'_>) -> Py<PyBytes> {
        self.digest.clone_ref(py)
    }

    /// The key of its row in plain-0: the number, and the token of its plain address.
    #[getter]
    fn name<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        numbered(py, &self.number, &self.blind.address)
    }

    /// The tokens of its terms and words, concatenated.
    #[getter]
    fn tokens<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.blind.tokens.as_flattened())
    }

    /// Its time in ms.
    #[getter]
    fn created_at(&self) -> u64 {
        self.blind.created_at
    }

    /// It has a policy or retention that an erasure must check.
    #[getter]
    fn kept(&self) -> bool {
        self.kept
    }
}

/// The entry of each plain grain. Of a grain are passed: its words, separated by spaces, which may
/// repeat; whether it is kept; its address. Of its user: the key's number, and the keys of terms
/// and addresses. Values at indexed paths are terms too.
#[pyfunction]
#[pyo3(signature = (plain, found, keys, paths = None))]
pub fn blind<'py>(
    py: Python<'py>,
    plain: Parts<'py>,
    found: Vec<(Bound<'py, PyString>, bool, Bound<'py, PyBytes>)>,
    keys: Vec<(Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>)>,
    paths: Option<&IndexedPaths>,
) -> PyResult<Vec<BlindEntry>> {
    if found.len() != plain.len() || keys.len() != plain.len() {
        return Err(PyValueError::new_err("pass words and keys for each grain"));
    }
    let numbers = keys.iter().map(|(number, _, _)| of_size(number)).collect::<PyResult<Vec<Number>>>()?;
    let mut grains = Vec::with_capacity(plain.len());
    for ((blob, (words, _, digest)), (_, key, address_key)) in plain.iter().zip(&found).zip(&keys) {
        let (blob, digest, words) = (blob.as_bytes(), digest.as_bytes(), words.to_str()?);
        let (key, address_key) = (key.as_bytes(), address_key.as_bytes());
        grains.push(PlainGrain { blob, digest, words, key, address_key });
    }
    let paths = given(paths);
    let made = py.detach(|| core::blind(&grains, &paths)).map_err(|e| raise(py, &e))?;
    let entries = made.into_iter().zip(numbers).zip(found);
    Ok(entries
        .map(|((blind, number), (_, kept, digest))| BlindEntry {
            number,
            digest: digest.unbind(),
            blind,
            kept,
        })
        .collect())
}

/// Encrypted grains as they are stored: their entries, addresses and sequence numbers.
type Placed<'py> = (Bound<'py, BlindEntry>, Bound<'py, PyBytes>, u64);

/// For each key among some grains, the first of the grains, and the blocks to encrypt for masking
/// the times of its places.
#[pyfunction]
pub fn blind_blocks<'py>(
    py: Python<'py>,
    grains: Vec<Placed<'py>>,
) -> PyResult<Vec<(usize, Bound<'py, PyBytes>)>> {
    let (groups, places) = grouped(&grains)?;
    let blocks = groups.iter().map(|group| {
        let places: Vec<Place> = group.iter().map(|i| places[*i]).collect();
        let blocks = core::place_blocks(places.as_flattened()).map_err(|e| raise(py, &e))?;
        Ok((group[0], PyBytes::new(py, &blocks)))
    });
    blocks.collect()
}

/// The rows of grains in blind-1. The encrypted blocks of each key are passed.
#[pyfunction]
pub fn blind_rows<'py>(
    py: Python<'py>,
    grains: Vec<Placed<'py>>,
    streams: Parts<'py>,
) -> PyResult<BlindRows> {
    let (groups, mut places) = grouped(&grains)?;
    if streams.len() != groups.len() {
        return Err(PyValueError::new_err("pass the blocks of each key"));
    }
    for (group, stream) in groups.iter().zip(&streams) {
        let own: Vec<Place> = group.iter().map(|i| places[*i]).collect();
        let masked = core::mask_times(own.as_flattened(), stream.as_bytes()).map_err(|e| raise(py, &e))?;
        group.iter().zip(masked.as_chunks().0).for_each(|(i, place)| places[*i] = *place);
    }
    let entries: Vec<&BlindEntry> = grains.iter().map(|(entry, _, _)| entry.get()).collect();
    let parts = py.detach(|| {
        let mut parts = Vec::with_capacity(groups.len());
        for group in &groups {
            let mut rows: Vec<Entry> = Vec::new();
            for i in group {
                rows.extend(entries[*i].blind.tokens.iter().map(|token| joined(token, &places[*i])));
            }
            rows.sort_unstable();
            parts.push((entries[group[0]].number, rows));
        }
        parts.sort_unstable_by_key(|(number, _)| *number);
        parts
    });
    Ok(BlindRows { parts, part: 0, row: 0 })
}

fn joined(token: &Token, place: &Place) -> Entry {
    let mut entry = [0; ENTRY];
    entry[..token.len()].copy_from_slice(token);
    entry[token.len()..].copy_from_slice(place);
    entry
}

/// The grains of each key, and the places of all.
fn grouped(grains: &[Placed<'_>]) -> PyResult<(Vec<Vec<usize>>, Vec<Place>)> {
    let mut numbers: HashMap<Number, usize> = HashMap::new();
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut places = Vec::with_capacity(grains.len());
    for (i, (entry, digest, sequence)) in grains.iter().enumerate() {
        let (entry, digest) = (entry.get(), of_size(digest)?);
        let group = *numbers.entry(entry.number).or_insert(groups.len());
        if group == groups.len() {
            groups.push(Vec::new());
        }
        groups[group].push(i);
        places.push(place(entry.blind.created_at as i64, &digest, *sequence as u32));
    }
    Ok((groups, places))
}

fn of_size<const N: usize>(bytes: &Bound<'_, PyBytes>) -> PyResult<[u8; N]> {
    let wrong = |_| PyValueError::new_err(format!("expected {N} bytes"));
    bytes.as_bytes().try_into().map_err(wrong)
}

/// The rows of encrypted grains in plain-0, sealed-0, keyed-0 and kept-0.
type KeyRows<'py> = (Vec<Row<'py>>, Vec<Row<'py>>, Vec<Row<'py>>, Vec<Row<'py>>);

/// The rows that lead from grains to their keys, and back.
#[pyfunction]
pub fn key_rows<'py>(py: Python<'py>, grains: Vec<Placed<'py>>) -> KeyRows<'py> {
    let (mut plain, mut sealed, mut keyed, mut kept) = KeyRows::default();
    let empty = PyBytes::new(py, b"");
    for (entry, _, sequence) in &grains {
        let (entry, sequence) = (entry.get(), sequence.to_be_bytes());
        let (number, grain) = (PyBytes::new(py, &entry.number), PyBytes::new(py, &sequence));
        let under = numbered(py, &entry.number, &sequence);
        plain.push((numbered(py, &entry.number, &entry.blind.address), grain.clone()));
        sealed.push((grain, number));
        if entry.kept {
            kept.push((under.clone(), empty.clone()));
        }
        keyed.push((under, empty.clone()));
    }
    (plain, sealed, keyed, kept)
}

/// A key that begins with the number of a user's key.
fn numbered<'py>(py: Python<'py>, number: &Number, rest: &[u8]) -> Bound<'py, PyBytes> {
    PyBytes::new(py, &[number, rest].concat())
}

/// Blind rows in order: a walk over them, or the entries of each key as a run.
#[pyclass(module = "omsgrain._core")]
pub struct BlindRows {
    parts: Vec<(Number, Vec<Entry>)>,
    part: usize,
    row: usize,
}

#[pymethods]
impl BlindRows {
    /// The number of each key, and the entries of its rows, concatenated.
    fn runs<'py>(&self, py: Python<'py>) -> Vec<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let parts = self.parts.iter();
        parts
            .map(|(number, rows)| (PyBytes::new(py, number), PyBytes::new(py, rows.as_flattened())))
            .collect()
    }

    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> Option<Row<'py>> {
        loop {
            let (number, rows) = self.parts.get(self.part)?;
            if let Some(row) = rows.get(self.row) {
                self.row += 1;
                return Some((numbered(py, number, row), PyBytes::new(py, b"")));
            }
            (self.part, self.row) = (self.part + 1, 0);
        }
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
