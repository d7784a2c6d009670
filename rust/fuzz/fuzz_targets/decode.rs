// SPDX-License-Identifier: Apache-2.0
//! Any bytes as a blob: refused, or the one encoding of what they say.
#![no_main]

use libfuzzer_sys::fuzz_target;
use omsgrain_fuzz::{blob_comes_back, with_its_header};

fuzz_target!(|blob: &[u8]| {
    blob_comes_back(blob);
    if let Some(blob) = with_its_header(blob) {
        blob_comes_back(&blob);
    }
});
