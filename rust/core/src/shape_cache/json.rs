// SPDX-License-Identifier: Apache-2.0
//! Encodes JSON lines of a known shape without a tree.
//!
//! Row "json: 1,000 lines, shape cache" of `make bench-stages`: 3.0 times as fast as "parse and
//! encode".

use std::cell::Cell;

use smallvec::SmallVec;

use super::plan::Plan;
use super::scan::{Place, Scan, Slot};
use super::write::Cache;
use super::write::write;
use crate::Result;
use crate::encode::{Options, encode_into};
use crate::fields::Side;
use crate::value::{Node, View};

/// The text before each value of a line, including its key. Lines of one writer share this text.
#[derive(Debug, Default)]
pub(super) struct Glue {
    text: Vec<u8>,
    parts: Vec<Part<usize>>,
}

/// The text before one value, and the place of the key in it.
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

/// A cache for lines of JSON.
#[derive(Debug, Default)]
pub struct Lines {
    scan: Scan,
    cache: Cache<Glue>,
}

impl Lines {
    /// Appends the blob of the line that begins at `at`, and returns where the next line begins.
    /// None if it cannot read the line in place.
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
        let done = by_plan(&mut self.cache, &line, at, read.expected, options, out);
        let written = if done { Ok(()) } else { encode_into(&line.root(), options, out, warnings) };
        Some((read.next, written))
    }
}

/// Whether a plan wrote the line.
fn by_plan(
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
    // `find` first asks about the expected shape.
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
    let plan = Plan::learn(Side::Write, &names, &|place| line.text(place));
    let written = plan.as_ref().is_some_and(|plan| write(plan, &nodes, options, out));
    cache.hold(glue, plan);
    written
}
/// A line that was read.
#[derive(Debug)]
pub struct Line<'s> {
    pub(super) slots: &'s [Slot],
    pub(super) made: &'s str,
    pub(super) places: &'s [Place],
    pub(super) text: &'s str,
}

impl Line<'_> {
    /// The whole line.
    pub fn root(&self) -> Item<'_> {
        Item { line: self, at: 0 }
    }

    /// The value of an entry.
    #[inline]
    pub fn value(&self, place: usize) -> Item<'_> {
        Item { line: self, at: self.places[place].slot as usize }
    }

    /// The value of an entry, if it is text.
    #[inline]
    pub fn text(&self, place: usize) -> Option<&str> {
        let at = self.places[place].slot as usize;
        matches!(self.slots[at], Slot::Str(..) | Slot::Made(..)).then(|| self.str(at))
    }

    /// The key of an entry.
    #[inline]
    pub fn key(&self, place: usize) -> &str {
        self.str(self.places[place].slot as usize - 1)
    }

    #[inline]
    pub(super) fn str(&self, at: usize) -> &str {
        match self.slots[at] {
            Slot::Str(from, to) => &self.text[from as usize..to as usize],
            Slot::Made(from, to) => &self.made[from as usize..to as usize],
            _ => "",
        }
    }

    /// The slot after the value at this slot.
    fn after(&self, at: usize) -> usize {
        match self.slots[at] {
            Slot::List(_, end) | Slot::Map(_, end) => end as usize,
            _ => at + 1,
        }
    }
}

/// A value of a line.
#[derive(Clone, Copy, Debug)]
pub struct Item<'s> {
    line: &'s Line<'s>,
    at: usize,
}

impl<'s> Node for Item<'s> {
    type Key = &'s str;

    #[inline]
    fn view(&self) -> Result<View<'_>> {
        Ok(match self.line.slots[self.at] {
            Slot::Null => View::Null,
            Slot::Bool(b) => View::Bool(b),
            Slot::Int(i) => View::Int(i),
            Slot::Float(f) => View::Float(f),
            Slot::Str(..) | Slot::Made(..) => View::Str(self.line.str(self.at)),
            Slot::List(..) => View::List,
            Slot::Map(..) => View::Map,
        })
    }

    #[inline]
    fn is_null(&self) -> bool {
        matches!(self.line.slots[self.at], Slot::Null)
    }

    fn list_len(&self) -> usize {
        if let Slot::List(len, _) = self.line.slots[self.at] { len as usize } else { 0 }
    }

    fn each_item(&self, visit: &mut dyn FnMut(Self) -> Result<()>) -> Result<()> {
        let mut at = self.at + 1;
        for _ in 0..self.list_len() {
            visit(Item { at, ..*self })?;
            at = self.line.after(at);
        }
        Ok(())
    }

    fn each_entry(&self, visit: &mut dyn FnMut(Self::Key, Self) -> Result<()>) -> Result<()> {
        let Slot::Map(len, _) = self.line.slots[self.at] else { return Ok(()) };
        let mut at = self.at + 1;
        for _ in 0..len {
            visit(self.line.str(at), Item { at: at + 1, ..*self })?;
            at = self.line.after(at + 1);
        }
        Ok(())
    }
}
