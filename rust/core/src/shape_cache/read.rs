// SPDX-License-Identifier: Apache-2.0
//! Reads grains by plans: it compares keys as bytes and checks values in place. It learns plans
//! from grains that the general decoder accepted.
//!
//! Row "verify, shape cache" of `make bench-stages`: 4.5 times as fast as row "read", the general
//! code.

use alloc::sync::Arc;
use alloc::vec::Vec;
#[cfg(feature = "std")]
use core::cell::RefCell;

use smallvec::SmallVec;

use super::plan::{Need, Rule};
use super::plan::{Plan, Step};
use super::scalar::{created, is_word, passes, tag_level};
use crate::check::Around;
use crate::codec::cbor::Cbor;
use crate::codec::msgpack::Msgpack;
use crate::codec::{Cursor, EXTENDED, Encoding, Head, Wire, read_value};
use crate::decode::Decoded;
use crate::fields::Side;
use crate::header::{COMPRESSED, CONTENT_REFS, EMBEDDING_REFS, Facts, Header, LEN, ns_hash};
use crate::registry::id;
use crate::value::{Value, View};
use crate::{check, text, warn};

/// Containers in a field's value are one level below the payload map.
const DEPTH: usize = 2;

/// The values that a plan accepted last, as encoded. The same bytes in the next grain are the same
/// value and need no second check. Most values of a batch repeat.
#[derive(Debug, Default)]
pub struct Last<'p> {
    values: SmallVec<[&'p [u8]; 24]>,
    facts: Facts,
}

/// Whether the general code would accept this payload under this header without a warning.
pub fn takes<'p>(plan: &Plan, header: Header, payload: &'p [u8], last: &mut Last<'p>) -> bool {
    match header.encoding() {
        Encoding::Msgpack => walk::<Msgpack>(plan, header, payload, last),
        Encoding::Cbor => walk::<Cbor>(plan, header, payload, last),
    }
    .is_some()
}

fn walk<'p, W: Wire>(plan: &Plan, header: Header, payload: &'p [u8], last: &mut Last<'p>) -> Option<()> {
    let steps = plan.steps(header.encoding());
    let mut cursor = Cursor::new(payload);
    if header.type_byte != plan.grain_type.byte || W::head(&mut cursor).ok()? != Head::Map(steps.len()) {
        return None;
    }
    if last.values.is_empty() {
        last.facts = Facts { no_namespace: true, ..Facts::default() };
        last.values.resize(steps.len(), &[]);
    }
    let mut rest = &payload[cursor.at..];
    for (step, held) in steps.iter().zip(&mut last.values) {
        let value = rest.strip_prefix(step.key.as_bytes())?;
        let len = if !held.is_empty() && value.starts_with(held) {
            held.len()
        } else {
            let len = judge::<W>(step, plan.grain_type.byte, value, &mut last.facts)?;
            *held = &value[..len];
            len
        };
        rest = &value[len..];
    }
    (rest.is_empty() && header.check(&last.facts).is_ok()).then_some(())
}

/// Checks the value at the start of these bytes, notes the facts for the header, and returns its
/// length.
#[inline]
fn judge<W: Wire>(step: &Step, type_byte: u8, bytes: &[u8], facts: &mut Facts) -> Option<usize> {
    let mut cursor = Cursor::new(bytes);
    let head = W::head(&mut cursor).ok()?;
    let view = match head {
        Head::Str(len) => View::Str(settled(&mut cursor, len)?),
        Head::Int(i) => View::Int(i),
        Head::Float(f) => View::Float(f),
        Head::Bool(b) => View::Bool(b),
        Head::UInt(u) => View::UInt(u),
        Head::Bytes(len) => View::Bytes(cursor.take(len).ok()?.into()),
        Head::Nil => return None,
        Head::Array(len) => match step.rule {
            Rule::Tags => return texts::<W>(step, cursor, len, tag_level, facts),
            Rule::Texts(word) => {
                return texts::<W>(step, cursor, len, |text| is_word(word, text).then_some(0), facts);
            }
            _ => return container::<W>(step, type_byte, bytes, facts),
        },
        Head::Map(_) => return container::<W>(step, type_byte, bytes, facts),
    };
    if !passes(step, &view, Side::Read) {
        return None;
    }
    match (step.id, view) {
        (id::CREATED_AT, View::Int(ms)) => facts.created_at = created(ms)?,
        (id::NAMESPACE, View::Str(name)) => {
            facts.no_namespace = name.is_empty();
            facts.ns_hash = if name.is_empty() { 0 } else { ns_hash(name) };
        }
        _ => {}
    }
    Some(cursor.at)
}

