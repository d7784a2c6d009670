// SPDX-License-Identifier: Apache-2.0
//! Two bytes of options and any JSON: refused, or always the same blob, which can be read and
//! written again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use omsgrain_core::codec::{EXTENDED, Encoding, LIGHTWEIGHT, STANDARD};
use omsgrain_core::encode::{Options, encode};
use omsgrain_core::{decode, json};
use omsgrain_fuzz::{blob_comes_back, reversed};

// seeds.py writes these two bytes too.
fn options(choice: u8, type_byte: u8) -> Options {
    Options {
        encoding: if choice & 1 == 0 { Encoding::Msgpack } else { Encoding::Cbor },
        compress: choice & 2 != 0,
        keep_type_name: choice & 4 != 0,
        type_byte: (choice & 8 != 0).then_some(type_byte),
        profile: [EXTENDED, STANDARD, LIGHTWEIGHT, EXTENDED][usize::from(choice >> 4 & 3)],
        sensitivity: choice >> 6,
    }
}

fuzz_target!(|data: &[u8]| {
    let &[choice, type_byte, ref text @ ..] = data else { return };
    let options = options(choice, type_byte);
    let Ok(value) = json::parse(text) else { return };
    let first = encode(&&value, &options);
    assert_eq!(encode(&&value, &options), first, "the same bytes each time");
    let Ok(blob) = first else { return };
    let (header, payload) = decode::open(&blob).expect("what was written can be opened");
    let fields = decode::read(header, &payload).expect("what was written can be read").into_value();
    assert_eq!(encode(&&fields, &options).as_ref(), Ok(&blob), "the same bytes from what was read");
    assert_eq!(encode(&&reversed(fields), &options).as_ref(), Ok(&blob), "in any order");
    blob_comes_back(&blob);
});
