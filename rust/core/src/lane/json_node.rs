// SPDX-License-Identifier: Apache-2.0
//! A line that was read, as the writers see it.

use crate::Result;
use crate::value::{Node, View};

use super::json::{Place, Slot};

/// A line that was read.
#[derive(Debug)]
pub struct Line<'s> {
    pub(super) slots: &'s [Slot],
    pub(super) made: &'s str,
    pub(super) places: &'s [Place],
    pub(super) text: &'s str,
}

impl Line<'_> {
    /// The whole.
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

    /// The slot behind the value at this one.
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
