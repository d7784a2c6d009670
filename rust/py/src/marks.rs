// SPDX-License-Identifier: Apache-2.0
//! Looking through many blobs.

use omsgrain_core::header::COMPRESSED;
use omsgrain_core::marks::Marks as Core;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Byte strings that are looked for, of two bytes or more.
#[pyclass(frozen, module = "omsgrain._core")]
pub struct Marks(Core);

#[pymethods]
impl Marks {
    #[new]
    fn new(marks: Vec<Vec<u8>>) -> Self {
        Marks(Core::new(marks))
    }

    /// The positions of the blobs in which one of them stands, or which are compressed and may
    /// hide it.
    fn find(&self, blobs: Vec<Bound<'_, PyBytes>>) -> Vec<usize> {
        let hides = |blob: &[u8]| blob.get(1).is_some_and(|flags| flags & COMPRESSED != 0);
        let has = |blob: &Bound<'_, PyBytes>| hides(blob.as_bytes()) || self.0.are_in(blob.as_bytes());
        blobs.iter().enumerate().filter(|(_, blob)| has(blob)).map(|(i, _)| i).collect()
    }
}
