// SPDX-License-Identifier: Apache-2.0
//! Any bytes as a blob: refused, or the only encoding of their content, also as columns.
#![no_main]

use libfuzzer_sys::fuzz_target;
use omsgrain_fuzz::{blob_comes_back, columns_agree, with_its_header};

fuzz_target!(|blob: &[u8]| {
    blob_comes_back(blob);
    columns_agree(blob);
    if let Some(blob) = with_its_header(blob) {
        blob_comes_back(&blob);
        columns_agree(&blob);
    }
});
