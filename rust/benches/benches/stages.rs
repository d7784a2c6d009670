// SPDX-License-Identifier: Apache-2.0
//! The core stage by stage, on a standard grain of about 230 bytes. `make bench-stages`
#![allow(missing_docs, clippy::unwrap_used)]

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use omsgrain_core::codec::cbor::Cbor;
use omsgrain_core::codec::{EXTENDED, Encoding, Wire as _};
use omsgrain_core::encode::{Options, encode, encode_into};
use omsgrain_core::fields::gather;
use omsgrain_core::indexed_paths::IndexedPaths;
use omsgrain_core::memtable::Memtable;
use omsgrain_core::shape_cache::ShapeCache;
use omsgrain_core::signature::{Verdict, prove};
use omsgrain_core::validate::validate;
use omsgrain_core::{Header, address, batch, decode, fingerprint, index_rows, json, json::lines, text};
use sha2::{Digest as _, Sha256};

const DID: &str = "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp";

fn line(i: usize) -> String {
    format!(
        r#"{{"type":"belief","subject":"robot-{}","relation":"mg:perceives","object":"shelf {i} has {} boxes","confidence":0.93,"source_type":"sensor","created_at":{},"namespace":"warehouse:zone-3","author_did":"{DID}","importance":0.5,"structural_tags":["inventory","shelf"],"user_id":"u{}"}}"#,
        i % 500,
        i % 17,
        1_768_471_200_000_u64 + i as u64,
        i % 100
    )
}

fn writing(c: &mut Criterion) {
    let text = line(7);
    c.bench_function("json: parse", |b| b.iter(|| json::parse(black_box(text.as_bytes())).unwrap()));
    let value = json::parse(text.as_bytes()).unwrap();
    c.bench_function("gather", |b| b.iter(|| gather(&black_box(&value), None).unwrap().entries.len()));
    c.bench_function("gather, validate", |b| {
        b.iter(|| {
            let mut fields = gather(&black_box(&value), None).unwrap();
            validate(&mut fields, EXTENDED, &mut Vec::new()).unwrap()
        })
    });
    for (name, encoding) in [("msgpack", Encoding::Msgpack), ("cbor", Encoding::Cbor)] {
        let options = Options { encoding, ..Options::default() };
        let (mut out, mut warnings) = (Vec::new(), Vec::new());
        c.bench_function(&format!("encode: {name}"), |b| {
            b.iter(|| {
                out.clear();
                encode_into(&black_box(&value), &options, &mut out, &mut warnings).unwrap();
            })
        });
    }
    let options = Options::default();
    let (mut out, mut cache) = (Vec::new(), ShapeCache::default());
    c.bench_function("encode: msgpack, shape cache", |b| {
        b.iter(|| {
            out.clear();
            cache.encode(&black_box(&value), &options, &mut out)
        })
    });
    let text: String = (0..1000).map(|i| line(i) + "\n").collect();
    c.bench_function("json: 1,000 lines, parse and encode", |b| {
        b.iter(|| {
            let (mut out, mut warnings) = (Vec::new(), Vec::new());
            for line in black_box(&text).lines() {
                let value = json::parse(line.as_bytes()).unwrap();
                encode_into(&&value, &options, &mut out, &mut warnings).unwrap();
            }
            out.len()
        })
    });
    c.bench_function("json: 1,000 lines, shape cache", |b| {
        b.iter(|| lines::encode_jsonl(black_box(text.as_bytes()), &options).len())
    });
}

fn letters(c: &mut Criterion) {
    for (name, words) in [
        ("ascii", "shelf has boxes "),
        ("mixed", "größe съешь κόσμε שלום مرحبا हिन्दी 你好世界 こんにちは 안녕하세요 😀 "),
        ("points", "مَرْحَبًا नमस्ते क्या "),
    ] {
        let whole = words.repeat(2048 / words.len());
        c.bench_function(&format!("nfc of 2 KB: {name}"), |b| {
            b.iter(|| text::check_nfc(black_box(&whole)).unwrap())
        });
    }
}

fn hashing(c: &mut Criterion) {
    for size in [84, 231, 2261] {
        let bytes: Vec<u8> = (0..size * 512).map(|i| (i % 251) as u8).collect();
        let messages: Vec<&[u8]> = bytes.chunks(size).collect();
        c.bench_function(&format!("sha256 of {size} bytes, sha2"), |b| {
            b.iter(|| Sha256::digest(black_box(messages[7])))
        });
        c.bench_function(&format!("sha256 of {size} bytes"), |b| {
            b.iter(|| address::sha256(black_box(messages[7])))
        });
        c.bench_function(&format!("sha256 of {size} bytes, 512 together"), |b| {
            b.iter(|| batch::address_many(black_box(&messages)))
        });
    }
}

fn reading(c: &mut Criterion) {
    let text = line(7);
    let blob = encode(&&json::parse(text.as_bytes()).unwrap(), &Options::default()).unwrap();
    let digest = address::sha256(&blob);
    c.bench_function("header", |b| b.iter(|| Header::read(black_box(&blob)).unwrap()));
    c.bench_function("read", |b| {
        b.iter(|| {
            let (header, payload) = decode::open(black_box(&blob)).unwrap();
            decode::read(header, &payload).unwrap().items.len()
        })
    });
    c.bench_function("verify, shape cache", |b| b.iter(|| decode::verify(black_box(&blob)).unwrap()));
    c.bench_function("fingerprint", |b| b.iter(|| fingerprint::fingerprint(black_box(&blob)).unwrap()));
    c.bench_function("index rows", |b| {
        let (mut bytes, paths) = (0, IndexedPaths::default());
        b.iter(|| index_rows::rows(black_box(&blob), &digest, 7, &paths, |key| bytes += key.len()).unwrap());
    });
    let envelope = envelope(&blob);
    assert_eq!(prove(&envelope), Verdict::Fails);
    c.bench_function("signature", |b| b.iter(|| prove(black_box(&envelope)) == Verdict::Fails));
}

/// A signed grain with a wrong signature, which fails only after all the work.
fn envelope(blob: &[u8]) -> Vec<u8> {
    let mut protected = Vec::new();
    Cbor::map(&mut protected, 3);
    Cbor::int(&mut protected, 1);
    Cbor::int(&mut protected, -8);
    Cbor::int(&mut protected, 3);
    Cbor::str(&mut protected, "application/vnd.mg+msgpack");
    Cbor::int(&mut protected, 4);
    Cbor::bytes(&mut protected, DID.as_bytes());
    let mut signed = blob.to_vec();
    signed[1] |= omsgrain_core::header::SIGNED;
    let mut out = vec![0xd2, 0x84];
    Cbor::bytes(&mut out, &protected);
    out.extend_from_slice(b"\xa1\x63iat\x07");
    Cbor::bytes(&mut out, &signed);
    Cbor::bytes(&mut out, &[0; 64]);
    out
}

fn index(c: &mut Criterion) {
    let text: String = (0..1000).map(|i| line(i) + "\n").collect();
    let mut batch = lines::encode_jsonl(text.as_bytes(), &Options::default());
    batch.hash();
    let grains: Vec<_> = (0..1000).map(|i| (i as u64 + 1, &batch.digests[i], batch.blob(i))).collect();
    c.bench_function("rows of 1,000 grains, sorted", |b| {
        b.iter(|| Memtable::default().add(black_box(&grains)).unwrap())
    });
}

criterion_group! {
    name = stages;
    config = Criterion::default().warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1));
    targets = writing, letters, hashing, reading, index
}
criterion_main!(stages);
