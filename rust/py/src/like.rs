// SPDX-License-Identifier: Apache-2.0
//! Whether a blob, read again, says what it was made of: value for value, of the same types.

use std::borrow::Cow;

use omsgrain_core::decode::{self, Decoded};
use omsgrain_core::registry::Nested;
use omsgrain_core::{Node, Value, View};

use crate::borrowed::{Exact, declined};

/// A blob that was just made, as anybody reads it; none if nobody can.
pub fn read(blob: &[u8]) -> Option<Decoded<'_>> {
    match decode::open(blob).ok()? {
        (header, Cow::Borrowed(payload)) => decode::read(header, payload).ok(),
        (_, Cow::Owned(_)) => None, // nobody packs them here
    }
}

/// Whether a grain has these fields and no others; `ordered` asks for the order of keys in the
/// objects inside of them too.
pub fn is_like(given: Exact<'_>, read: &Decoded<'_>, ordered: bool) -> bool {
    let (mut good, mut count) = (given.is_dict(), 0);
    given.entries(|key, value| {
        count += 1;
        let item = key.text().and_then(|name| read.items.iter().find(|item| item.name() == name));
        good = item.is_some_and(|item| {
            let names = item.field().and_then(|field| field.nested);
            !item.negate && same(value, &item.value, Names { here: None, items: names }, ordered)
        });
        good
    });
    good && count == read.items.len()
}

/// The table by which the keys of a map have full names, and that of the maps in a list.
#[derive(Clone, Copy, Default)]
struct Names {
    here: Option<&'static Nested>,
    items: Option<&'static Nested>,
}

impl Names {
    fn full<'k>(self, key: &'k str) -> &'k str {
        self.here.and_then(|table| table.by_short(key)).map_or(key, |field| field.name)
    }
}

fn same(given: Exact<'_>, read: &Value<'_>, names: Names, ordered: bool) -> bool {
    let Ok(view) = given.view() else { return false };
    match (view, read) {
        (View::Null, Value::Null) => true,
        (View::Bool(one), Value::Bool(other)) => one == *other,
        (View::Int(one), Value::Int(other)) => one == *other,
        // 0.0 is not what -0.0 is.
        (View::Float(one), Value::Float(other)) => one.to_bits() == other.to_bits(),
        (View::Str(one), Value::Str(other)) => *one == **other,
        (View::Bytes(one), Value::Bytes(other)) => one == *other,
        (View::List, Value::List(items)) => {
            let inner = Names { here: names.items, items: None };
            let mut at = items.iter();
            let walked = given.each_item(&mut |one| match at.next() {
                Some(other) if same(one, other, inner, ordered) => Ok(()),
                _ => Err(declined()),
            });
            walked.is_ok() && at.next().is_none()
        }
        (View::Map, Value::Map(entries)) => {
            let (mut good, mut count) = (true, 0);
            given.entries(|key, one| {
                let found = key.text().and_then(|name| {
                    let named = |(other, _): &&(Cow<'_, str>, Value<'_>)| names.full(other) == name;
                    if ordered { entries.get(count).filter(named) } else { entries.iter().find(named) }
                });
                count += 1;
                good = found.is_some_and(|(_, other)| same(one, other, Names::default(), ordered));
                good
            });
            good && count == entries.len()
        }
        _ => false,
    }
}
