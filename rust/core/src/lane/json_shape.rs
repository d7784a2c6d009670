// SPDX-License-Identifier: Apache-2.0
//! Lines of a shape seen before, straight to blobs.

use std::cell::Cell;

use smallvec::SmallVec;

use crate::Result;
use crate::encode::{Options, encode_into};
use crate::fields::Side;

use super::cache::Cache;
use super::json::{Scan, Slot};
use super::json_node::{Item, Line};
use super::plan::Plan;
use super::write::write;

/// The text before each value of a line, whose keys are in it: lines of one writer have the same.
#[derive(Debug, Default)]
pub(super) struct Glue {
    text: Vec<u8>,
    parts: Vec<Part<usize>>,
}

/// The text before one value, and where in it the key stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part<T> {
    pub text: T,
    pub key: (usize, usize),
}

impl Glue {
    /// None if a key has escapes.
    fn of(line: &Line<'_>, start: usize) -> Option<Glue> {
        let (mut glue, mut at) = (Glue::default(), start);
        for place in line.places {
            let Slot::Str(from, to) = line.slots[place.slot as usize - 1] else { return None };
            glue.text.extend_from_slice(line.text.as_bytes().get(at..place.from as usize)?);
            glue.parts.push(Part { text: glue.text.len(), key: (from as usize - at, to as usize - at) });
            at = place.to as usize;
        }
        Some(glue)
    }

    pub fn len(&self) -> usize {
        self.parts.len()
    }

    #[inline]
    pub fn parts(&self) -> impl Iterator<Item = Part<&[u8]>> {
        let mut from = 0;
        self.parts.iter().map(move |part| {
            let text = &self.text[from..part.text];
            from = part.text;
            Part { text, key: part.key }
        })
    }
}

/// A lane for lines of JSON.
#[derive(Debug, Default)]
pub struct Lines {
    scan: Scan,
    cache: Cache<Glue>,
}

impl Lines {
    /// Appends the blob of the line that begins at `at`, and tells where the next one does. None if
    /// the line could not be read in place.
    pub fn encode(
        &mut self,
        text: &str,
        at: usize,
        options: &Options,
        out: &mut Vec<u8>,
        warnings: &mut Vec<String>,
    ) -> Option<(usize, Result<()>)> {
        let read = self.scan.line(text, at, self.cache.expected())?;
        let line = self.scan.read(text);
        let done = lane(&mut self.cache, &line, at, read.expected, options, out);
        let written = if done { Ok(()) } else { encode_into(&line.root(), options, out, warnings) };
        Some((read.next, written))
    }
}

/// Whether the lane has written the line.
fn lane(
    cache: &mut Cache<Glue>,
    line: &Line<'_>,
    start: usize,
    expected: bool,
    options: &Options,
    out: &mut Vec<u8>,
) -> bool {
    let count = line.places.len();
    if count > Plan::MAX_KEYS {
        return false;
    }
    let nodes: SmallVec<[Item<'_>; 24]> = (0..count).map(|place| line.value(place)).collect();
    let names = || (0..count).map(|place| line.key(place));
    // The first that is asked is the one that was expected.
    let expected = Cell::new(expected);
    let plan = cache.find(|_, plan| {
        if expected.take() {
            plan.has_texts(|place| line.text(place))
        } else {
            plan.is_of(names(), |place| line.text(place))
        }
    });
    if let Some(plan) = plan {
        return write(plan, &nodes, options, out);
    }
    if !cache.is_worth_learning() {
        return false;
    }
    let Some(glue) = Glue::of(line, start) else { return false };
    let names: SmallVec<[&str; 24]> = names().collect();
    let plan = Plan::learn(Side::Write, &names, |place| line.text(place));
    let written = plan.as_ref().is_some_and(|plan| write(plan, &nodes, options, out));
    cache.hold(glue, plan);
    written
}
