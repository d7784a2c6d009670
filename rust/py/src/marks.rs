// SPDX-License-Identifier: Apache-2.0
//! Looking through many blobs.

use omsgrain_core::header::COMPRESSED;
use omsgrain_core::marks::Marks;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// The positions of those in which one of some byte strings stands, of two bytes or more, or that
/// are compressed and may hide it.
#[pyfunction]
pub fn marked(blobs: Vec<Bound<'_, PyBytes>>, marks: Vec<Vec<u8>>) -> Vec<usize> {
    let search = Marks::new(&marks);
    let hides = |blob: &[u8]| blob.get(1).is_some_and(|flags| flags & COMPRESSED != 0);
    let has = |blob: &Bound<'_, PyBytes>| hides(blob.as_bytes()) || search.are_in(blob.as_bytes());
    blobs.iter().enumerate().filter(|(_, blob)| has(blob)).map(|(i, _)| i).collect()
}
