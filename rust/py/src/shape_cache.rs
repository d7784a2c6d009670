// SPDX-License-Identifier: Apache-2.0
//! The shape cache for Python: it turns dicts of a known shape into blobs, and blobs into dicts.
//!
//! Rows E1, E2 and E4 of benches/RESULTS.md. On a grain of 224 bytes, `encode` is 5 times as fast
//! as the general code, which a subclass of dict takes. `decode` is 2.0 times and `decode_many` 2.8
//! times as fast as for a grain with a warning, which the cache declines.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::sync::Arc;

use omsgrain_core::codec::cbor::Cbor;
use omsgrain_core::codec::msgpack::Msgpack;
use omsgrain_core::codec::{Cursor, Encoding, Head, Wire};
use omsgrain_core::encode::Options;
use omsgrain_core::fields::Side;
use omsgrain_core::header::{Header, LEN};
use omsgrain_core::registry::{Nested, UNKNOWN};
use omsgrain_core::shape_cache::{Cache, Plan, Step, write};
use omsgrain_core::{Code, Error, codec};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString};

use crate::convert;
use crate::error::raise;
use crate::pyref::Exact;

/// The keys of a shape by their places in memory. The cache owns them, so that no other key can get
/// the same place.
struct Keys {
    places: Vec<usize>,
    _owned: Vec<Py<PyAny>>,
}

/// The latest plans of this thread. (PyO3 allows no second interpreter.)
#[derive(Default)]
struct DictCache {
    cache: Cache<Keys>,
    /// A buffer for one blob, until its length is known.
    scratch: Vec<u8>,
}

/// The most bytes that the buffer keeps between grains.
const KEPT: usize = 4096;

thread_local! {
    static CACHE: RefCell<DictCache> = RefCell::default();
}

/// Appends the blob of a dict. False if it declines the dict; `out` is then unchanged. No Python
/// code runs here, so nothing else can use the cache of this thread meanwhile.
pub fn encode(fields: &Bound<'_, PyAny>, options: &Options, out: &mut Vec<u8>) -> bool {
    CACHE.with_borrow_mut(|cache| cache.encode(fields, options, out))
}

/// The blob of a dict, with no options; None if the cache declines it.
pub fn encode_one<'py>(fields: &Bound<'py, PyAny>) -> Option<Bound<'py, PyBytes>> {
    CACHE.with_borrow_mut(|cache| {
        let mut out = std::mem::take(&mut cache.scratch);
        let accepted = cache.encode(fields, &Options::default(), &mut out);
        let blob = accepted.then(|| PyBytes::new(fields.py(), &out));
        out.clear();
        out.shrink_to(KEPT);
        cache.scratch = out;
        blob
    })
}

impl DictCache {
    fn encode(&mut self, fields: &Bound<'_, PyAny>, options: &Options, out: &mut Vec<u8>) -> bool {
        let dict = Exact::new(fields);
        let (mut keys, mut nodes, mut count) = ([dict; Plan::MAX_KEYS], [dict; Plan::MAX_KEYS], 0);
        let mut places = [0; Plan::MAX_KEYS];
        dict.entries(|key, value| {
            if count < Plan::MAX_KEYS {
                (places[count], keys[count], nodes[count]) = (key.place(), key, value);
            }
            count += 1;
            count <= Plan::MAX_KEYS
        });
        if !(1..=Plan::MAX_KEYS).contains(&count) {
            return false;
        }
        let (keys, nodes, places) = (&keys[..count], &nodes[..count], &places[..count]);
        let text = |place: usize| nodes[place].text();
        if let Some(plan) = self.cache.find(|held, plan| held.places == places && plan.has_texts(text)) {
            return write(plan, nodes, options, out);
        }
        // Other objects with the same text, as a parser makes for each line.
        let named = |plan: &Plan, i: usize| keys[i].text().is_some_and(|name| name == &*plan.names[i]);
        let same = |plan: &Plan| plan.names.len() == count && (0..count).all(|i| named(plan, i));
        if let Some(plan) = self.cache.find(|_, plan| same(plan) && plan.has_texts(text)) {
            return write(plan, nodes, options, out);
        }
        if !self.cache.is_worth_learning() {
            return false;
        }
        let names: Option<Vec<&str>> = keys.iter().map(|key| key.text()).collect();
        let plan = names.and_then(|names| Plan::learn(Side::Write, &names, &text));
        let written = plan.as_ref().is_some_and(|plan| write(plan, nodes, options, out));
        let owned = keys.iter().map(|key| key.owned(fields.py())).collect();
        self.cache.hold(Keys { places: places.to_vec(), _owned: owned }, plan);
        written
    }
}

