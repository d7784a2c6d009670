// SPDX-License-Identifier: Apache-2.0
//! The core's error as a Python exception, which `omsgrain.errors.from_core` makes.

use std::cell::RefCell;

use omsgrain_core::{Code, Error};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

/// The exception object for an error.
pub fn exception(py: Python<'_>, error: &Error, line: Option<usize>) -> PyResult<Py<PyAny>> {
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = MAKE.import(py, "omsgrain.errors", "from_core")?;
    let place = PyDict::new(py);
    place.set_item("field", error.pointer())?;
    place.set_item("offset", error.offset())?;
    place.set_item("line", line)?;
    place.set_item("expected", error.expectation())?;
    place.set_item("found", error.finding())?;
    Ok(make.call((error.code(), error.message()), Some(&place))?.unbind())
}

thread_local! {
    /// An interrupt (Ctrl-C, exit) from Python code that the encoder called.
    static INTERRUPT: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// The core's error for a Python object whose code failed while it was read.
#[cold]
pub fn unreadable(py: Python<'_>, what: &'static str, cause: PyErr) -> Error {
    if !cause.is_instance_of::<PyException>(py) {
        INTERRUPT.set(Some(cause));
    }
    Error::new(Code::Schema, format!("{what} that cannot be read"))
}

/// The interrupt since the last call, if there was one.
pub fn interrupt() -> Option<PyErr> {
    INTERRUPT.take()
}

/// The exception to raise; an interrupt takes precedence.
pub fn raise(py: Python<'_>, error: &Error) -> PyErr {
    if let Some(interrupt) = interrupt() {
        return interrupt;
    }
    match exception(py, error, None) {
        Ok(value) => PyErr::from_value(value.into_bound(py)),
        Err(broken) => broken,
    }
}
