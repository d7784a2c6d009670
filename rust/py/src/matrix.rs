// SPDX-License-Identifier: Apache-2.0
//! The vectors of one model in memory.

use std::sync::{Mutex, MutexGuard, PoisonError};

use omsgrain_core::vectors::{Matrix, Query};
use omsgrain_core::{Code, Error};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::raise;

/// Vectors of one dimension by the sequence number at the end of their keys.
#[pyclass(frozen, module = "omsgrain._core")]
pub struct VectorMatrix(Mutex<Matrix>);

#[pymethods]
impl VectorMatrix {
    #[new]
    fn new(dimension: usize) -> Self {
        VectorMatrix(Mutex::new(Matrix::new(dimension)))
    }

    fn __len__(&self) -> usize {
        self.matrix().len()
    }

    /// Sets vectors: their keys and values.
    fn set(&self, py: Python<'_>, rows: Vec<(Bound<'_, PyBytes>, Bound<'_, PyBytes>)>) -> PyResult<()> {
        let mut matrix = self.matrix();
        for (key, row) in &rows {
            let Some(number) = key.as_bytes().last_chunk() else {
                return Err(raise(py, &Error::new(Code::Schema, "a row whose key has no sequence number")));
            };
            matrix.set(u64::from_be_bytes(*number), row.as_bytes());
        }
        Ok(())
    }

    /// Removes the vectors of some numbers, and overwrites their bytes.
    fn remove(&self, numbers: Vec<u64>) {
        let mut matrix = self.matrix();
        for number in numbers {
            matrix.remove(number);
        }
    }

    /// (cosine, sequence number) of the nearest, the nearest first.
    fn nearest(&self, py: Python<'_>, query: &Bound<'_, PyBytes>, most: usize) -> PyResult<Vec<(f64, u64)>> {
        let query = Query::new(query.as_bytes()).map_err(|e| raise(py, &e))?;
        Ok(py.detach(|| self.matrix().nearest(&query, most)))
    }
}

impl VectorMatrix {
    fn matrix(&self) -> MutexGuard<'_, Matrix> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
