// SPDX-License-Identifier: Apache-2.0
//! The tables of addresses of an LMDB store: their rows, and look-ups in them.

use omsgrain_core::addresses::{self, Rest, Row};
use omsgrain_core::{Code, Error};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::raise;
use crate::memtable::whole;

/// Rows of addresses and their sequence numbers, sorted.
#[pyfunction]
pub fn address_rows(
    py: Python<'_>,
    digests: Vec<Bound<'_, PyBytes>>,
    sequences: Vec<u64>,
) -> PyResult<AddressRows> {
    let mut rows = Vec::with_capacity(digests.len());
    for (digest, sequence) in digests.iter().zip(sequences) {
        rows.push(addresses::row(whole(py, digest)?, sequence).map_err(|e| raise(py, &e))?);
    }
    py.detach(|| rows.sort_unstable());
    Ok(AddressRows(rows.into_iter()))
}

/// A walk over rows of addresses.
#[pyclass(module = "omsgrain._core")]
pub struct AddressRows(std::vec::IntoIter<Row>);

#[pymethods]
impl AddressRows {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> Option<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let (key, value) = self.0.next()?;
        Some((PyBytes::new(py, &key), PyBytes::new(py, &value)))
    }
}

/// The grains that a table lists under some addresses: the index of the address, and the number.
///
/// Only the beginning of an address is in the table, so a grain with another address may be among
/// them. The look-ups are in order, since neighbours share pages.
#[pyfunction]
pub fn listed(cursor: &Bound<'_, PyAny>, digests: Vec<Bound<'_, PyBytes>>) -> PyResult<Vec<(usize, u64)>> {
    let mut order: Vec<usize> = (0..digests.len()).collect();
    order.sort_unstable_by_key(|at| digests[*at].as_bytes());
    let mut found = Vec::new();
    for at in order {
        let mut number = first(cursor, digests[at].as_bytes())?;
        while let Some(one) = number {
            found.push((at, one));
            let next = cursor.call_method0(intern!(cursor.py(), "next_dup"))?.is_truthy()?;
            number = if next { number_at(cursor, digests[at].as_bytes())? } else { None };
        }
    }
    Ok(found)
}

/// Moves a cursor to the first grain under an address, and returns its number.
pub fn first(cursor: &Bound<'_, PyAny>, digest: &[u8]) -> PyResult<Option<u64>> {
    let py = cursor.py();
    let Some((key, rest)) = addresses::split(digest) else {
        return Err(raise(py, &Error::new(Code::HashLength, "a digest has 32 bytes")));
    };
    let place = (PyBytes::new(py, key), PyBytes::new(py, rest));
    let there = cursor.call_method1(intern!(py, "set_range_dup"), place)?.is_truthy()?;
    if there { number_at(cursor, digest) } else { Ok(None) }
}

/// The number in the row of a cursor, if the row has the address.
fn number_at(cursor: &Bound<'_, PyAny>, digest: &[u8]) -> PyResult<Option<u64>> {
    let value = cursor.call_method0(intern!(cursor.py(), "value"))?.cast_into::<PyBytes>()?;
    Ok(Rest::try_from(value.as_bytes()).ok().and_then(|value| addresses::number(&value, digest)))
}
