// SPDX-License-Identifier: Apache-2.0
//! Any bytes as a COSE_Sign1: both readers accept the same envelopes, and a single signature gets
//! the same verdict as among many.
#![no_main]

use libfuzzer_sys::fuzz_target;
use omsgrain_core::cose::Sign1;
use omsgrain_core::extent;
use omsgrain_core::signature::{Verdict, prove, prove_many};

fuzz_target!(|data: &[u8]| {
    if let Some(message) = Sign1::read(data) {
        let (payload, length) = extent::envelope(data).expect("an envelope");
        assert_eq!((payload, length), (message.payload, data.len()));
        assert!(message.to_be_signed().len() > payload.len());
    }
    let alone = prove(data);
    assert_eq!(prove_many(&[data, b"\xd2\x84", data]), [alone, Verdict::Unknown, alone]);
});
