// SPDX-License-Identifier: Apache-2.0
//! Which plan a payload is read by, and how plans are learned from grains that were read.

use std::cell::RefCell;
use std::sync::Arc;

use crate::decode::Decoded;
use crate::fields::Side;
use crate::header::{COMPRESSED, Header, LEN};
use crate::value::Value;

use super::plan::Plan;
use super::read::{Last, takes};

/// Plans that are held at once. One more takes the place of the oldest.
const PLANS: usize = 16;
/// Plans that one reader learns in all: grains that never have the shape of another must not cost
/// a plan each.
const LESSONS: usize = 64;
/// The same for the plans of a thread, which live as long as it does.
const LESSONS_OF_THREAD: usize = 4096;

/// Reads grains that lie side by side in memory.
#[derive(Debug)]
pub struct Reader<'p> {
    lanes: Vec<(Arc<Plan>, Last<'p>)>,
    /// The one that took the last grain.
    at: usize,
    lessons: usize,
}

impl Default for Reader<'_> {
    fn default() -> Self {
        Reader { lanes: Vec::new(), at: 0, lessons: LESSONS }
    }
}

impl<'p> Reader<'p> {
    /// The plan that takes a blob, whose header was checked, if it is good; none says nothing.
    #[inline]
    pub fn takes(&mut self, header: Header, blob: &'p [u8]) -> Option<&Arc<Plan>> {
        if header.has(COMPRESSED) {
            return None;
        }
        let payload = &blob[LEN..];
        let at = self.at;
        let first = self.lanes.get_mut(at).is_some_and(|(plan, last)| takes(plan, header, payload, last));
        if !first {
            let mut others = self.lanes.iter_mut().enumerate().filter(|(i, _)| *i != at);
            self.at = others.find_map(|(i, (plan, last))| takes(plan, header, payload, last).then_some(i))?;
        }
        self.lanes.get(self.at).map(|(plan, _)| plan)
    }

    /// Takes the shape of a grain that the general way has read.
    pub fn learn(&mut self, grain: &Decoded<'_>) {
        if self.lessons == 0 {
            return;
        }
        self.lessons -= 1;
        if let Some(plan) = plan_of(grain) {
            self.at = place(&mut self.lanes, (Arc::new(plan), Last::default()), self.lessons);
        }
    }
}

thread_local! {
    static HERE: RefCell<(Vec<Arc<Plan>>, usize)> = const { RefCell::new((Vec::new(), LESSONS_OF_THREAD)) };
}

/// As [`Reader::takes`], for a blob that comes alone: by the plans of this thread. They hold names
/// of fields and nothing of what stood in them.
pub fn takes_one(header: Header, blob: &[u8]) -> Option<Arc<Plan>> {
    if header.has(COMPRESSED) {
        return None;
    }
    let payload = &blob[LEN..];
    HERE.with_borrow_mut(|(plans, _)| {
        let found = plans.iter().position(|plan| takes(plan, header, payload, &mut Last::default()))?;
        // What comes often is found at once.
        plans.swap(0, found);
        plans.first().cloned()
    })
}

/// As [`Reader::learn`], for [`takes_one`].
pub fn learn_one(grain: &Decoded<'_>) {
    HERE.with_borrow_mut(|(plans, lessons)| {
        if *lessons > 0 {
            *lessons -= 1;
            if let Some(plan) = plan_of(grain) {
                place(plans, Arc::new(plan), *lessons);
            }
        }
    });
}

/// Where a new plan stands.
fn place<T>(held: &mut Vec<T>, new: T, lesson: usize) -> usize {
    if held.len() < PLANS {
        held.push(new);
        return held.len() - 1;
    }
    held[lesson % PLANS] = new;
    lesson % PLANS
}

fn plan_of(grain: &Decoded<'_>) -> Option<Plan> {
    if !grain.warnings.is_empty() || grain.grain_type.is_none() {
        return None;
    }
    let names: Vec<&str> = grain.items.iter().map(|item| item.key).collect();
    Plan::learn(Side::Read, &names, |place| match &grain.items[place].value {
        Value::Str(text) => Some(text),
        _ => None,
    })
}
