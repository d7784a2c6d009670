// SPDX-License-Identifier: Apache-2.0
//! Any bytes as a payload in CBOR: refused, or the only encoding of their content.
#![no_main]

use libfuzzer_sys::fuzz_target;
use omsgrain_core::codec::cbor::Cbor;

fuzz_target!(|payload: &[u8]| omsgrain_fuzz::payload_comes_back::<Cbor>(payload));
