// SPDX-License-Identifier: Apache-2.0
//! Any bytes as a grain to encrypt, as the inside of an encrypted grain, and as an envelope:
//! refused, or the sealed grain opens again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use omsgrain_core::seal::{self, How};
use omsgrain_core::{Header, peek, signature};

fuzz_target!(|bytes: &[u8]| {
    let _ = peek::user_id(bytes);
    let _ = signature::prove(bytes);
    if let Ok(outer) = Header::read(bytes) {
        let _ = seal::before(outer, &bytes[1..]);
    }
    for bits in 0..8u8 {
        let how = How { whole: bits & 1 != 0, hidden: bits & 2 != 0, signed: bits & 4 != 0 };
        if let Ok((outer, start)) = seal::header(bytes, how) {
            let inner = &bytes[start..];
            let mut back = seal::before(outer, inner).expect("what was sealed can be opened");
            back.extend_from_slice(inner);
            assert_eq!(back, bytes);
        }
    }
});
