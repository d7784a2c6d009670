// SPDX-License-Identifier: Apache-2.0
//! Whether a blob, read again, equals its input: value for value, of the same types. The blob is
//! read as usual; then its payload is compared with the fields, without making objects.

use omsgrain_core::codec::cbor::Cbor;
use omsgrain_core::codec::msgpack::Msgpack;
use omsgrain_core::codec::{Cursor, Encoding, Head, Wire};
use omsgrain_core::decode::Parsed;
use omsgrain_core::header::{COMPRESSED, LEN};
use omsgrain_core::registry::{self, Nested, UNKNOWN};
use omsgrain_core::{Node, View};

use crate::pyref::{Exact, declined};

/// Whether a grain has these fields and no others. `ordered` also compares the order of keys in the
/// objects inside them.
pub fn is_like(given: Exact<'_>, grain: &Parsed<'_>, blob: &[u8], ordered: bool) -> bool {
    let header = match grain {
        Parsed::Plain(header, _) => *header,
        Parsed::Other(decoded) => decoded.header,
    };
    if !given.is_dict() || header.has(COMPRESSED) {
        return false; // the input is never compressed
    }
    let payload = blob.get(LEN..).unwrap_or_default();
    match header.encoding() {
        Encoding::Msgpack => fields::<Msgpack>(given, grain, payload, ordered),
        Encoding::Cbor => fields::<Cbor>(given, grain, payload, ordered),
    }
    .is_some()
}

fn fields<W: Wire>(given: Exact<'_>, grain: &Parsed<'_>, payload: &[u8], ordered: bool) -> Option<()> {
    let (entries, mut cursor) = (Entries::of(given, false)?, Cursor::new(payload));
    let Head::Map(len) = W::head(&mut cursor).ok()? else { return None };
    if entries.all.len() != len {
        return None;
    }
    for at in 0..len {
        text::<W>(&mut cursor)?;
        let (name, items) = field(grain, at)?;
        same::<W>(entries.value(at, name)?, &mut cursor, Names { here: None, items }, ordered)?;
    }
    Some(())
}

/// The full name of the field at a position of the payload, and the table of the maps in its list.
/// None for a 1.1 field with the opposite meaning.
fn field<'g>(grain: &'g Parsed<'_>, at: usize) -> Option<(&'g str, Option<&'static Nested>)> {
    match grain {
        Parsed::Plain(header, plan) => {
            let step = plan.steps(header.encoding()).get(at)?;
            if step.id == UNKNOWN {
                return Some((plan.names.get(step.from)?, None));
            }
            let field = registry::field(step.id);
            Some((field.name, field.nested))
        }
        Parsed::Other(decoded) => {
            let item = decoded.items.get(at).filter(|item| !item.negate)?;
            Some((item.name(), item.field().and_then(|field| field.nested)))
        }
    }
}

/// The table with the full names of a map's keys, and the table for the maps in a list.
#[derive(Clone, Copy, Default)]
struct Names {
    here: Option<&'static Nested>,
    items: Option<&'static Nested>,
}

impl Names {
    fn full(self, key: &str) -> &str {
        self.here.and_then(|table| table.by_short(key)).map_or(key, |field| field.name)
    }
}

fn same<W: Wire>(given: Exact<'_>, cursor: &mut Cursor<'_>, names: Names, ordered: bool) -> Option<()> {
    let (view, head) = (given.view().ok()?, W::head(cursor).ok()?);
    let good = match (view, head) {
        (View::Null, Head::Nil) => true,
        (View::Bool(one), Head::Bool(other)) => one == other,
        (View::Int(one), Head::Int(other)) => one == other,
        // 0.0 and -0.0 differ.
        (View::Float(one), Head::Float(other)) => one.to_bits() == other.to_bits(),
        (View::Str(one), Head::Str(len)) => one.as_bytes() == cursor.take(len).ok()?,
        (View::Bytes(one), Head::Bytes(len)) => *one == *cursor.take(len).ok()?,
        (View::List, Head::Array(len)) => {
            let inner = Names { here: names.items, items: None };
            let mut item = |one| same::<W>(one, cursor, inner, ordered).ok_or_else(declined);
            given.list_len() == len && given.each_item(&mut item).is_ok()
        }
        (View::Map, Head::Map(len)) => {
            let entries = Entries::of(given, ordered)?;
            if entries.all.len() != len {
                return None;
            }
            for at in 0..len {
                let name = names.full(text::<W>(cursor)?);
                same::<W>(entries.value(at, name)?, cursor, Names::default(), ordered)?;
            }
            true
        }
        _ => false,
    };
    good.then_some(())
}

/// The entries of a dict.
struct Entries<'a> {
    all: Vec<(&'a str, Exact<'a>)>,
    order: Order,
}

/// The order of entries.
#[derive(PartialEq)]
enum Order {
    /// The order of the payload, which must be the same.
    Payload,
    /// The given order, for few entries.
    Own,
    /// The order of their names.
    Names,
}

/// Up to this many entries, a linear search is faster than sorting.
const FEW: usize = 32;

impl<'a> Entries<'a> {
    /// None if a key is not text.
    fn of(dict: Exact<'a>, ordered: bool) -> Option<Self> {
        let (mut all, mut good) = (Vec::with_capacity(16), true);
        dict.entries(|key, value| {
            good = key.text().map(|name| all.push((name, value))).is_some();
            good
        });
        let order = match all.len() {
            _ if ordered => Order::Payload,
            ..=FEW => Order::Own,
            _ => Order::Names,
        };
        if order == Order::Names {
            all.sort_unstable_by_key(|(name, _)| *name);
        }
        good.then_some(Entries { all, order })
    }

    /// The value of the entry with a name, at a position of the payload.
    fn value(&self, at: usize, name: &str) -> Option<Exact<'a>> {
        let found = match self.order {
            Order::Payload => self.all.get(at).filter(|(own, _)| *own == name),
            Order::Own => self.all.iter().find(|(own, _)| *own == name),
            Order::Names => self.all.binary_search_by_key(&name, |(own, _)| own).ok().map(|i| &self.all[i]),
        };
        found.map(|(_, value)| *value)
    }
}

fn text<'p, W: Wire>(cursor: &mut Cursor<'p>) -> Option<&'p str> {
    let Head::Str(len) = W::head(cursor).ok()? else { return None };
    std::str::from_utf8(cursor.take(len).ok()?).ok()
}
