// SPDX-License-Identifier: Apache-2.0
//! What stands around the cipher of a sealed grain.

use omsgrain_core::sealing::{self as core, How};
use omsgrain_core::{Error, Header};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::raise;

/// The header of the sealed grain, and where in the blob that begins which is to be sealed.
#[pyfunction]
pub fn sealed_header<'py>(
    py: Python<'py>,
    blob: &Bound<'py, PyBytes>,
    whole: bool,
    hidden: bool,
    signed: bool,
) -> PyResult<(Bound<'py, PyBytes>, usize)> {
    let how = How { whole, hidden, signed };
    let (header, start) = core::header(blob.as_bytes(), how).map_err(|e| raise(py, &e))?;
    Ok((PyBytes::new(py, &header.to_bytes()), start))
}

/// What stands before the inner bytes of a sealed grain to give what was sealed.
#[pyfunction]
pub fn plain_header<'py>(
    py: Python<'py>,
    sealed: &Bound<'py, PyBytes>,
    inner: &Bound<'py, PyBytes>,
) -> PyResult<Bound<'py, PyBytes>> {
    let work = || core::before(Header::read(sealed.as_bytes())?, inner.as_bytes());
    let before = work().map_err(|e: Error| raise(py, &e))?;
    Ok(PyBytes::new(py, &before))
}
