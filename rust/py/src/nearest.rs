// SPDX-License-Identifier: Apache-2.0
//! Vectors of a store, compared with one.

use omsgrain_core::nearest::{self as core, Query};
use omsgrain_core::{Code, Error};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::raise;

/// Rows of a table: a key that ends in a sequence number, and a vector.
type Rows<'py> = Vec<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)>;

/// (cosine, sequence number) of the rows whose cosine is not below a floor, the nearest first.
#[pyfunction]
pub fn nearest(
    py: Python<'_>,
    query: &Bound<'_, PyBytes>,
    rows: Rows<'_>,
    floor: f64,
) -> PyResult<Vec<(f64, u64)>> {
    let numbered: Option<Vec<(u64, &[u8])>> = rows
        .iter()
        .map(|(key, row)| Some((u64::from_be_bytes(*key.as_bytes().last_chunk()?), row.as_bytes())))
        .collect();
    let work = || {
        let wrong = || Error::new(Code::Schema, "a row whose key has no sequence number");
        let query = Query::new(query.as_bytes())?;
        Ok((query, numbered.ok_or_else(wrong)?))
    };
    let (query, numbered) = work().map_err(|e| raise(py, &e))?;
    Ok(py.detach(|| core::nearest(&query, &numbered, floor)))
}
