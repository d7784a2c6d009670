// SPDX-License-Identifier: Apache-2.0
//! JSON lines directly to blobs, without objects of another language.

use simdutf8::basic::from_utf8;

use crate::batch::{Batch, in_parts};
use crate::encode::{Options, encode_into};
use crate::shape_cache::Lines;
use crate::{Result, json};

/// A thread takes about this many bytes of lines at once.
const PIECE: usize = 128 << 10;
const BOM: &[u8] = b"\xef\xbb\xbf";

/// Encodes every line. Blank lines are skipped; a byte order mark before the first is too. Offsets
/// of malformed JSON count from the start of `text`.
pub fn encode_jsonl(text: &[u8], options: &Options) -> Batch {
    let start = if text.starts_with(BOM) { BOM.len() } else { 0 };
    let pieces = split(&text[start..]);
    join(in_parts(text.len(), pieces.len(), 1, |range| {
        let pieces = &pieces[range];
        let mut part = Part::of(pieces.iter().map(|(_, piece)| piece.len()).sum());
        pieces.iter().for_each(|(from, piece)| part.encode(piece, start + from, options));
        vec![part]
    }))
}

fn join(mut parts: Vec<Part>) -> Batch {
    if parts.len() == 1 {
        return parts.pop().unwrap_or_default().batch;
    }
    let (mut all, mut items, mut lines) = (Batch::default(), 0, 0);
    all.reserve(parts.iter().map(|part| &part.batch));
    for part in parts {
        all.append(part.batch, items, lines);
        items += part.items;
        lines += part.lines;
    }
    all
}

/// Pieces of whole lines, with their offsets.
fn split(text: &[u8]) -> Vec<(usize, &[u8])> {
    let (mut pieces, mut from) = (Vec::new(), 0);
    while from < text.len() {
        let at_least = text.len().min(from + PIECE);
        let end = line_end(text, at_least);
        pieces.push((from, &text[from..end]));
        from = end;
    }
    pieces
}

/// The position after the next line feed.
fn line_end(text: &[u8], from: usize) -> usize {
    text[from..].iter().position(|b| *b == b'\n').map_or(text.len(), |n| from + n + 1)
}

/// The result of some consecutive pieces.
#[derive(Default)]
struct Part {
    batch: Batch,
    items: usize,
    lines: usize,
    shapes: Lines,
}

impl Part {
    fn of(bytes: usize) -> Part {
        let mut part = Part::default();
        // Blobs are shorter than their lines, with rare exceptions.
        part.batch.bytes.reserve(bytes);
        part
    }

    fn encode(&mut self, piece: &[u8], offset: usize, options: &Options) {
        // Checked once for all lines. If it fails, the parser reports the line.
        let text = from_utf8(piece).ok();
        let mut at = 0;
        while at < piece.len() {
            self.lines += 1;
            let (out, mut messages) = (&mut self.batch.bytes, Vec::new());
            let read = text.and_then(|text| self.shapes.encode(text, at, options, out, &mut messages));
            let (end, written) = match read {
                Some((end, written)) => (end, Some(written)),
                None => {
                    let end = line_end(piece, at);
                    let line = Some(&piece[at..end]).filter(|line| !line.trim_ascii().is_empty());
                    (end, line.map(|line| parsed(line, offset + at, options, out, &mut messages)))
                }
            };
            if let Some(written) = written {
                self.batch.took(self.items, Some(self.lines), written, messages);
                self.items += 1;
            }
            at = end;
        }
        self.batch.hash_here();
    }
}

/// Encodes a line through a tree.
fn parsed(
    line: &[u8],
    offset: usize,
    options: &Options,
    out: &mut Vec<u8>,
    warnings: &mut Vec<String>,
) -> Result<()> {
    let value = json::parse(line).map_err(|e| e.shifted(offset))?;
    encode_into(&&value, options, out, warnings)
}
