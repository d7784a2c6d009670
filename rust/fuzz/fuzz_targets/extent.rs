// SPDX-License-Identifier: Apache-2.0
//! Any bytes as consecutive grains: each ends where its own bytes say, whatever follows, and a
//! valid grain is valid only in full length.
#![no_main]

use libfuzzer_sys::fuzz_target;
use omsgrain_core::{block, decode, extent};

fuzz_target!(|data: &[u8]| {
    let (mut grains, mut at) = (Vec::new(), 0);
    while at < data.len() {
        let Ok(Some(length)) = extent::extent(&data[at..]) else { break };
        assert!(length > 0 && at + length <= data.len());
        let grain = &data[at..at + length];
        assert_eq!(extent::extent(grain).ok().flatten(), Some(length), "what follows says nothing");
        assert!(extent::extent(&grain[..length - 1]).is_err(), "a grain that is cut");
        extent::inner(grain).expect("a grain that ends can be opened");
        grains.push(grain);
        at += length;
    }
    let sizes: Vec<u8> = grains.iter().flat_map(|grain| (grain.len() as u32).to_ne_bytes()).collect();
    assert_eq!(block::split(&data[..at], &sizes).as_ref(), Ok(&grains));
    let checked = block::check(&grains);
    assert_eq!(checked.digests.len(), grains.len());
    for (i, grain) in grains.iter().enumerate() {
        if checked.special.contains(&i) || checked.wrong.iter().any(|(wrong, _)| *wrong == i) {
            continue;
        }
        let (header, payload) = decode::open(grain).expect("a good grain can be opened");
        decode::read(header, &payload).expect("and read");
    }
});
