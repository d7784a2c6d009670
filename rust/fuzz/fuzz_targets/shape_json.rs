// SPDX-License-Identifier: Apache-2.0
//! Any lines, and any text as the value of a valid line: in place and through a tree give the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use omsgrain_core::batch::Batch;
use omsgrain_core::encode::{Options, encode_into};
use omsgrain_core::json::{self, lines};

const GOOD: &[u8] =
    br#"{"type":"belief","subject":"s","relation":"r","object":"o","confidence":0.9,"created_at":1"#;

fn by_trees(text: &[u8], options: &Options) -> Batch {
    let mut batch = Batch::default();
    let (mut at, mut index) = (if text.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 }, 0);
    for (line, number) in text[at..].split_inclusive(|b| *b == b'\n').zip(1..) {
        if !line.trim_ascii().is_empty() {
            batch.add(index, Some(number), |out, warnings| {
                let value = json::parse(line).map_err(|e| e.shifted(at))?;
                encode_into(&&value, options, out, warnings)
            });
            index += 1;
        }
        at += line.len();
    }
    batch
}

fn same(text: &[u8]) {
    let options = Options::default();
    let (found, expected) = (lines::encode_jsonl(text, &options), by_trees(text, &options));
    assert_eq!(
        (&found.bytes, &found.ends, &found.indices),
        (&expected.bytes, &expected.ends, &expected.indices)
    );
    assert_eq!(
        format!("{:?}{:?}", found.refused, found.warned),
        format!("{:?}{:?}", expected.refused, expected.warned)
    );
}

fuzz_target!(|data: &[u8]| {
    same(data);
    // The second time, the shape is known.
    same(&[data, b"\n", data].concat());
    let line = [GOOD, b",\"x_value\":", data, b"}\n"].concat();
    same(&[GOOD, b"}\n", &line, &line].concat());
});
