// SPDX-License-Identifier: Apache-2.0
//! Semantic fingerprints: the same statement has the same fingerprint, whenever it was made.
//!
//! ```text
//! fingerprint = first 16 bytes of BLAKE3(payload in canonical MessagePack, without LEFT_OUT)
//! ```
//!
//! A fingerprint does not depend on header, envelope and encoding of the blob; an address does. A
//! fingerprint finds repeated statements.

use crate::codec::msgpack::Msgpack;
use crate::codec::{self, EXTENDED, Encoding, Limits, RawEntry, Wire};
use crate::header::{ENCRYPTED, Header, LEN};
use crate::registry::{self, id};
use crate::{Result, decode, extent};
use alloc::vec::Vec;

/// A fingerprint.
pub type Fingerprint = [u8; 16];

/// The time of the statement. Access data would be left out too, but a blob never contains any.
const LEFT_OUT: [u8; 2] = [id::CREATED_AT, id::TIMESTAMP_MS];

/// The fingerprint of a verified blob, with or without envelope; None if it is sealed.
///
/// # Errors `ERR_CORRUPT` if it is not a grain.
pub fn fingerprint(blob: &[u8]) -> Result<Option<Fingerprint>> {
    let blob = extent::inner(blob)?;
    let header = Header::read(blob)?;
    if header.has(ENCRYPTED) {
        return Ok(None);
    }
    let payload = decode::payload(header, blob)?;
    let entries = header.encoding().read_map(&payload, EXTENDED.max_depth);
    let entries = entries.map_err(|e| e.shifted(LEN))?;
    of_entries(header.encoding(), &payload, &entries).map(Some)
}

/// The fingerprint of a payload with its decoded entries.
///
/// # Errors None for entries that were read from a payload.
pub fn of_entries(encoding: Encoding, payload: &[u8], entries: &[RawEntry<'_>]) -> Result<Fingerprint> {
    let left_out = LEFT_OUT.map(|id| registry::field(id).short);
    let is_in = |entry: &&RawEntry<'_>| !left_out.contains(&entry.key);
    let mut out = Vec::with_capacity(payload.len());
    Msgpack::map(&mut out, entries.iter().filter(is_in).count());
    match encoding {
        Encoding::Msgpack => {
            let mut from = entries.first().map_or(payload.len(), start);
            for (i, entry) in entries.iter().enumerate().filter(|(_, entry)| !is_in(entry)) {
                out.extend_from_slice(&payload[from..start(entry)]);
                from = entries.get(i + 1).map_or(payload.len(), start);
            }
            out.extend_from_slice(&payload[from..]);
        }
        Encoding::Cbor => {
            let limits = Limits { depth: EXTENDED.max_depth, end: usize::MAX };
            let kept: Vec<_> = entries.iter().filter(is_in).collect();
            let rank = |(entry, i): (&&RawEntry<'_>, u32)| (Msgpack::rank(entry.key.as_bytes()), i);
            let mut ranks: Vec<_> = kept.iter().zip(0..).map(rank).collect();
            codec::sort_keys::<Msgpack>(&mut ranks, &|i| kept[i as usize].key)?;
            for (_, i) in &ranks {
                let entry = kept[*i as usize];
                Msgpack::str(&mut out, entry.key);
                codec::write::<Msgpack, _>(&mut out, &&entry.value, 2, limits)?;
            }
        }
    }
    let mut short = Fingerprint::default();
    short.copy_from_slice(&blake3::hash(&out).as_bytes()[..16]);
    Ok(short)
}

/// The offset of an entry in a MessagePack payload: the head of its key.
fn start(entry: &RawEntry<'_>) -> usize {
    let head = match entry.key.len() {
        0..=31 => 1,
        32..=0xff => 2,
        0x100..=0xffff => 3,
        _ => 5,
    };
    entry.offset - entry.key.len() - head
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A map of these entries, in MessagePack; the keys are in order.
    fn blob(entries: &[(&str, u64)]) -> Vec<u8> {
        let mut out = vec![1, 0, 240, 0, 0, 0, 0, 0, 0];
        Msgpack::map(&mut out, entries.len());
        for (key, value) in entries {
            Msgpack::str(&mut out, key);
            Msgpack::uint(&mut out, *value);
        }
        out
    }

    fn expected(entries: &[(&str, u64)]) -> Option<Fingerprint> {
        blake3::hash(&blob(entries)[9..]).as_bytes()[..16].try_into().ok()
    }

    #[test]
    fn only_the_times_are_left_out() {
        let long = ["m".repeat(31), "n".repeat(32), "o".repeat(256), "p".repeat(70_000)];
        let mut all: Vec<(&str, u64)> = vec![("a", 1), ("ca", 2), ("caa", 1 << 40)];
        all.extend(long.iter().map(|key| (&key[..], 7)));
        all.extend([("tms", 1 << 41), ("x", 300)]);
        for from in 0..all.len() {
            for to in from..=all.len() {
                let some = &all[from..to];
                let kept: Vec<_> =
                    some.iter().copied().filter(|(key, _)| !["ca", "tms"].contains(key)).collect();
                assert_eq!(fingerprint(&blob(some)).unwrap(), expected(&kept), "{from}..{to}");
            }
        }
    }

    #[test]
    fn the_head_is_that_of_the_reduced_map() {
        let keys: Vec<String> = (0..17).map(|n| format!("k{n:02}")).collect();
        let mut entries: Vec<_> = keys.iter().map(|key| (&key[..], 1)).collect();
        for len in [15, 16, 17] {
            entries.truncate(len);
            let with_times = [&[("ca", 1)], &entries[..], &[("tms", 1)]].concat();
            assert_eq!(fingerprint(&blob(&with_times)).unwrap(), expected(&entries));
        }
    }

    #[test]
    fn a_sealed_grain_has_none() {
        let mut sealed = blob(&[("a", 1)]);
        sealed[1] |= ENCRYPTED;
        assert_eq!(fingerprint(&sealed).unwrap(), None);
        assert!(fingerprint(b"junk").is_err());
    }
}
