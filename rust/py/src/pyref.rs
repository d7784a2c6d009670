// SPDX-License-Identifier: Apache-2.0
//! Reads Python objects by borrowed references. Counting references of a dict's keys and values,
//! and reading its length at each step, would cost a fifth of writing a grain.
//!
//! The only module of the binding with `unsafe`. Its invariant: an [`Exact`] lives no longer than
//! the [`Bound`] that it, or its container, comes from. While it lives, this thread is attached and
//! no Python code runs, so no container changes during the walk. It inspects only exact types,
//! since a subclass could run code. The functions it calls run no code for an object of an exact
//! type.
//!
//! `shape_cache` names the benchmark rows.
#![allow(unsafe_code)]

use std::borrow::Cow;
use std::marker::PhantomData;
use std::ptr;

use omsgrain_core::{Code, Error, Node, Result, View};
use pyo3::ffi;
use pyo3::prelude::*;

/// An object of a type that is not yet known.
#[derive(Clone, Copy)]
pub struct Exact<'a> {
    object: *mut ffi::PyObject,
    lent: PhantomData<&'a ()>,
}

/// An exact string with its text.
#[derive(Clone, Copy)]
pub struct Key<'a>(&'a str);

impl AsRef<str> for Key<'_> {
    #[inline]
    fn as_ref(&self) -> &str {
        self.0
    }
}

/// An error without a message for uncommon types, which the general code reads again.
#[cold]
pub fn declined() -> Error {
    Error::new(Code::Schema, "not for the shape cache")
}

impl<'a> Exact<'a> {
    /// An object, for the life of the reference; `py` shows that this thread is attached.
    #[inline]
    pub fn new(object: &'a Bound<'_, PyAny>) -> Self {
        Exact::of(object.as_ptr())
    }

    #[inline]
    fn of(object: *mut ffi::PyObject) -> Self {
        Exact { object, lent: PhantomData }
    }

    /// Its place in memory.
    #[inline]
    pub fn place(self) -> usize {
        self.object as usize
    }

    /// A new reference to it.
    pub fn owned(self, py: Python<'_>) -> Py<PyAny> {
        // SAFETY: the object is alive by the invariant, and `py` shows that this thread is
        // attached.
        unsafe { Bound::from_borrowed_ptr(py, self.object) }.unbind()
    }

    #[inline]
    fn is(self, kind: *mut ffi::PyTypeObject) -> bool {
        // SAFETY: the object is alive; only its type is read.
        ptr::eq(unsafe { ffi::Py_TYPE(self.object) }, kind)
    }

    /// Its text, if it is an exact string.
    #[inline]
    pub fn text(self) -> Option<&'a str> {
        if self.is(&raw mut ffi::PyUnicode_Type) { self.utf8() } else { None }
    }

    /// The text of an exact string.
    #[inline]
    fn utf8(self) -> Option<&'a str> {
        let mut size = 0;
        // SAFETY: the caller checked that it is a string. CPython returns valid UTF-8 of this size,
        // and keeps it as long as the string. On failure it returns null with an exception, which
        // is cleared here.
        unsafe {
            let bytes = ffi::PyUnicode_AsUTF8AndSize(self.object, &raw mut size);
            if bytes.is_null() {
                ffi::PyErr_Clear();
                return None;
            }
            Some(str::from_utf8_unchecked(std::slice::from_raw_parts(bytes.cast(), size as usize)))
        }
    }

    /// The number of code points of an exact string, without making UTF-8.
    #[inline]
    pub fn letters(self) -> Option<usize> {
        if !self.is(&raw mut ffi::PyUnicode_Type) {
            return None;
        }
        // SAFETY: it is a string, for which this cannot fail.
        usize::try_from(unsafe { ffi::PyUnicode_GetLength(self.object) }).ok()
    }

    #[inline]
    fn int(self) -> Option<i64> {
        let mut overflow = 0;
        // SAFETY: the caller checked that it is an int. For an int only an overflow is an error,
        // and it is reported without an exception.
        let value = unsafe { ffi::PyLong_AsLongLongAndOverflow(self.object, &raw mut overflow) };
        (overflow == 0).then_some(value)
    }

    /// The content of exact bytes.
    #[inline]
    fn content(self) -> &'a [u8] {
        // SAFETY: the caller checked that it is bytes, for which neither can fail. Bytes never
        // change, and live as long as the object.
        unsafe {
            let (start, size) = (ffi::PyBytes_AsString(self.object), ffi::PyBytes_Size(self.object));
            std::slice::from_raw_parts(start.cast(), size as usize)
        }
    }

    /// Whether it is an exact dict.
    #[inline]
    pub fn is_dict(self) -> bool {
        self.is(&raw mut ffi::PyDict_Type)
    }

    /// Visits the entries of an exact dict until `visit` returns false; of any other object, none.
    #[inline]
    pub fn entries(self, mut visit: impl FnMut(Exact<'a>, Exact<'a>) -> bool) {
        if !self.is_dict() {
            return;
        }
        let (mut at, mut key, mut value) = (0, ptr::null_mut(), ptr::null_mut());
        // SAFETY: it is a dict, and nothing changes it between the steps.
        while unsafe { ffi::PyDict_Next(self.object, &raw mut at, &raw mut key, &raw mut value) } != 0 {
            if !visit(Exact::of(key), Exact::of(value)) {
                return;
            }
        }
    }
}

