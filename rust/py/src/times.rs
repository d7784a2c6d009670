// SPDX-License-Identifier: Apache-2.0
//! Times as nearly all are spelled.

use omsgrain_core::datetime;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// Seconds since 1970 of a time such as `2026-01-15T10:00:00Z`; None for any other spelling, for
/// the year 0 and for a leap second.
#[pyfunction]
pub fn usual_seconds(text: &Bound<'_, PyString>) -> Option<i64> {
    let text = text.to_str().ok()?;
    let usual = text.len() == 20 && text.as_bytes()[10] == b'T' && text.ends_with('Z');
    if !usual || text.starts_with("0000") || text.as_bytes()[17] == b'6' {
        return None;
    }
    datetime::parse_rfc3339(text).map(|ms| ms.div_euclid(1000))
}

/// Ms since 1970 as text, with a fraction where it is not whole; None beyond the years 1 to 9999.
#[pyfunction]
pub fn spell_time(millis: i64) -> Option<String> {
    datetime::spell(millis)
}