/// Checks text as the codec's reader does.
#[inline]
fn settled<'a>(cursor: &mut Cursor<'a>, len: usize) -> Option<&'a str> {
    let text = text::utf8(cursor.take(len).ok()?)?;
    text::check_nfc(text).is_ok().then_some(text)
}

/// A list of texts; each has a sensitivity.
fn texts<W: Wire>(
    step: &Step,
    mut cursor: Cursor<'_>,
    len: usize,
    level: impl Fn(&str) -> Option<u8>,
    facts: &mut Facts,
) -> Option<usize> {
    if len == 0 && step.need == Need::Filled {
        return None;
    }
    let mut most = 0;
    for _ in 0..len {
        let Head::Str(len) = W::head(&mut cursor).ok()? else { return None };
        most = most.max(level(settled(&mut cursor, len)?)?);
    }
    if step.id == id::STRUCTURAL_TAGS {
        facts.sensitivity = most;
    }
    Some(cursor.at)
}

/// Any other container: the general code reads and checks it as one value.
fn container<W: Wire>(step: &Step, type_byte: u8, bytes: &[u8], facts: &mut Facts) -> Option<usize> {
    // Content blocks have their own rule.
    if !matches!(step.rule, Rule::Object | Rule::Any | Rule::General) || step.id == id::CONTENT_BLOCKS {
        return None;
    }
    let (value, len) = read_value::<W>(bytes, DEPTH, EXTENDED.max_depth).ok()?;
    if let Some(field) = step.field {
        let around = Around { side: Side::Read, type_byte, open: false };
        check::field(field, &&value, around).ok()?;
        if warn::inner(step.id, &&value).ok()?.is_some() {
            return None;
        }
    }
    let filled = match &value {
        Value::List(items) => !items.is_empty(),
        Value::Map(_) => true,
        _ => return None,
    };
    if !filled && step.need == Need::Filled {
        return None;
    }
    for (id, bit) in [(id::CONTENT_REFS, CONTENT_REFS), (id::EMBEDDING_REFS, EMBEDDING_REFS)] {
        if step.id == id {
            facts.refs = facts.refs & !bit | if filled { bit } else { 0 };
        }
    }
    Some(len)
}
/// The most plans in the cache. A further plan replaces the oldest.
const PLANS: usize = 16;
/// The most plans that one reader learns. Grains that never share a shape must not cost a plan
/// each.
const LESSONS: usize = 64;
/// The same limit for the plans of a thread, which live as long as the thread.
#[cfg(feature = "std")]
const LESSONS_OF_THREAD: usize = 4096;

/// Reads many grains that are in memory at the same time.
#[derive(Debug)]
pub struct Reader<'p> {
    lanes: Vec<(Arc<Plan>, Last<'p>)>,
    /// The index of the plan that accepted the last grain.
    at: usize,
    lessons: usize,
}

impl Default for Reader<'_> {
    fn default() -> Self {
        Reader { lanes: Vec::new(), at: 0, lessons: LESSONS }
    }
}

impl<'p> Reader<'p> {
    /// The plan that accepts a blob with a checked header. None means only that no plan did.
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

    /// Learns the shape of a grain that the general code has read.
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

#[cfg(feature = "std")]
thread_local! {
    static HERE: RefCell<(Vec<Arc<Plan>>, usize)> = const { RefCell::new((Vec::new(), LESSONS_OF_THREAD)) };
}

/// Like [`Reader::takes`], for a single blob, by the plans of this thread. Plans hold names of
/// fields, and no content.
#[cfg(feature = "std")]
pub fn takes_one(header: Header, blob: &[u8]) -> Option<Arc<Plan>> {
    if header.has(COMPRESSED) {
        return None;
    }
    let payload = &blob[LEN..];
    HERE.with_borrow_mut(|(plans, _)| {
        let found = plans.iter().position(|plan| takes(plan, header, payload, &mut Last::default()))?;
        // Frequent shapes move to the front.
        plans.swap(0, found);
        plans.first().cloned()
    })
}

/// Like [`Reader::learn`], for [`takes_one`].
#[cfg(feature = "std")]
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

/// Without threads there is no cache.
#[cfg(not(feature = "std"))]
pub fn takes_one(_: Header, _: &[u8]) -> Option<Arc<Plan>> {
    None
}

/// Like [`takes_one`].
#[cfg(not(feature = "std"))]
pub fn learn_one(_: &Decoded<'_>) {}

/// The index for a new plan.
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
    Plan::learn(Side::Read, &names, &|place| match &grain.items[place].value {
        Value::Str(text) => Some(text),
        _ => None,
    })
}
