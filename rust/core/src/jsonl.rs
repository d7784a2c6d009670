// SPDX-License-Identifier: Apache-2.0
//! JSON lines straight to blobs: no objects of any other language in between.

use rayon::prelude::*;

use crate::batch::{Batch, pool};
use crate::encode::{Options, encode_into};
use crate::{Error, json};

/// Lines go to a thread in pieces of about this many bytes.
const PIECE: usize = 128 << 10;
const BOM: &[u8] = b"\xef\xbb\xbf";

/// Encodes every line. Blank lines are skipped; a byte order mark before the first is too. Offsets
/// of malformed JSON count from the start of `text`.
pub fn encode_jsonl(text: &[u8], options: &Options) -> Batch {
    let start = if text.starts_with(BOM) { BOM.len() } else { 0 };
    let pieces = split(&text[start..]);
    let encode = |(from, piece): &(usize, &[u8])| encode_piece(piece, start + from, options);
    let done: Vec<Piece> = match pool() {
        Some(pool) if pieces.len() > 1 => {
            pool.install(|| pieces.par_iter().with_max_len(1).map(encode).collect())
        }
        _ => pieces.iter().map(encode).collect(),
    };
    let (mut all, mut items, mut lines) = (Batch::default(), 0, 0);
    for piece in done {
        if items == 0 && lines == 0 {
            all = piece.batch;
        } else {
            all.append(piece.batch, items, lines);
        }
        items += piece.items;
        lines += piece.lines;
    }
    all
}

/// Pieces of whole lines, with their offsets.
fn split(text: &[u8]) -> Vec<(usize, &[u8])> {
    let (mut pieces, mut from) = (Vec::new(), 0);
    while from < text.len() {
        let at_least = text.len().min(from + PIECE);
        let end = text[at_least..].iter().position(|b| *b == b'\n').map_or(text.len(), |n| at_least + n + 1);
        pieces.push((from, &text[from..end]));
        from = end;
    }
    pieces
}

struct Piece {
    batch: Batch,
    items: usize,
    lines: usize,
}

fn encode_piece(piece: &[u8], offset: usize, options: &Options) -> Piece {
    let (mut batch, mut items, mut lines, mut at) = (Batch::default(), 0, 0, offset);
    batch.bytes.reserve(piece.len());
    for line in piece.split_inclusive(|b| *b == b'\n') {
        lines += 1;
        if !line.trim_ascii().is_empty() {
            let inside = |e: Error| e.shifted(at);
            batch.add(items, Some(lines), |out, warnings| {
                let value = json::parse(line).map_err(inside)?;
                encode_into(&&value, options, out, warnings)
            });
            items += 1;
        }
        at += line.len();
    }
    batch.hash_here();
    Piece { batch, items, lines }
}
