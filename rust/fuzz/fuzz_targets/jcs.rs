// SPDX-License-Identifier: Apache-2.0
//! A byte for the depth and any JSON: refused, or canonical text, which is its own canonical text
//! and has the same content. The text stays the same if the keys come in another order or one is
//! removed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use omsgrain_core::json::{self, jcs};

fuzz_target!(|data: &[u8]| {
    let &[depth, ref text @ ..] = data else { return };
    let depth = usize::from(depth);
    let Ok(once) = jcs::canonical(text, None, depth) else { return };
    std::str::from_utf8(&once).expect("canonical text is UTF-8");
    json::parse(&once).expect("canonical text is JSON");
    assert_eq!(jcs::canonical(&once, None, depth).as_ref(), Ok(&once), "its own canonical text");
    let spaced = [b" \n", text, b"\t "].concat();
    assert_eq!(jcs::canonical(&spaced, None, depth).as_ref(), Ok(&once), "spaces say nothing");
    let inside = [b"{\"b\":", text, b",\"a\":", text, b"}"].concat();
    let pair = [b"{\"a\":", once.as_slice(), b",\"b\":", once.as_slice(), b"}"].concat();
    match jcs::canonical(&inside, None, depth + 1) {
        Ok(found) => assert_eq!(found, pair, "in the order of keys"),
        // The parser has its own limit.
        Err(error) => assert_eq!(error.kind(), omsgrain_core::Code::Corrupt),
    }
    if let Ok(found) = jcs::canonical(&inside, Some("a"), depth + 1) {
        assert_eq!(found, [b"{\"b\":", once.as_slice(), b"}"].concat(), "without a key");
    }
});
