// SPDX-License-Identifier: Apache-2.0
//! The parts of a container that are bytes: where grains end, and packed frames.

use omsgrain_core::frames::{self, Codec};
use omsgrain_core::{Code, Error, extent as core};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::raise;

fn codec(py: Python<'_>, number: u8) -> PyResult<Codec> {
    match number {
        1 => Ok(Codec::Zstd),
        2 => Ok(Codec::Lz4),
        _ => Err(raise(
            py,
            &Error::new(Code::Unsupported, "unknown container codec").expected("1 zstd or 2 lz4"),
        )),
    }
}

/// The length of the grain at the start of some bytes; None if it is sealed.
#[pyfunction]
pub fn extent(py: Python<'_>, bytes: &Bound<'_, PyBytes>) -> PyResult<Option<usize>> {
    core::extent(bytes.as_bytes()).map_err(|e| raise(py, &e))
}

/// The blob in a COSE_Sign1 envelope, unverified.
#[pyfunction]
pub fn envelope_blob<'py>(py: Python<'py>, bytes: &Bound<'py, PyBytes>) -> PyResult<Bound<'py, PyBytes>> {
    core::envelope(bytes.as_bytes()).map(|(blob, _)| PyBytes::new(py, blob)).map_err(|e| raise(py, &e))
}

/// One packed frame.
#[pyfunction]
pub fn pack_frame<'py>(
    py: Python<'py>,
    number: u8,
    bytes: &Bound<'py, PyBytes>,
) -> PyResult<Bound<'py, PyBytes>> {
    let (codec, plain) = (codec(py, number)?, bytes.as_bytes());
    let frame = py.detach(|| frames::pack(codec, plain)).map_err(|e| raise(py, &e))?;
    Ok(PyBytes::new(py, &frame))
}

/// (length, unpacked length) of the frame at the start of some bytes; None if none begins there.
#[pyfunction]
pub fn measure_frame(
    py: Python<'_>,
    number: u8,
    bytes: &Bound<'_, PyBytes>,
) -> PyResult<Option<(usize, usize)>> {
    frames::measure(codec(py, number)?, bytes.as_bytes()).map_err(|e| raise(py, &e))
}

/// What one whole frame unpacks to.
#[pyfunction]
pub fn unpack_frame<'py>(
    py: Python<'py>,
    number: u8,
    frame: &Bound<'py, PyBytes>,
) -> PyResult<Bound<'py, PyBytes>> {
    let (codec, packed) = (codec(py, number)?, frame.as_bytes());
    let plain = py.detach(|| frames::unpack(codec, packed)).map_err(|e| raise(py, &e))?;
    Ok(PyBytes::new(py, &plain))
}
