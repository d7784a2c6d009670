// SPDX-License-Identifier: Apache-2.0
//! Encodes many grains into one arena of blobs, from which Python reads single ones.

use omsgrain_core::batch;
use omsgrain_core::batch::Batch as Core;
use omsgrain_core::decode::Parsed;
use omsgrain_core::encode::encode_into;
use omsgrain_core::json::lines;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

use crate::convert::Object;
use crate::error::{exception, interrupt};
use crate::functions::{PyOptions, hex};
use crate::pyref::Exact;
use crate::{like, shape_cache};

/// (position, line, exception)
type Refused = (usize, Option<usize>, Py<PyAny>);

/// The good grains of a batch, and the refused items.
#[pyclass(frozen, module = "omsgrain._core")]
pub struct Batch(Core);

#[pymethods]
impl Batch {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// The addresses, as hex.
    fn addresses<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.0.digests.iter().map(|digest| hex(py, digest)))
    }

    /// The addresses, as 32 bytes each.
    fn digests<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.0.digests.iter().map(|digest| PyBytes::new(py, digest)))
    }

    /// The blobs.
    fn blobs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, (0..self.0.len()).map(|i| PyBytes::new(py, self.0.blob(i))))
    }

    /// One address and blob.
    fn item<'py>(&self, py: Python<'py>, i: usize) -> PyResult<(Bound<'py, PyString>, Bound<'py, PyBytes>)> {
        let digest = self.0.digests.get(i).ok_or_else(|| PyIndexError::new_err("no such grain"))?;
        Ok((hex(py, digest), PyBytes::new(py, self.0.blob(i))))
    }

    /// The input position of each good grain.
    fn indices(&self) -> Vec<usize> {
        self.0.indices.clone()
    }

    /// Whether each good grain's blob, read again, equals its item: the same fields, with values of
    /// the same types. With `ordered`, the keys of objects inside them must have the same order
    /// too.
    fn is_like(&self, py: Python<'_>, items: &Bound<'_, PyList>, ordered: bool) -> PyResult<Vec<bool>> {
        let batch = &self.0;
        let blobs: Vec<&[u8]> = (0..batch.len()).map(|i| batch.blob(i)).collect();
        let mut like = Vec::with_capacity(blobs.len());
        let take = |at: usize, grain: omsgrain_core::Result<Parsed<'_>>, (): ()| {
            let item = items.get_item(batch.indices[at])?;
            let same = |grain| like::is_like(Exact::new(&item), &grain, blobs[at], ordered);
            like.push(grain.is_ok_and(same));
            PyResult::Ok(())
        };
        batch::read_each(&blobs, |_, _| (), |work| py.detach(work), take)?;
        Ok(like)
    }

    /// (position, line, exception) of each refused item.
    fn errors(&self, py: Python<'_>) -> PyResult<Vec<Refused>> {
        self.0.refused.iter().map(|r| Ok((r.index, r.line, exception(py, &r.error, r.line)?))).collect()
    }

    /// (position, line, message) of each warning.
    fn warnings(&self) -> Vec<(usize, Option<usize>, String)> {
        self.0.warned.iter().map(|w| (w.index, w.line, w.message.clone())).collect()
    }
}

/// The number of grains between two checks for Ctrl-C: some milliseconds.
const LOOK: usize = 4096;

/// Encodes many fields-objects. It reads Python objects under the GIL, and hashes without it.
#[pyfunction]
pub fn encode_many(
    py: Python<'_>,
    items: &Bound<'_, PyAny>,
    options: PyOptions,
    stop: bool,
) -> PyResult<Batch> {
    let options = options.options()?;
    let mut batch = Core::default();
    for (i, item) in items.try_iter()?.enumerate() {
        let item = item?;
        if i.is_multiple_of(LOOK) {
            py.check_signals()?;
        }
        if batch.put(i, |out| shape_cache::encode(&item, &options, out)) {
            continue;
        }
        let node = Object(item);
        batch.add(i, None, |out, warnings| encode_into(&node, &options, out, warnings));
        if let Some(interrupt) = interrupt() {
            return Err(interrupt);
        }
        if stop && !batch.refused.is_empty() {
            break;
        }
    }
    py.detach(|| batch.hash());
    Ok(Batch(batch))
}

/// Encodes JSON lines, without the GIL.
#[pyfunction]
pub fn encode_jsonl(py: Python<'_>, text: &Bound<'_, PyBytes>, options: PyOptions) -> PyResult<Batch> {
    let options = options.options()?;
    let text = text.as_bytes();
    Ok(Batch(py.detach(|| lines::encode_jsonl(text, &options))))
}
