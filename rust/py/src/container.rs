// SPDX-License-Identifier: Apache-2.0
//! The byte-level parts of a container: blocks of grains, ends of grains, packed frames.

use std::io::{self, BufRead, Read};
use std::sync::{Mutex, PoisonError};

use omsgrain_core::frames::{self, Codec, Packing, Unpacking};
use omsgrain_core::{Code, Error, block, extent as core};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PySlice};

use crate::error::{exception, raise};

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

/// Whether a `FrameReader` must read the frame that begins here: it is large, or has no stated
/// size.
#[pyfunction]
pub fn is_long_frame(py: Python<'_>, number: u8, head: &Bound<'_, PyBytes>) -> PyResult<bool> {
    Ok(frames::is_long(codec(py, number)?, head.as_bytes()))
}

/// An unfinished frame, for content of a known size.
#[pyclass(frozen, module = "omsgrain._core")]
pub struct FramePacker(Mutex<Option<Packing>>);

#[pymethods]
impl FramePacker {
    #[new]
    fn new(py: Python<'_>, number: u8, size: u64) -> PyResult<Self> {
        let packing = Packing::new(codec(py, number)?, size).map_err(|e| raise(py, &e))?;
        Ok(FramePacker(Mutex::new(Some(packing))))
    }

    /// Adds content, and returns the bytes of the frame that are ready.
    fn add<'py>(&self, py: Python<'py>, bytes: &Bound<'py, PyBytes>) -> PyResult<Bound<'py, PyBytes>> {
        let plain = bytes.as_bytes();
        self.work(py, |packing| packing.as_mut().ok_or_else(ended)?.add(plain))
    }

    /// Ends the frame, and returns its last bytes.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.work(py, |packing| packing.take().ok_or_else(ended)?.finish())
    }
}

impl FramePacker {
    fn work<'py>(
        &self,
        py: Python<'py>,
        work: impl FnOnce(&mut Option<Packing>) -> omsgrain_core::Result<Vec<u8>> + Send,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let made = py.detach(|| work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner)));
        made.map(|bytes| PyBytes::new(py, &bytes)).map_err(|e| raise(py, &e))
    }
}

fn ended() -> Error {
    Error::new(Code::Unsupported, "the frame is already complete")
}

/// A frame of any size, unpacked piece by piece from a mapped file.
#[pyclass(frozen, module = "omsgrain._core")]
pub struct FrameReader(Mutex<Unpacking<Mapped>>);

#[pymethods]
impl FrameReader {
    /// The frame that begins at `start` of `data`, and ends before `end`. `data` is read in slices.
    #[new]
    fn new(py: Python<'_>, number: u8, data: Py<PyAny>, start: u64, end: u64) -> PyResult<Self> {
        let codec = codec(py, number)?;
        let mapped = Mapped { data, at: start, end, piece: Vec::new(), used: 0 };
        let unpacking = py.detach(|| Unpacking::new(codec, mapped));
        unpacking.map(|unpacking| FrameReader(Mutex::new(unpacking))).map_err(|e| unread(py, e))
    }

    /// Returns this many bytes; fewer only at the end of the frame.
    fn read<'py>(&self, py: Python<'py>, size: u64) -> PyResult<Bound<'py, PyBytes>> {
        let mut out = Vec::new();
        let read = py.detach(|| {
            let mut unpacking = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            unpacking.by_ref().take(size).read_to_end(&mut out)
        });
        read.map(|_| PyBytes::new(py, &out)).map_err(|e| unread(py, e))
    }

    /// The length of the frame, as far as it was read.
    #[getter]
    fn taken(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).taken()
    }
}

fn unread(py: Python<'_>, error: io::Error) -> PyErr {
    if error.get_ref().is_some_and(|inner| inner.is::<PyErr>()) {
        return error.into();
    }
    match error.kind() {
        io::ErrorKind::OutOfMemory => raise(
            py,
            &Error::new(Code::TooLarge, "the window of the frame is larger than the limit")
                .expected(format!("at most {} bytes", frames::MAX_WINDOW)),
        ),
        _ => raise(py, &Error::new(Code::Corrupt, "a broken frame")),
    }
}

/// Reads the bytes of a sliceable Python object, a piece at a time.
struct Mapped {
    data: Py<PyAny>,
    at: u64,
    end: u64,
    piece: Vec<u8>,
    used: usize,
}

const PIECE: u64 = 256 << 10;

impl BufRead for Mapped {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.used == self.piece.len() && self.at < self.end {
            let stop = self.end.min(self.at + PIECE);
            self.piece = Python::attach(|py| {
                let slice = PySlice::new(py, self.at as isize, stop as isize, 1);
                let piece = self.data.bind(py).get_item(slice)?;
                Ok::<_, PyErr>(piece.cast::<PyBytes>()?.as_bytes().to_vec())
            })?;
            self.used = 0;
            self.at = stop;
        }
        Ok(&self.piece[self.used..])
    }

    fn consume(&mut self, size: usize) {
        self.used += size;
    }
}

