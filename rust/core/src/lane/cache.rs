// SPDX-License-Identifier: Apache-2.0
//! A few plans, found by the shape of a grain.

use smallvec::SmallVec;

use crate::encode::Options;
use crate::fields::Side;
use crate::value::{Node, View};
use crate::{Code, Error};

use super::plan::Plan;
use super::write::write;

/// Shapes that are held at once. More of them in turn are no batch of a kind.
const SHAPES: usize = 8;
/// After so many misses in a row without gain, one more shape is looked at.
const MOST_PATIENCE: u32 = 126;

/// The plans of the shapes seen last; `K` is what the caller knows a shape's keys by.
#[derive(Debug)]
pub struct Cache<K> {
    held: Vec<Held<K>>,
    last: usize,
    next: usize,
    misses: u32,
    patience: u32,
}

#[derive(Debug)]
struct Held<K> {
    keys: K,
    plan: Plan,
    used: bool,
}

impl<K> Default for Cache<K> {
    fn default() -> Self {
        Cache { held: Vec::new(), last: 0, next: 0, misses: 0, patience: 0 }
    }
}

impl<K> Cache<K> {
    /// The plan of the shape that is the same as the caller's.
    #[inline]
    pub fn find(&mut self, same: impl Fn(&K, &Plan) -> bool) -> Option<&Plan> {
        let count = self.held.len();
        let at = (0..count)
            .map(|i| if self.last + i < count { self.last + i } else { self.last + i - count })
            .find(|at| same(&self.held[*at].keys, &self.held[*at].plan))?;
        self.last = at;
        let held = &mut self.held[at];
        held.used = true;
        Some(&held.plan)
    }

    /// Whether a shape that was not found is worth making a plan of. Where shapes do not come
    /// again, most are not.
    pub fn is_worth_learning(&mut self) -> bool {
        self.misses += 1;
        if self.misses <= self.patience {
            return false;
        }
        self.misses = 0;
        true
    }

    /// Holds what was learnt, if there was something, in the place of the oldest.
    pub fn hold(&mut self, keys: K, plan: Option<Plan>) {
        let gain = match plan {
            None => false,
            Some(plan) => {
                let held = Held { keys, plan, used: false };
                if self.held.len() < SHAPES {
                    self.held.push(held);
                    return;
                }
                let out = std::mem::replace(&mut self.held[self.next], held);
                self.next = (self.next + 1) % SHAPES;
                out.used
            }
        };
        // Odd distances, so that shapes in turn are all looked at.
        self.patience = if gain { 0 } else { MOST_PATIENCE.min(2 * self.patience + 2) };
    }

    /// How many plans are held.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether none is held.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}

/// A lane for sources whose keys are text.
#[derive(Debug, Default)]
pub struct Lane(Cache<()>);

impl Lane {
    /// Appends the blob of a grain; on false it was declined, and `out` is as it was.
    pub fn encode<N: Node>(&mut self, node: &N, options: &Options, out: &mut Vec<u8>) -> bool {
        let mut keys: SmallVec<[N::Key; 24]> = SmallVec::new();
        let mut nodes: SmallVec<[N; 24]> = SmallVec::new();
        let walked = node.each_entry(&mut |key, value| {
            keys.push(key);
            nodes.push(value);
            // What is too large for any plan is not gathered.
            if keys.len() <= Plan::MAX_KEYS { Ok(()) } else { Err(Error::new(Code::TooLarge, "no shape")) }
        });
        if walked.is_err() || !matches!(node.view(), Ok(View::Map)) {
            return false;
        }
        let text = |place: usize| match nodes[place].view() {
            Ok(View::Str(text)) => Some(text),
            _ => None,
        };
        let same = |(): &(), plan: &Plan| plan.is_of(keys.iter().map(AsRef::as_ref), text);
        if let Some(plan) = self.0.find(same) {
            return write(plan, &nodes, options, out);
        }
        if !self.0.is_worth_learning() {
            return false;
        }
        let names: SmallVec<[&str; 24]> = keys.iter().map(AsRef::as_ref).collect();
        let plan = Plan::learn(Side::Write, &names, text);
        let written = plan.as_ref().is_some_and(|plan| write(plan, &nodes, options, out));
        self.0.hold((), plan);
        written
    }

    /// How many plans are held.
    pub fn plans(&self) -> usize {
        self.0.len()
    }
}
