// SPDX-License-Identifier: Apache-2.0
//! The lane for Python dicts: those of a shape seen before, of the common types alone.

use std::cell::RefCell;

use omsgrain_core::encode::Options;
use omsgrain_core::fields::Side;
use omsgrain_core::lane::{Cache, Plan, write};
use omsgrain_core::{Code, Error, Node, Result, View};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString};
use smallvec::SmallVec;

/// The plans of the shapes seen last, known by their very key objects. The keys are owned, so that
/// their place in memory cannot come to mean other keys.
#[derive(Default)]
struct Lane(Cache<Vec<Py<PyString>>>);

thread_local! {
    static LANE: RefCell<Lane> = RefCell::default();
}

type Row<T> = SmallVec<[T; 24]>;

/// Appends the blob of a dict; on false it was declined, and `out` is as it was. No Python code
/// runs here, so that nothing else can ask for the lane of this thread meanwhile.
pub fn encode(fields: &Bound<'_, PyAny>, options: &Options, out: &mut Vec<u8>) -> bool {
    LANE.with_borrow_mut(|lane| lane.encode(fields, options, out))
}

impl Lane {
    fn encode(&mut self, fields: &Bound<'_, PyAny>, options: &Options, out: &mut Vec<u8>) -> bool {
        let Ok(dict) = fields.cast_exact::<PyDict>() else { return false };
        if dict.len() > Plan::MAX_KEYS {
            return false;
        }
        let (mut keys, mut nodes): (Row<Bound<'_, PyAny>>, Row<Exact<'_>>) =
            (SmallVec::new(), SmallVec::new());
        for (key, value) in dict {
            keys.push(key);
            nodes.push(Exact(value));
        }
        let text = |place: usize| nodes[place].0.cast_exact::<PyString>().ok()?.to_str().ok();
        let same = |held: &Vec<Py<PyString>>, plan: &Plan| {
            held.len() == keys.len()
                && held.iter().zip(&keys).enumerate().all(|(i, (own, key))| {
                    own.as_ptr() == key.as_ptr() || name(key).is_some_and(|name| name == &*plan.names[i])
                })
                && plan.has_texts(text)
        };
        if let Some(plan) = self.0.find(same) {
            return write(plan, &nodes, options, out);
        }
        if !self.0.is_worth_learning() {
            return false;
        }
        let names: Option<Row<&str>> = keys.iter().map(name).collect();
        let plan = names.and_then(|names| Plan::learn(Side::Write, &names, text));
        let written = plan.as_ref().is_some_and(|plan| write(plan, &nodes, options, out));
        let keys = keys.into_iter().map_while(|key| Some(key.cast_into::<PyString>().ok()?.unbind()));
        self.0.hold(keys.collect(), plan);
        written
    }
}

fn name<'a>(key: &'a Bound<'_, PyAny>) -> Option<&'a str> {
    key.cast_exact::<PyString>().ok()?.to_str().ok()
}

/// An object of one of the common types, and of no subclass: looking at it runs no Python code.
struct Exact<'py>(Bound<'py, PyAny>);

/// A key that is known to be text.
struct Key<'py>(Bound<'py, PyString>);

impl AsRef<str> for Key<'_> {
    #[inline]
    fn as_ref(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }
}

#[cold]
fn declined() -> Error {
    Error::new(Code::Schema, "not for the lane")
}

impl<'py> Node for Exact<'py> {
    type Key = Key<'py>;

    #[inline]
    fn view(&self) -> Result<View<'_>> {
        let any = &self.0;
        if let Ok(text) = any.cast_exact::<PyString>() {
            return text.to_str().map(View::Str).map_err(|_| declined());
        }
        if let Ok(float) = any.cast_exact::<PyFloat>() {
            return Ok(View::Float(float.value()));
        }
        if any.cast_exact::<PyInt>().is_ok() {
            return any.extract().map(View::Int).map_err(|_| declined());
        }
        if any.cast_exact::<PyList>().is_ok() {
            return Ok(View::List);
        }
        if any.cast_exact::<PyDict>().is_ok() {
            return Ok(View::Map);
        }
        if let Ok(flag) = any.cast_exact::<PyBool>() {
            return Ok(View::Bool(flag.is_true()));
        }
        if any.is_none() { Ok(View::Null) } else { Err(declined()) }
    }

    #[inline]
    fn is_null(&self) -> bool {
        self.0.is_none()
    }

    fn list_len(&self) -> usize {
        self.0.cast_exact::<PyList>().map_or(0, |list| list.len())
    }

    fn each_item(&self, visit: &mut dyn FnMut(Self) -> Result<()>) -> Result<()> {
        match self.0.cast_exact::<PyList>() {
            Ok(list) => list.iter().try_for_each(|item| visit(Exact(item))),
            Err(_) => Ok(()),
        }
    }

    fn each_entry(&self, visit: &mut dyn FnMut(Self::Key, Self) -> Result<()>) -> Result<()> {
        let Ok(dict) = self.0.cast_exact::<PyDict>() else { return Ok(()) };
        dict.iter().try_for_each(|(key, value)| {
            let key = key.cast_into_exact::<PyString>().map_err(|_| declined())?;
            key.to_str().map_err(|_| declined())?;
            visit(Key(key), Exact(value))
        })
    }
}
