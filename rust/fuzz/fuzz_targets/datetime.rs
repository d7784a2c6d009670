// SPDX-License-Identifier: Apache-2.0
//! Any text as an RFC 3339 date: refused, or equal to chrono's result.
#![no_main]

use chrono::DateTime;
use libfuzzer_sys::fuzz_target;
use omsgrain_core::datetime::parse_rfc3339;

fuzz_target!(|text: &str| {
    let ours = parse_rfc3339(text);
    let leap = text.get(17..19) == Some("60");
    match DateTime::parse_from_rfc3339(text).map(|instant| instant.timestamp_millis()) {
        // A leap second is the start of the next second here, and a long second in chrono.
        Ok(_) if leap => assert!(ours.is_none_or(|ms| ms.rem_euclid(86_400_000) == 0)),
        // chrono also accepts U+2212 as a minus.
        Ok(theirs) => assert!(ours == Some(theirs) || !text.is_ascii(), "{ours:?} {theirs}"),
        Err(_) => assert_eq!(ours, None),
    }
});
