// SPDX-License-Identifier: Apache-2.0
//! Only the hot paths, for a profiler: `profile encode|decode|rows|memtable|nfc|jsonl COUNT`.
#![allow(missing_docs, clippy::unwrap_used)]
use omsgrain_core::encode::{Options, encode, encode_into};
use omsgrain_core::indexed_paths::IndexedPaths;
use omsgrain_core::memtable::Memtable;
use omsgrain_core::{address, decode, index_rows, json, json::lines, text};

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
        "rows" => {
            let text = line(7);
            let blob = encode(&&json::parse(text.as_bytes()).unwrap(), &options).unwrap();
            let digest = address::sha256(&blob);
            let (mut bytes, paths) = (0, IndexedPaths::default());
            for i in 0..count {
                index_rows::rows(&blob, &digest, i as u32, &paths, |key| bytes += key.len()).unwrap();
            }
            assert!(bytes >= count);
        }
        "memtable" => {
            let text: String = (0..count).map(|i| line(i) + "\n").collect();
            let mut batch = lines::encode_jsonl(text.as_bytes(), &options);
            batch.hash();
            let blobs: Vec<&[u8]> = (0..count).map(|i| batch.blob(i)).collect();
            let grains: Vec<_> = (1..).zip(&batch.digests).zip(blobs).map(|((n, d), b)| (n, d, b)).collect();
            let start = std::time::Instant::now();
            for run in grains.chunks(65_536) {
                let mut tail = Memtable::default();
                run.chunks(1_000).for_each(|part| tail.add(part).unwrap());
            }
            println!("{:.3} us a grain", start.elapsed().as_secs_f64() * 1e6 / count as f64);
        }
        "nfc" => {
            for words in [
                "memory of plain words ",
                "größer café façade ñandú ",
                "память роботов и людей ",
                "μνήμη των ρομπότ ",
                "זיכרון של רובוט ",
                "ذاكرة الروبوت ",
                "रोबोट की स्मृति ",
                "ความจำของหุ่นยนต์ ",
                "机器人的记忆很重要",
                "ロボットのきおく",
                "로봇의 기억은 중요 ",
                "“quoted” — and done… 🙂 ",
            ] {
                let text = words.repeat(4_000 / words.len());
                let mut best = f64::MAX;
                for _ in 0..20 {
                    let start = std::time::Instant::now();
                    for _ in 0..count {
                        text::check_nfc(std::hint::black_box(&text)).unwrap();
                    }
                    best = best.min(start.elapsed().as_secs_f64());
                }
                println!("{:.3} ns a byte: {words}", best * 1e9 / (count * text.len()) as f64);
            }
        }
        _ => {
            let text: String = (0..count).map(|i| line(i) + "\n").collect();
            assert_eq!(lines::encode_jsonl(text.as_bytes(), &options).len(), count);
        }
    }
}
