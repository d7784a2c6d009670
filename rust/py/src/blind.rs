// SPDX-License-Identifier: Apache-2.0
//! Blind tokens, the times of their places, and whose a grain is.

use omsgrain_core::batch::{on_all_cores, total};
use omsgrain_core::blind::{self as core, PlainGrain, TOKEN, Token};
use omsgrain_core::index_rows::Place;
use omsgrain_core::{Error, glance};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::error::raise;
use crate::rows::Row;

/// Bytes of Python, one after the other.
type Parts<'py> = Vec<Bound<'py, PyBytes>>;

/// For each plain grain its tokens, one behind the other, and its time in ms.
#[pyfunction]
pub fn blind<'py>(
    py: Python<'py>,
    plain: Parts<'py>,
    words: Vec<Parts<'py>>,
    token_keys: Parts<'py>,
) -> PyResult<Vec<(Bound<'py, PyBytes>, u64)>> {
    if words.len() != plain.len() || token_keys.len() != plain.len() {
        return Err(PyValueError::new_err("words and a key for each grain"));
    }
    let words: Vec<Vec<&[u8]>> = words.iter().map(|words| views(words)).collect();
    let grains: Vec<PlainGrain<'_>> = plain
        .iter()
        .zip(&words)
        .zip(&token_keys)
        .map(|((blob, words), key)| PlainGrain { blob: blob.as_bytes(), words, key: key.as_bytes() })
        .collect();
    let made = py.detach(|| core::blind(&grains)).map_err(|e| raise(py, &e))?;
    Ok(made.into_iter().map(|b| (PyBytes::new(py, b.tokens.as_flattened()), b.created_at)).collect())
}

/// The rows of grains in blind-0, in order: of each grain the number of its key, its tokens one
/// behind the other, and its place.
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

/// The token of each term under the key beside it.
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
    let found = py.detach(|| on_all_cores(total(&blobs), blobs.len(), |i| glance::user_id(blobs[i])));
    found.into_iter().collect::<Result<_, _>>().map_err(|e| raise(py, &e))
}

/// The blocks that are encrypted to mask the times of places.
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
