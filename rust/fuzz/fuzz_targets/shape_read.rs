// SPDX-License-Identifier: Apache-2.0
//! Any bytes after valid grains of their kind: the shape cache and the general code agree.
#![no_main]

use libfuzzer_sys::fuzz_target;
use omsgrain_core::shape_cache::Reader;
use omsgrain_core::{Header, Result, decode};
use omsgrain_fuzz::with_its_header;

fn general(blob: &[u8]) -> Result<Header> {
    let (header, payload) = decode::open(blob)?;
    decode::read(header, &payload).map(|decoded| decoded.header)
}

/// The bytes are consecutive blobs, each after two bytes with its length.
fn split(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut blobs = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let (blob, after) = rest.split_at(rest.len().min(usize::from(u16::from_be_bytes(*length))));
        blobs.push(blob);
        bytes = after;
    }
    blobs
}

fuzz_target!(|bytes: &[u8]| {
    let given = split(bytes);
    let mended: Vec<Vec<u8>> =
        given.iter().chain(&[bytes]).filter_map(|blob| with_its_header(blob)).collect();
    let mut blobs: Vec<&[u8]> = mended.iter().map(|blob| &blob[..]).chain(given).collect();
    // Again, with known shapes.
    blobs.extend_from_within(..);
    let mut reader = Reader::default();
    for blob in blobs {
        let expected = general(blob);
        assert_eq!(decode::verify_by(&mut reader, blob), expected);
        assert_eq!(decode::verify(blob), expected);
    }
});
