// SPDX-License-Identifier: Apache-2.0
//! Messages of any lengths have the same hashes side by side as one by one. With the feature
//! `without-sha` this also tests processors with SHA instructions.
#![no_main]

use libfuzzer_sys::fuzz_target;
use omsgrain_core::address::sha256;
use omsgrain_core::batch::address_many;

fuzz_target!(|bytes: &[u8]| {
    let mut messages: Vec<&[u8]> = Vec::new();
    let (lengths, mut rest) = bytes.split_at(bytes.len().min(64));
    for length in lengths {
        let (message, after) = rest.split_at(rest.len().min(usize::from(*length) * 5));
        messages.push(message);
        rest = after;
    }
    messages.push(rest);
    let alone: Vec<_> = messages.iter().map(|message| sha256(message)).collect();
    assert_eq!(address_many(&messages), alone);
});
