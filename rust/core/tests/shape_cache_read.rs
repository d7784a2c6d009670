// SPDX-License-Identifier: Apache-2.0
//! The general code accepts what the shape cache reads: whole grains and damaged ones.

use std::borrow::Cow;

use omsgrain_core::codec::Encoding;
use omsgrain_core::decode::{self, Decoded, Parsed};
use omsgrain_core::encode::{Options, encode};
use omsgrain_core::registry::TYPES;
use omsgrain_core::shape_cache::{Plan, Reader, learn_one, takes_one};
use omsgrain_core::{Result, Value, batch};

use crate::shape_cache_write::{Rng, options};

fn general(blob: &[u8], check: impl FnOnce(Result<Decoded<'_>>)) {
    match decode::open(blob) {
        Ok((header, payload)) => check(decode::read(header, &payload)),
        Err(refused) => check(Err(refused)),
    }
}

/// A plan accepted this blob: the general code gives the same result.
fn agree(plan: &Plan, blob: &[u8]) {
    general(blob, |decoded| {
        let decoded = decoded.unwrap_or_else(|refused| panic!("the shape cache took {blob:02x?}: {refused}"));
        assert_eq!(decoded.warnings, Vec::<String>::new(), "{blob:02x?}");
        assert_eq!(decoded.grain_type.map(|t| t.byte), Some(plan.grain_type.byte));
        let steps = plan.steps(decoded.header.encoding());
        assert_eq!(steps.len(), decoded.items.len());
        for (step, item) in steps.iter().zip(&decoded.items) {
            assert_eq!((step.id, &*plan.names[step.from], false), (item.id, item.key, item.negate));
        }
    });
}

/// Reads consecutive blobs; returns how many the shape cache accepted.
fn taken(blobs: &[Vec<u8>]) -> usize {
    let (mut reader, mut count) = (Reader::default(), 0);
    for blob in blobs {
        let Ok((header, _)) = decode::open(blob) else { continue };
        match reader.takes(header, blob) {
            Some(plan) => {
                agree(plan, blob);
                count += 1;
            }
            None => general(blob, |decoded| {
                if let Ok(decoded) = decoded {
                    reader.learn(&decoded);
                    learn_one(&decoded);
                }
            }),
        }
        if let Some(plan) = takes_one(header, blob) {
            agree(&plan, blob);
        }
    }
    count
}

/// Valid blobs of one shape, compressed and not, in one wire format.
fn blobs(rng: &mut Rng, of: usize, count: usize) -> Vec<Vec<u8>> {
    let of = &TYPES[of];
    let (names, options) = (rng.shape(of), Options { type_byte: None, ..options(rng) });
    let made = (0..count).map(|_| encode(&&Value::Map(rng.grain(of, &names)), &options));
    made.flatten().collect()
}

fn damaged(rng: &mut Rng, blob: &[u8]) -> Vec<u8> {
    let (mut blob, at) = (blob.to_vec(), rng.below(blob.len()));
    match rng.below(7) {
        0 => blob[at] ^= 1 << rng.below(8),
        1 => blob[at] = [0, 0x7f, 0x80, 0xa0, 0xc0, 0xc2, 0xc4, 0xca, 0xcb, 0xd9, 0xf6, 0xff][rng.below(12)],
        2 => blob.insert(at, rng.below(256) as u8),
        3 => drop(blob.remove(at)),
        4 => blob.truncate(at),
        5 => blob[rng.below(9).min(at)] ^= 1 << rng.below(8),
        _ => {
            let other = rng.below(blob.len());
            blob.swap(at, other);
        }
    }
    blob
}

#[test]
fn whole_and_damaged_grains() {
    let mut rng = Rng(3);
    for (of, grain_type) in TYPES.iter().enumerate() {
        let (mut good, mut cached) = (0, 0);
        for _ in 0..120 {
            let good_ones = blobs(&mut rng, of, 6);
            good += good_ones.len();
            cached += taken(&good_ones);
            let mut mixed = good_ones.clone();
            for blob in &good_ones {
                mixed.extend((0..12).map(|_| damaged(&mut rng, blob)));
                mixed.push(blob.clone());
            }
            taken(&mixed);
        }
        println!("{}: {cached} of {good}", grain_type.name);
        assert!(cached * 3 > good && cached > 10, "{}: {cached} of {good}", grain_type.name);
    }
}

fn belief(subject: &str, encoding: Encoding) -> Vec<u8> {
    let text = |text: &'static str| Value::Str(text.into());
    let fields = [
        ("type", text("belief")),
        ("subject", Value::Str(subject.into())),
        ("relation", text("mg:knows")),
        ("object", text("")),
        ("confidence", Value::Float(0.5)),
        ("created_at", Value::Int(1_768_471_200_000)),
        ("namespace", text("lab")),
        ("structural_tags", Value::List(vec![text("pii:x"), text("y")])),
    ];
    let fields = fields.into_iter().map(|(name, value)| (Cow::Borrowed(name), value)).collect();
    encode(&&Value::Map(fields), &Options { encoding, ..Options::default() }).unwrap()
}

#[test]
fn each_byte_with_each_value() {
    for encoding in [Encoding::Msgpack, Encoding::Cbor] {
        let good = belief("x", encoding);
        let mut all = vec![good.clone(), good.clone()];
        for at in 0..good.len() {
            for value in 0..=255 {
                let mut blob = good.clone();
                blob[at] = value;
                all.push(blob);
            }
        }
        assert!(taken(&all) > 100);
    }
}

#[test]
fn a_batch_of_many_shapes_is_read_as_one_by_one() {
    let mut rng = Rng(5);
    let mut all: Vec<Vec<u8>> = Vec::new();
    while all.len() < 3000 {
        let of = rng.below(TYPES.len());
        for blob in blobs(&mut rng, of, 4) {
            all.push(damaged(&mut rng, &blob));
            all.push(blob);
        }
    }
    let views: Vec<&[u8]> = all.iter().map(|blob| &blob[..]).collect();
    let verdicts: Vec<_> = batch::check_many(&views).into_iter().map(|(_, verdict)| verdict).collect();
    let mut read = Vec::new();
    let prepare = |_: &Parsed<'_>, blob: &[u8]| blob.len();
    let taken = batch::read_each(
        &views,
        prepare,
        |work| work(),
        |at, one, ready| {
            assert_eq!(at, read.len());
            assert_eq!(ready, if one.is_ok() { views[at].len() } else { 0 });
            read.push(one.map(|_| ()));
            if at + 1 < views.len() { Ok(()) } else { Err("the last") }
        },
    );
    assert_eq!(taken, Err("the last"));
    assert_eq!(read.len(), views.len());
    for ((blob, verdict), read) in views.iter().zip(verdicts).zip(read) {
        general(blob, |decoded| {
            assert_eq!(decode::verify(blob), decoded.as_ref().map(|d| d.header).map_err(Clone::clone));
            assert_eq!(read, decoded.as_ref().map(|_| ()).map_err(Clone::clone));
            assert_eq!(verdict, decoded.map(|d| d.header));
        });
    }
}
