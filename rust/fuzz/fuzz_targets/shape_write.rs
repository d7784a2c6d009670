// SPDX-License-Identifier: Apache-2.0
//! Two bytes of options, as for json_encode, and JSON lines: if the shape cache accepts a line, the
//! general code gives the same bytes and no warnings.
#![no_main]

use libfuzzer_sys::fuzz_target;
use omsgrain_core::codec::{EXTENDED, Encoding, LIGHTWEIGHT, STANDARD};
use omsgrain_core::encode::{Options, encode_into};
use omsgrain_core::json;
use omsgrain_core::shape_cache::ShapeCache;

fuzz_target!(|data: &[u8]| {
    let &[choice, _, ref text @ ..] = data else { return };
    let options = Options {
        encoding: if choice & 1 == 0 { Encoding::Msgpack } else { Encoding::Cbor },
        keep_type_name: choice & 4 != 0,
        profile: [EXTENDED, STANDARD, LIGHTWEIGHT, EXTENDED][usize::from(choice >> 4 & 3)],
        sensitivity: choice >> 6,
        ..Options::default()
    };
    let mut cache = ShapeCache::default();
    // Twice, so that each shape also meets its own plan.
    for line in text.split(|b| *b == b'\n').chain(text.split(|b| *b == b'\n')) {
        let Ok(value) = json::parse(line) else { continue };
        let mut by_plan = vec![7];
        if !cache.encode(&&value, &options, &mut by_plan) {
            assert_eq!(by_plan, [7], "what is declined leaves nothing");
            continue;
        }
        let (mut out, mut warnings) = (vec![7], Vec::new());
        encode_into(&&value, &options, &mut out, &mut warnings).expect("what the cache takes is good");
        assert_eq!((by_plan, Vec::<String>::new()), (out, warnings));
    }
});
