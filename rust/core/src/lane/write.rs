// SPDX-License-Identifier: Apache-2.0
//! Writing a grain by its plan: each value judged and written where it belongs, in one pass.

use crate::check::Around;
use crate::codec::cbor::Cbor;
use crate::codec::msgpack::Msgpack;
use crate::codec::{Encoding, Wire};
use crate::encode::{self, Options};
use crate::fields::Side;
use crate::header::{CONTENT_REFS, EMBEDDING_REFS, Facts, LEN, ns_hash};
use crate::registry::id;
use crate::value::{Node, View};
use crate::{check, text, validate, warn};
use alloc::vec::Vec;

use super::judge::{created, is_word, passes, tag_level};
use super::plan::{Plan, Step};
use super::rules::{Need, Rule};

/// Appends the blob of a grain whose values stand in the order of the plan's names. On false the
/// grain was declined, and `out` is as it was.
#[inline]
pub fn write<N: Node>(plan: &Plan, nodes: &[N], options: &Options, out: &mut Vec<u8>) -> bool {
    if !takes(plan, options) || nodes.len() != plan.names.len() {
        return false;
    }
    let start = out.len();
    let written = match options.encoding {
        Encoding::Msgpack => blob::<Msgpack, N>(plan, nodes, options, out),
        Encoding::Cbor => blob::<Cbor, N>(plan, nodes, options, out),
    };
    if written.is_some() && out.len() - start <= options.profile.max_size {
        return true;
    }
    out.truncate(start);
    false
}

/// Whether grains of this shape can be written with these options.
fn takes(plan: &Plan, options: &Options) -> bool {
    let profile = options.profile;
    plan.side == Side::Write
        && !options.compress
        && options.type_byte.is_none()
        && profile.max_depth >= LISTS
        && (!profile.lightweight || plan.lightweight)
}

/// Depth of the lists that are written here.
const LISTS: usize = 2;

fn blob<W: Wire, N: Node>(plan: &Plan, nodes: &[N], options: &Options, out: &mut Vec<u8>) -> Option<()> {
    let start = out.len();
    out.extend_from_slice(&[0; LEN]);
    W::map(out, nodes.iter().filter(|node| !node.is_null()).count());
    let mut writer = Writer { plan, options, facts: Facts { no_namespace: true, ..Facts::default() } };
    for step in plan.steps(options.encoding) {
        let node = &nodes[step.from];
        let view = node.view().ok()?;
        if matches!(view, View::Null) {
            if step.need != Need::May {
                return None;
            }
            continue;
        }
        step.key.put(out);
        match view {
            View::List | View::Map => writer.container::<W, N>(step, node, out)?,
            scalar => writer.scalar::<W>(step, &scalar, out)?,
        }
    }
    let header = writer.facts.header(plan.grain_type.byte, options.encoding, options.sensitivity);
    out[start..start + LEN].copy_from_slice(&header.to_bytes());
    Some(())
}

struct Writer<'a> {
    plan: &'a Plan,
    options: &'a Options,
    facts: Facts,
}

impl Writer<'_> {
    #[inline]
    fn scalar<W: Wire>(&mut self, step: &Step, view: &View<'_>, out: &mut Vec<u8>) -> Option<()> {
        if !passes(step, view, Side::Write) {
            return None;
        }
        match view {
            View::Str(text) => return self.text::<W>(step, text, out),
            View::Int(i) => match step.rule {
                Rule::Float(..) => W::float(out, *i as f64),
                Rule::Datetime(..) => self.time::<W>(step, *i, out)?,
                _ => W::int(out, *i),
            },
            View::Float(f) => W::float(out, *f),
            View::Bool(b) => W::bool(out, *b),
            View::UInt(u) => W::uint(out, *u),
            View::Bytes(bytes) => W::bytes(out, bytes),
            View::Null | View::Instant(_) | View::List | View::Map => return None,
        }
        Some(())
    }

    #[inline]
    fn text<W: Wire>(&mut self, step: &Step, value: &str, out: &mut Vec<u8>) -> Option<()> {
        match step.rule {
            Rule::Datetime(..) => self.time::<W>(step, check::millis(&View::Str(value)).ok()?, out)?,
            Rule::Fixed(_) if step.id == id::TYPE && !self.options.keep_type_name => {
                W::str(out, self.plan.grain_type.name);
            }
            _ if step.id == id::NAMESPACE => {
                let value = &*text::nfc(value).ok()?;
                if !value.is_empty() {
                    self.facts.no_namespace = false;
                    self.facts.ns_hash = ns_hash(value);
                }
                W::str(out, value);
            }
            _ => composed::<W>(value, out)?,
        }
        Some(())
    }

    #[inline]
    fn time<W: Wire>(&mut self, step: &Step, ms: i64, out: &mut Vec<u8>) -> Option<()> {
        if step.id == id::CREATED_AT {
            self.facts.created_at = created(ms)?;
        }
        W::int(out, ms);
        Some(())
    }

    fn container<W: Wire, N: Node>(&mut self, step: &Step, node: &N, out: &mut Vec<u8>) -> Option<()> {
        let len = node.list_len();
        if step.need == Need::Filled && len == 0 {
            return None;
        }
        match step.rule {
            Rule::Texts(word) => texts::<W, N>(node, out, |text| is_word(word, text)),
            Rule::Tags => texts::<W, N>(node, out, |tag| match tag_level(tag) {
                Some(level) => {
                    self.facts.sensitivity = self.facts.sensitivity.max(level);
                    true
                }
                None => false,
            }),
            Rule::Object | Rule::Any | Rule::General => {
                match step.id {
                    id::CONTENT_REFS if len > 0 => self.facts.refs |= CONTENT_REFS,
                    id::EMBEDDING_REFS if len > 0 => self.facts.refs |= EMBEDDING_REFS,
                    _ => {}
                }
                self.general::<W, N>(step, node, out)
            }
            _ => None,
        }
    }

    /// Checks and writes one value in the general way.
    fn general<W: Wire, N: Node>(&self, step: &Step, node: &N, out: &mut Vec<u8>) -> Option<()> {
        let grain_type = Some(self.plan.grain_type);
        if let Some(field) = step.field {
            // Observers that open the enums are declined.
            let around = Around { side: Side::Write, type_byte: self.plan.grain_type.byte, open: false };
            validate::value(step.id, field, node, around).ok()?;
            if warn::inner(step.id, node).ok()?.is_some() {
                return None;
            }
        }
        let what = encode::What { id: step.id, field: step.field, negate: false, grain_type };
        encode::value::<W, N>(what, node, self.options, out).ok()
    }
}

#[inline]
fn composed<W: Wire>(value: &str, out: &mut Vec<u8>) -> Option<()> {
    if value.is_ascii() {
        W::str(out, value);
    } else {
        W::str(out, &text::nfc(value).ok()?);
    }
    Some(())
}

fn texts<W: Wire, N: Node>(node: &N, out: &mut Vec<u8>, mut good: impl FnMut(&str) -> bool) -> Option<()> {
    let (len, mut seen, mut all) = (node.list_len(), 0, true);
    if !matches!(node.view(), Ok(View::List)) {
        return None;
    }
    W::array(out, len);
    let walked = node.each_item(&mut |item| {
        seen += 1;
        all = all
            && match item.view()? {
                View::Str(text) => good(text) && composed::<W>(text, out).is_some(),
                _ => false,
            };
        Ok(())
    });
    (walked.is_ok() && all && seen == len).then_some(())
}
