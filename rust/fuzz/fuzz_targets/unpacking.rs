// SPDX-License-Identifier: Apache-2.0
//! A byte for the codec, one for the size of pieces, and any bytes as a frame of any size. It is
//! refused, or pieces and the whole unpack to the same stated length, and pack again.
#![no_main]

use std::io::Read;

use libfuzzer_sys::fuzz_target;
use omsgrain_core::frames::{Codec, Packing, Unpacking, is_long, measure, unpack};

const MOST: u64 = 4 << 20;

fn unpacked(codec: Codec, bytes: &[u8], piece: usize) -> Option<(Vec<u8>, u64)> {
    let mut unpacking = Unpacking::new(codec, bytes).ok()?;
    let (mut out, mut buffer) = (Vec::new(), vec![0; piece]);
    loop {
        let size = unpacking.read(&mut buffer).ok()?;
        out.extend_from_slice(&buffer[..size]);
        if size == 0 || out.len() as u64 > MOST {
            return (size == 0).then(|| (out, unpacking.taken()));
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let &[codec, piece, ref bytes @ ..] = data else { return };
    let codec = if codec & 1 == 0 { Codec::Zstd } else { Codec::Lz4 };
    let piece = 1 + usize::from(piece) * usize::from(piece);
    let found = unpacked(codec, bytes, piece);
    assert_eq!(found, unpacked(codec, bytes, 1 << 16), "pieces of other sizes");
    if !is_long(codec, bytes)
        && let Ok(Some((length, size))) = measure(codec, bytes)
        && let Ok(whole) = unpack(codec, &bytes[..length])
        && size as u64 <= MOST
    {
        assert_eq!(found, Some((whole, length as u64)), "a frame that is unpacked whole");
    }
    let Some((inside, taken)) = found else { return };
    let taken = taken as usize;
    assert!(taken <= bytes.len());
    assert_eq!(unpacked(codec, &bytes[..taken], piece).map(|found| found.0), Some(inside.clone()));
    assert!(unpacked(codec, &bytes[..taken - 1], piece).is_none(), "a frame that is cut");
    let mut packing = Packing::new(codec, inside.len() as u64).expect("a frame can be begun");
    let mut ours = Vec::new();
    for part in inside.chunks(piece) {
        ours.append(&mut packing.add(part).expect("what was unpacked can be packed"));
    }
    ours.append(&mut packing.finish().expect("the content is as long as was said"));
    let length = ours.len() as u64;
    assert_eq!(unpacked(codec, &ours, piece), Some((inside, length)));
});