// Grains that a plan read, as Python dicts, directly from their payloads. Values that equal those
// of the last grain of the shape are reused.

/// The fields of one blob that this plan accepted.
pub fn fields<'py>(
    py: Python<'py>,
    plan: &Arc<Plan>,
    header: Header,
    blob: &[u8],
) -> PyResult<Bound<'py, PyDict>> {
    // Removed while in use: an allocation may run the garbage collector, and so this function
    // again.
    let held =
        PREVIOUS.take().filter(|held| Arc::ptr_eq(&held.plan, plan) && held.encoding == header.encoding());
    let mut held = match held {
        Some(held) => held,
        None => Box::new(Previous::new(py, plan, header.encoding())),
    };
    let fields = held.fields(py, header, blob)?;
    if blob.len() <= KEPT {
        PREVIOUS.set(Some(held));
    }
    Ok(fields)
}

/// The last grain that this thread read. The next grain of its shape reuses equal values.
struct Previous {
    plan: Arc<Plan>,
    encoding: Encoding,
    names: Vec<Py<PyString>>,
    blob: Vec<u8>,
    /// The place of each value in the blob; empty for values that may change, which are made for
    /// each grain.
    spans: Vec<Range<usize>>,
    /// The values that are lists of texts. They are never handed out, only copies.
    lists: Vec<Option<Py<PyList>>>,
    dict: Py<PyDict>,
}

thread_local! {
    static PREVIOUS: Cell<Option<Box<Previous>>> = const { Cell::new(None) };
}

impl Previous {
    fn new(py: Python<'_>, plan: &Arc<Plan>, encoding: Encoding) -> Self {
        let steps = plan.steps(encoding);
        Previous {
            plan: Arc::clone(plan),
            encoding,
            names: steps.iter().map(|step| name(py, plan, step).unbind()).collect(),
            blob: Vec::new(),
            spans: vec![0..0; steps.len()],
            lists: steps.iter().map(|_| None).collect(),
            dict: PyDict::new(py).unbind(),
        }
    }

    fn fields<'py>(&mut self, py: Python<'py>, header: Header, blob: &[u8]) -> PyResult<Bound<'py, PyDict>> {
        let Previous { plan, names, blob: last, spans, lists, dict, .. } = self;
        let dict = dict.bind(py);
        each_field(py, plan, header, blob, &mut |i, step, cursor| {
            let rest = cursor.rest();
            let start = blob.len() - rest.len();
            let held = last.get(spans[i].clone()).unwrap_or_default();
            if !held.is_empty() && rest.starts_with(held) {
                let len = held.len();
                cursor.take(len).map_err(|e| raise(py, &e))?;
                spans[i] = start..start + len;
                return match &lists[i] {
                    None => Ok(()),
                    Some(list) => dict.set_item(names[i].bind(py), copied(list.bind(py))),
                };
            }
            let value = field(py, header, step, cursor)?;
            (spans[i], lists[i]) = (0..0, None);
            let whole = start..blob.len() - cursor.left();
            match value.cast::<PyList>() {
                Ok(list) if list.iter().all(|item| item.is_exact_instance_of::<PyString>()) => {
                    (spans[i], lists[i]) = (whole, Some(copied(list).unbind()));
                }
                Err(_) if !value.is_exact_instance_of::<PyDict>() => spans[i] = whole,
                _ => {}
            }
            dict.set_item(names[i].bind(py), value)
        })?;
        last.clear();
        last.extend_from_slice(blob);
        dict.copy()
    }
}

fn copied<'py>(list: &Bound<'py, PyList>) -> Bound<'py, PyList> {
    list.get_slice(0, list.len())
}

