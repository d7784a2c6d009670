// SPDX-License-Identifier: Apache-2.0
//! The hot paths alone, for a profiler: `profile encode|decode|jsonl COUNT`.
#![allow(missing_docs, clippy::unwrap_used)]
use omsgrain_core::encode::{Options, encode, encode_into};
use omsgrain_core::{decode, json, jsonl};

fn main() {
    let mut args = std::env::args().skip(1);
    let (what, count) = (args.next().unwrap(), args.next().unwrap().parse::<usize>().unwrap());
    let line = |i: usize| {
        format!(
            r#"{{"type":"belief","subject":"robot-{}","relation":"mg:perceives","object":"shelf {i} has {} boxes","confidence":0.93,"source_type":"sensor","created_at":{},"namespace":"warehouse:zone-3","author_did":"did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK","importance":0.5,"structural_tags":["inventory","shelf"],"user_id":"u{}"}}"#,
            i % 500,
            i % 17,
            1_768_471_200_000 + i,
            i % 100
        )
    };
    let options = Options::default();
    match what.as_str() {
        "encode" => {
            let text = line(7);
            let value = json::parse(text.as_bytes()).unwrap();
            let mut out = Vec::new();
            for _ in 0..count {
                out.clear();
                encode_into(&&value, &options, &mut out, &mut Vec::new()).unwrap();
            }
        }
        "decode" => {
            let text = line(7);
            let blob = encode(&&json::parse(text.as_bytes()).unwrap(), &options).unwrap();
            for _ in 0..count {
                decode::verify(&blob).unwrap();
            }
        }
        _ => {
            let text: String = (0..count).map(|i| line(i) + "\n").collect();
            assert_eq!(jsonl::encode_jsonl(text.as_bytes(), &options).len(), count);
        }
    }
}
