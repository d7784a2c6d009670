// SPDX-License-Identifier: Apache-2.0
//! Columns of many stored grains, as buffers that pyarrow uses directly.

use omsgrain_core::block;
use omsgrain_core::columns::{self, Shape};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::raise;

/// The bitmap of the rows with a value, or None if all have one; the number of rows without;
/// offsets; offsets of the entries of lists; values.
type Buffers<'py> =
    (Option<Bound<'py, PyBytes>>, usize, Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// Returns the chosen fields of stored blobs, each as the buffers of a column. None if only
/// `decode_many` can read one of the grains, or a kind has no buffers here.
#[pyfunction]
pub fn field_columns<'py>(
    py: Python<'py>,
    blobs: Vec<Bound<'py, PyBytes>>,
    wanted: Vec<(String, String)>,
) -> PyResult<Option<Vec<Buffers<'py>>>> {
    let shaped: Option<Vec<(String, Shape)>> =
        wanted.into_iter().map(|(name, kind)| Some((name, shape(&kind)?))).collect();
    let Some(wanted) = shaped else { return Ok(None) };
    let views: Vec<&[u8]> = blobs.iter().map(|blob| blob.as_bytes()).collect();
    let Some(found) = py.detach(|| columns::read(&views, &wanted)).map_err(|e| raise(py, &e))? else {
        return Ok(None);
    };
    let bytes = |bytes: &[u8]| PyBytes::new(py, bytes);
    let offsets = |all: &[i32]| {
        let all: Vec<[u8; 4]> = all.iter().map(|offset| offset.to_ne_bytes()).collect();
        bytes(all.as_flattened())
    };
    let buffers = found.iter().map(|column| {
        let present = (column.nulls > 0).then(|| bytes(&column.present));
        (present, column.nulls, offsets(&column.offsets), offsets(&column.entries), bytes(&column.values))
    });
    Ok(Some(buffers.collect()))
}

/// Returns the blobs of rows, each after the first `mark` bytes of its address; None if one is
/// damaged.
#[pyfunction]
pub fn sound_blobs<'py>(
    py: Python<'py>,
    rows: Vec<Bound<'py, PyBytes>>,
    mark: usize,
) -> Option<Vec<Bound<'py, PyBytes>>> {
    let views: Vec<&[u8]> = rows.iter().map(|row| row.as_bytes()).collect();
    py.detach(|| block::sound(&views, mark))?;
    Some(views.iter().map(|row| PyBytes::new(py, &row[mark..])).collect())
}

/// The shape of a kind of column, by its name in `store/arrow.py`.
fn shape(kind: &str) -> Option<Shape> {
    Some(match kind {
        "text" => Shape::Text,
        "float" => Shape::Float,
        "int" | "time" => Shape::Int,
        "bool" => Shape::Bool,
        "texts" => Shape::Texts,
        _ => return None,
    })
}