/// Makes the dicts of many grains, which share immutable values: texts and numbers.
pub struct Maker<'py, 'p> {
    py: Python<'py>,
    shapes: Vec<Shape<'py, 'p>>,
}

struct Shape<'py, 'p> {
    plan: Arc<Plan>,
    encoding: Encoding,
    names: Vec<Bound<'py, PyString>>,
    /// The encoded values of the last grain; empty for values that each grain makes for itself.
    last: Vec<&'p [u8]>,
    /// The values that are lists of texts. They are never handed out, only copies.
    lists: Vec<Option<Bound<'py, PyList>>>,
    /// The last grain. Copying it costs less than filling a new dict.
    dict: Bound<'py, PyDict>,
}

impl<'py, 'p> Maker<'py, 'p> {
    pub fn new(py: Python<'py>) -> Self {
        Maker { py, shapes: Vec::new() }
    }

    /// The fields of the next blob that this plan accepted.
    pub fn fields(
        &mut self,
        plan: &Arc<Plan>,
        header: Header,
        blob: &'p [u8],
        long: &Long,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (py, encoding) = (self.py, header.encoding());
        let same = |shape: &Shape<'_, '_>| Arc::ptr_eq(&shape.plan, plan) && shape.encoding == encoding;
        let at = match self.shapes.iter().rposition(same) {
            Some(at) => at,
            None => {
                let steps = plan.steps(encoding);
                let names = steps.iter().map(|step| name(py, plan, step)).collect();
                let (last, lists) = (vec![&[][..]; steps.len()], vec![None; steps.len()]);
                let (plan, dict) = (Arc::clone(plan), PyDict::new(py));
                self.shapes.push(Shape { plan, encoding, names, last, lists, dict });
                self.shapes.len() - 1
            }
        };
        let Shape { names, last, lists, dict, .. } = &mut self.shapes[at];
        each_field(py, plan, header, blob, &mut |i, step, cursor| {
            let rest = cursor.rest();
            let same = !last[i].is_empty() && rest.starts_with(last[i]);
            let value = match (same, &lists[i]) {
                (true, None) => return cursor.take(last[i].len()).map(drop).map_err(|e| raise(py, &e)),
                (true, Some(list)) => {
                    cursor.take(last[i].len()).map_err(|e| raise(py, &e))?;
                    list.get_slice(0, list.len()).into_any()
                }
                (false, _) => {
                    let value = match long.iter().find(|(at, _)| *at == i) {
                        Some((_, units)) => {
                            skip(header.encoding(), cursor);
                            convert::from_utf16(py, units)?.into_any()
                        }
                        None => field(py, header, step, cursor)?,
                    };
                    let whole = &rest[..rest.len() - cursor.left()];
                    (last[i], lists[i]) = (&[], None);
                    match value.cast::<PyList>() {
                        Ok(list) if list.iter().all(|item| item.is_exact_instance_of::<PyString>()) => {
                            (last[i], lists[i]) = (whole, Some(list.get_slice(0, list.len())));
                        }
                        Err(_) if !value.is_exact_instance_of::<PyDict>() => last[i] = whole,
                        _ => {}
                    }
                    value
                }
            };
            dict.set_item(&names[i], value)
        })?;
        dict.copy()
    }
}

/// Long texts of a grain in UTF-16, each with the number of its step.
pub type Long = Vec<(usize, Vec<u8>)>;

/// The long texts of a blob that this plan accepted, except those in lists and maps; made without
/// the GIL.
pub fn long_texts(plan: &Plan, header: Header, blob: &[u8]) -> Long {
    let mut found = Vec::new();
    if blob.len() < LEN + convert::LONG {
        return found;
    }
    let encoding = header.encoding();
    let mut cursor = Cursor::new(&blob[LEN..]);
    let _ = head(encoding, &mut cursor);
    for (i, step) in plan.steps(encoding).iter().enumerate() {
        let _ = cursor.take(step.key.as_bytes().len());
        if let Some(text) = skip(encoding, &mut cursor).filter(|text| convert::is_long(text)) {
            found.push((i, convert::utf16(text)));
        }
    }
    found
}