impl<'a> Node for Exact<'a> {
    type Key = Key<'a>;

    // Inlined: callers know most of the possible views, so most branches disappear.
    #[inline(always)]
    fn view(&self) -> Result<View<'_>> {
        if self.is(&raw mut ffi::PyUnicode_Type) {
            return self.utf8().map(View::Str).ok_or_else(declined);
        }
        if self.is(&raw mut ffi::PyFloat_Type) {
            // SAFETY: it is a float, for which this cannot fail.
            return Ok(View::Float(unsafe { ffi::PyFloat_AsDouble(self.object) }));
        }
        if self.is(&raw mut ffi::PyLong_Type) {
            return self.int().map(View::Int).ok_or_else(declined);
        }
        if self.is(&raw mut ffi::PyList_Type) {
            return Ok(View::List);
        }
        if self.is(&raw mut ffi::PyDict_Type) {
            return Ok(View::Map);
        }
        if self.is(&raw mut ffi::PyBytes_Type) {
            return Ok(View::Bytes(Cow::Borrowed(self.content())));
        }
        if self.is(&raw mut ffi::PyBool_Type) {
            // SAFETY: the singletons live as long as the interpreter.
            return Ok(View::Bool(ptr::eq(self.object, unsafe { ffi::Py_True() })));
        }
        if self.is_null() { Ok(View::Null) } else { Err(declined()) }
    }

    #[inline]
    fn is_null(&self) -> bool {
        // SAFETY: as for `Py_True`.
        ptr::eq(self.object, unsafe { ffi::Py_None() })
    }

    #[inline]
    fn list_len(&self) -> usize {
        if !self.is(&raw mut ffi::PyList_Type) {
            return 0;
        }
        // SAFETY: it is a list, for which this cannot fail.
        usize::try_from(unsafe { ffi::PyList_Size(self.object) }).unwrap_or(0)
    }

    fn each_item(&self, visit: &mut dyn FnMut(Self) -> Result<()>) -> Result<()> {
        for i in 0..self.list_len() {
            // SAFETY: it is a list with this many items, and nothing removes them meanwhile.
            visit(Exact::of(unsafe { ffi::PyList_GetItem(self.object, i as ffi::Py_ssize_t) }))?;
        }
        Ok(())
    }

    fn each_entry(&self, visit: &mut dyn FnMut(Self::Key, Self) -> Result<()>) -> Result<()> {
        let mut done = Ok(());
        self.entries(|key, value| {
            done = key.text().ok_or_else(declined).and_then(|text| visit(Key(text), value));
            done.is_ok()
        });
        done
    }
}
