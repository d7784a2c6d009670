// SPDX-License-Identifier: Apache-2.0
//! The lane for Python dicts: those of a shape seen before, of the common types alone.

use std::cell::RefCell;

use omsgrain_core::encode::Options;
use omsgrain_core::fields::Side;
use omsgrain_core::lane::{Cache, Plan, write};
use pyo3::prelude::*;

use crate::borrowed::Exact;

/// The keys of a shape by their places in memory. They are owned, so that a place cannot come to
/// mean another key.
struct Keys {
    places: Vec<usize>,
    _owned: Vec<Py<PyAny>>,
}

/// The plans of the shapes seen last by this thread. (PyO3 lets no second interpreter in.)
#[derive(Default)]
struct Lane(Cache<Keys>);

thread_local! {
    static LANE: RefCell<Lane> = RefCell::default();
}

/// Appends the blob of a dict; on false it was declined, and `out` is as it was. No Python code
/// runs here, so that nothing else can ask for the lane of this thread meanwhile.
pub fn encode(fields: &Bound<'_, PyAny>, options: &Options, out: &mut Vec<u8>) -> bool {
    LANE.with_borrow_mut(|lane| lane.encode(fields, options, out))
}

impl Lane {
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
        if let Some(plan) = self.0.find(|held, plan| held.places == places && plan.has_texts(text)) {
            return write(plan, nodes, options, out);
        }
        // Other objects with the same text, such as a parser makes for each line.
        let named = |plan: &Plan, i: usize| keys[i].text().is_some_and(|name| name == &*plan.names[i]);
        let same = |plan: &Plan| plan.names.len() == count && (0..count).all(|i| named(plan, i));
        if let Some(plan) = self.0.find(|_, plan| same(plan) && plan.has_texts(text)) {
            return write(plan, nodes, options, out);
        }
        if !self.0.is_worth_learning() {
            return false;
        }
        let names: Option<Vec<&str>> = keys.iter().map(|key| key.text()).collect();
        let plan = names.and_then(|names| Plan::learn(Side::Write, &names, text));
        let written = plan.as_ref().is_some_and(|plan| write(plan, nodes, options, out));
        let owned = keys.iter().map(|key| key.owned(fields.py())).collect();
        self.0.hold(Keys { places: places.to_vec(), _owned: owned }, plan);
        written
    }
}