/// Skips a value that a plan has read, and returns its text, if it is one.
fn skip<'p>(encoding: Encoding, cursor: &mut Cursor<'p>) -> Option<&'p [u8]> {
    let head = head(encoding, cursor).ok()?;
    if let Head::Str(len) = head {
        return cursor.take(len).ok();
    }
    let skipped = match encoding {
        Encoding::Msgpack => codec::skip::<Msgpack>(cursor, head),
        Encoding::Cbor => codec::skip::<Cbor>(cursor, head),
    };
    skipped.ok().and(None)
}

/// Visits the values of a payload, each with the cursor before it.
fn each_field<'p>(
    py: Python<'_>,
    plan: &Plan,
    header: Header,
    blob: &'p [u8],
    visit: &mut dyn FnMut(usize, &Step, &mut Cursor<'p>) -> PyResult<()>,
) -> PyResult<()> {
    let mut cursor = Cursor::new(&blob[LEN..]);
    head(header.encoding(), &mut cursor).map_err(|e| raise(py, &e))?;
    for (i, step) in plan.steps(header.encoding()).iter().enumerate() {
        cursor.take(step.key.as_bytes().len()).map_err(|e| raise(py, &e))?;
        visit(i, step, &mut cursor)?;
    }
    Ok(())
}

fn name<'py>(py: Python<'py>, plan: &Plan, step: &Step) -> Bound<'py, PyString> {
    if step.id == UNKNOWN {
        PyString::new(py, &plan.names[step.from])
    } else {
        convert::known_name(py, step.id)
    }
}

fn field<'py>(
    py: Python<'py>,
    header: Header,
    step: &Step,
    cursor: &mut Cursor<'_>,
) -> PyResult<Bound<'py, PyAny>> {
    let items = step.field.and_then(|field| field.nested);
    match header.encoding() {
        Encoding::Msgpack => value::<Msgpack>(py, cursor, None, items),
        Encoding::Cbor => value::<Cbor>(py, cursor, None, items),
    }
}

fn head(encoding: Encoding, cursor: &mut Cursor<'_>) -> omsgrain_core::Result<Head> {
    match encoding {
        Encoding::Msgpack => Msgpack::head(cursor),
        Encoding::Cbor => Cbor::head(cursor),
    }
}

/// Any value that a plan has read, which bounds its depth. `table` has the names of a map's keys,
/// `items` those for the maps of a list.
fn value<'py, W: Wire>(
    py: Python<'py>,
    cursor: &mut Cursor<'_>,
    table: Option<&'static Nested>,
    items: Option<&'static Nested>,
) -> PyResult<Bound<'py, PyAny>> {
    let refused = |e: Error| raise(py, &e);
    Ok(match W::head(cursor).map_err(refused)? {
        Head::Nil => py.None().into_bound(py),
        Head::Bool(b) => PyBool::new(py, b).to_owned().into_any(),
        Head::Int(i) => PyInt::new(py, i).into_any(),
        Head::UInt(u) => PyInt::new(py, u).into_any(),
        Head::Float(f) => PyFloat::new(py, f).into_any(),
        Head::Str(len) => convert::text(py, cursor.take(len).map_err(refused)?)?.into_any(),
        Head::Bytes(len) => PyBytes::new(py, cursor.take(len).map_err(refused)?).into_any(),
        Head::Array(len) => {
            let list = PyList::empty(py);
            for _ in 0..len {
                list.append(value::<W>(py, cursor, items, None)?)?;
            }
            list.into_any()
        }
        Head::Map(len) => {
            let dict = PyDict::new(py);
            for _ in 0..len {
                let Head::Str(len) = W::head(cursor).map_err(refused)? else { return Err(no_name(py)) };
                let key = cursor.take(len).map_err(refused)?;
                let full = table.and_then(|table| table.by_short(std::str::from_utf8(key).ok()?));
                let key = full.map_or(key, |field| field.name.as_bytes());
                dict.set_item(PyString::from_bytes(py, key)?, value::<W>(py, cursor, None, None)?)?;
            }
            dict.into_any()
        }
    })
}

#[cold]
fn no_name(py: Python<'_>) -> PyErr {
    raise(py, &Error::new(Code::Corrupt, "a map key is not a string"))
}