impl Read for Mapped {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let piece = self.fill_buf()?;
        let size = piece.len().min(out.len());
        out[..size].copy_from_slice(&piece[..size]);
        self.consume(size);
        Ok(size)
    }
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

/// Unpacks one whole frame.
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

/// The result for the grains of a block: digests; positions of those that are not plain blobs, and
/// were only hashed; (position, exception) of each invalid plain blob.
type Checked<'py> = (Bound<'py, PyBytes>, Vec<usize>, Vec<(usize, Py<PyAny>)>);

/// Checks the plain blobs in a block of grains with these sizes.
#[pyfunction]
pub fn check_block<'py>(
    py: Python<'py>,
    bytes: &Bound<'py, PyBytes>,
    sizes: &Bound<'py, PyBytes>,
) -> PyResult<Checked<'py>> {
    let (bytes, sizes) = (bytes.as_bytes(), sizes.as_bytes());
    let checked = py.detach(|| block::split(bytes, sizes).map(|grains| block::check(&grains)));
    let checked = checked.map_err(|e| raise(py, &e))?;
    let wrong = checked.wrong.iter().map(|(i, error)| Ok((*i, exception(py, error, None)?)));
    let wrong = wrong.collect::<PyResult<_>>()?;
    Ok((PyBytes::new(py, checked.digests.as_flattened()), checked.special, wrong))
}

/// (address, blob) of some plain blobs; None if one is invalid.
#[pyfunction]
pub fn check_plain<'py>(
    py: Python<'py>,
    blobs: Vec<Bound<'py, PyBytes>>,
) -> PyResult<Option<Bound<'py, PyList>>> {
    let views: Vec<&[u8]> = blobs.iter().map(|blob| blob.as_bytes()).collect();
    let checked = py.detach(|| block::check(&views));
    if !(checked.special.is_empty() && checked.wrong.is_empty()) {
        return Ok(None);
    }
    let digests = checked.digests.iter().map(|digest| PyBytes::new(py, digest));
    PyList::new(py, digests.zip(blobs)).map(Some)
}

/// The grains of a block, one by one.
#[pyfunction]
pub fn split_block<'py>(
    py: Python<'py>,
    bytes: &Bound<'py, PyBytes>,
    sizes: &Bound<'py, PyBytes>,
) -> PyResult<Bound<'py, PyList>> {
    let grains = block::split(bytes.as_bytes(), sizes.as_bytes()).map_err(|e| raise(py, &e))?;
    PyList::new(py, grains.iter().map(|grain| PyBytes::new(py, grain)))
}

/// The first grain of a block that is earlier than the one before it; otherwise the time of the
/// last. It ignores the grains of `skipped`, which rise.
#[pyfunction]
pub fn block_order(
    py: Python<'_>,
    bytes: &Bound<'_, PyBytes>,
    sizes: &Bound<'_, PyBytes>,
    last: u32,
    skipped: Vec<usize>,
) -> PyResult<(Option<usize>, u32)> {
    let grains = block::split(bytes.as_bytes(), sizes.as_bytes()).map_err(|e| raise(py, &e))?;
    Ok(match block::out_of_order(&grains, last, &skipped) {
        Ok(last) => (None, last),
        Err(first) => (Some(first), last),
    })
}

/// (bytes, sizes, digests, union of all flags) of stored blobs.
type Packed<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>, u8);

/// Stored rows as a block, each a blob after the first bytes of its digest; None if one is damaged.
#[pyfunction]
pub fn pack_rows<'py>(
    py: Python<'py>,
    rows: Vec<Bound<'py, PyBytes>>,
    mark: usize,
) -> PyResult<Option<Packed<'py>>> {
    let rows: Vec<&[u8]> = rows.iter().map(|row| row.as_bytes()).collect();
    let Some(digests) = py.detach(|| block::sound(&rows, mark)) else { return Ok(None) };
    let blobs: Vec<&[u8]> = rows.iter().map(|row| &row[mark..]).collect();
    let sizes: Vec<[u8; 4]> = blobs.iter().map(|blob| (blob.len() as u32).to_ne_bytes()).collect();
    let flags = blobs.iter().fold(0, |all, blob| all | blob.get(1).unwrap_or(&0));
    let bytes = PyBytes::new_with(py, blobs.iter().map(|blob| blob.len()).sum(), |mut left| {
        for blob in &blobs {
            let (here, behind) = left.split_at_mut(blob.len());
            here.copy_from_slice(blob);
            left = behind;
        }
        Ok(())
    })?;
    let python = |bytes: &[u8]| PyBytes::new(py, bytes);
    Ok(Some((bytes, python(sizes.as_flattened()), python(digests.as_flattened()), flags)))
}
