// SPDX-License-Identifier: Apache-2.0
//! The usual rows of a mapping, many at once: the fast path of `Mapping.apply` for benchmark row
//! S3-mapped. A row with anything unusual is left to Python.

use omsgrain_core::datetime::parse_rfc3339;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyInt, PyString};

/// More digits may not fit in 64 bits.
const DIGITS: usize = 18;
/// Up to here a float has each whole number.
const EXACT: u64 = 1 << 53;

/// A column; the kind of its cells; whether it may be inside an object, where Python must look;
/// milliseconds of its unit of time; the field, or the field and a member.
type Rule = (Py<PyString>, String, bool, Option<f64>, Vec<Py<PyString>>);

/// The kinds of cells that are read here.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Text,
    Number,
    Comma,
    Any,
    Time,
    Utc,
}

/// Returns the fields of each row, beside those of `fixed`; None for a row that Python must read.
#[pyfunction]
pub fn map_rows<'py>(
    rows: Vec<Bound<'py, PyDict>>,
    fixed: &Bound<'py, PyDict>,
    rules: Vec<Rule>,
) -> PyResult<Vec<Option<Bound<'py, PyDict>>>> {
    let kinds: Vec<Option<Kind>> = rules.iter().map(|rule| kind(&rule.1)).collect();
    rows.iter().map(|row| map_row(row, fixed, &rules, &kinds)).collect()
}

fn kind(name: &str) -> Option<Kind> {
    Some(match name {
        "text" => Kind::Text,
        "number" => Kind::Number,
        "decimal_comma" => Kind::Comma,
        "any" => Kind::Any,
        "time" => Kind::Time,
        "utc" => Kind::Utc,
        _ => return None,
    })
}

fn map_row<'py>(
    row: &Bound<'py, PyDict>,
    fixed: &Bound<'py, PyDict>,
    rules: &[Rule],
    kinds: &[Option<Kind>],
) -> PyResult<Option<Bound<'py, PyDict>>> {
    let py = row.py();
    let fields = fixed.copy()?;
    for ((column, _, nested, unit, path), kind) in rules.iter().zip(kinds) {
        let cell = row.get_item(column)?.filter(|cell| !cell.is_none());
        let Some(cell) = cell else {
            if *nested {
                return Ok(None);
            }
            continue;
        };
        let text = cell.cast_exact::<PyString>().ok().map(|text| text.to_str()).transpose();
        let Ok(text) = text else { return Ok(None) }; // it is not UTF-8
        if text == Some("") {
            continue;
        }
        let Some(value) = kind.and_then(|kind| read(&cell, text, kind, *unit)) else { return Ok(None) };
        match path.as_slice() {
            [name] => fields.set_item(name, value)?,
            [name, member] => {
                let inner = match fields.get_item(name)? {
                    Some(inner) => inner.cast_into::<PyDict>().ok(),
                    None => {
                        let inner = PyDict::new(py);
                        fields.set_item(name, &inner)?;
                        Some(inner)
                    }
                };
                let Some(inner) = inner else { return Ok(None) };
                inner.set_item(member, value)?;
            }
            _ => return Ok(None),
        }
    }
    Ok(Some(fields))
}

/// The value of a cell; None if Python must read it.
fn read<'py>(
    cell: &Bound<'py, PyAny>,
    text: Option<&str>,
    kind: Kind,
    unit: Option<f64>,
) -> Option<Bound<'py, PyAny>> {
    let py = cell.py();
    let Some(text) = text else {
        let finite = cell.cast_exact::<PyFloat>().is_ok_and(|number| number.value().is_finite());
        let is_whole = cell.cast_exact::<PyInt>().is_ok();
        return match kind {
            Kind::Number | Kind::Comma if finite => Some(cell.clone()),
            Kind::Number | Kind::Comma if is_whole => exact(cell.extract().ok()?, py),
            Kind::Any if finite || is_whole => Some(cell.clone()),
            Kind::Time if is_whole => {
                let ms = scaled(cell.extract::<i64>().ok()?, unit?)?;
                Some(ms.into_pyobject(py).ok()?.into_any())
            }
            _ => None,
        };
    };
    if kind == Kind::Comma {
        if number_with(text, b',') == Some(true) {
            return exact(text.parse().ok()?, py);
        }
        let value: f64 = text.replacen(',', ".", 1).parse().ok()?;
        return (!text.contains('.') && number_with(text, b',').is_some())
            .then(|| PyFloat::new(py, value).into_any());
    }
    match (kind, number_with(text, b'.')) {
        (Kind::Text, _) => Some(cell.clone()),
        (Kind::Number, Some(true)) => exact(text.parse().ok()?, py),
        (Kind::Number, Some(false)) => {
            let value: f64 = text.parse().ok()?;
            value.is_finite().then(|| PyFloat::new(py, value).into_any())
        }
        (Kind::Any, Some(true)) => Some(text.parse::<i64>().ok()?.into_pyobject(py).ok()?.into_any()),
        (Kind::Any, Some(false)) => {
            let value: f64 = text.parse().ok()?;
            value.is_finite().then(|| PyFloat::new(py, value).into_any())
        }
        (Kind::Any, None)
            if !text.starts_with(|c: char| matches!(c, '{' | '[' | '-') || c.is_ascii_digit()) =>
        {
            Some(cell.clone())
        }
        (Kind::Time, Some(true)) => {
            let ms = scaled(text.parse().ok()?, unit?)?;
            Some(ms.into_pyobject(py).ok()?.into_any())
        }
        (Kind::Utc, None) => {
            let ms = parse_rfc3339(&format!("{text}Z")).or_else(|| parse_rfc3339(text))?;
            Some(ms.into_pyobject(py).ok()?.into_any())
        }
        (Kind::Time, None) if unit.is_none() => Some(parse_rfc3339(text)?.into_pyobject(py).ok()?.into_any()),
        _ => None,
    }
}

/// A whole number as a float that has all its digits.
fn exact(number: i64, py: Python<'_>) -> Option<Bound<'_, PyAny>> {
    (number.unsigned_abs() <= EXACT).then(|| PyFloat::new(py, number as f64).into_any())
}

/// Whether a text is a number of JSON with this decimal sign, and, if it is, whether it has digits
/// alone.
fn number_with(text: &str, sign: u8) -> Option<bool> {
    let bytes = text.strip_prefix('-').unwrap_or(text).as_bytes();
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 || digits > DIGITS || (digits > 1 && bytes[0] == b'0') {
        return None;
    }
    if digits == bytes.len() {
        return Some(true);
    }
    let fraction = bytes[digits..].strip_prefix(&[sign])?;
    (!fraction.is_empty() && fraction.iter().all(u8::is_ascii_digit)).then_some(false)
}

/// A whole number of a unit in milliseconds, rounded as Python rounds.
fn scaled(number: i64, unit: f64) -> Option<i64> {
    if unit >= 1.0 {
        return number.checked_mul(unit as i64);
    }
    Some((number as f64 * unit).round_ties_even() as i64)
}
