// SPDX-License-Identifier: Apache-2.0
//! A byte for the codec, and any bytes as a frame: refused, or unpacked to the stated length, and
//! the same after packing again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use omsgrain_core::frames::{Codec, MAX_FRAME, measure, pack, unpack};

fuzz_target!(|data: &[u8]| {
    let &[codec, ref bytes @ ..] = data else { return };
    let codec = if codec & 1 == 0 { Codec::Zstd } else { Codec::Lz4 };
    let Ok(Some((length, size))) = measure(codec, bytes) else {
        assert!(unpack(codec, bytes).is_err(), "what is no frame is not unpacked");
        return;
    };
    assert!(length <= bytes.len() && size <= MAX_FRAME);
    let Ok(inside) = unpack(codec, &bytes[..length]) else { return };
    assert_eq!(inside.len(), size);
    assert!(unpack(codec, bytes).is_ok() == (length == bytes.len()), "bytes behind a frame");
    let ours = pack(codec, &inside).expect("what was unpacked can be packed");
    assert_eq!(measure(codec, &ours), Ok(Some((ours.len(), size))));
    assert_eq!(unpack(codec, &ours).as_ref(), Ok(&inside));
});
