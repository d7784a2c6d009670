#![allow(missing_docs, clippy::unwrap_used)]
use omsgrain_core::{encode::Options, jsonl};
fn main() {
    let path = std::env::args().nth(1).unwrap();
    let text = std::fs::read(path).unwrap();
    let rounds: usize = std::env::args().nth(2).unwrap().parse().unwrap();
    for _ in 0..rounds {
        std::hint::black_box(jsonl::encode_jsonl(&text, &Options::default()));
    }
}
