// SPDX-License-Identifier: Apache-2.0
//! Concatenated grains, as in a container: one call checks many of them, and none becomes a
//! separate object. Spec: OMS §11

use crate::address::Digest;
use crate::header::{ENCRYPTED, SIGNED, VERSION};
use crate::{Code, Error, Result, batch, extent, sha256_lanes};

/// The grains of a block, by their sizes: u32 each, in native byte order.
///
/// # Errors `ERR_CORRUPT` if these are not the sizes of the grains.
pub fn split<'b>(bytes: &'b [u8], sizes: &[u8]) -> Result<Vec<&'b [u8]>> {
    let wrong = || Error::new(Code::Corrupt, "the sizes do not match the grains");
    let (sizes, rest) = sizes.as_chunks();
    let mut left = bytes;
    let mut grains = Vec::with_capacity(sizes.len());
    for size in sizes {
        let (grain, behind) = left.split_at_checked(u32::from_ne_bytes(*size) as usize).ok_or_else(wrong)?;
        grains.push(grain);
        left = behind;
    }
    if left.is_empty() && rest.is_empty() { Ok(grains) } else { Err(wrong()) }
}

/// The result of checking grains.
#[derive(Debug)]
pub struct Checked {
    /// The hash of each grain; for a plain blob the address.
    pub digests: Vec<Digest>,
    /// Positions of grains that are not plain blobs, and were only hashed.
    pub special: Vec<usize>,
    /// Positions and errors of bad plain blobs.
    pub wrong: Vec<(usize, Error)>,
}

/// Checks plain blobs in full, on all cores; envelopes and sealed grains are left to the caller.
pub fn check(grains: &[&[u8]]) -> Checked {
    let special: Vec<usize> = (0..grains.len()).filter(|i| !is_plain(grains[*i])).collect();
    if special.is_empty() {
        let (digests, verdicts): (Vec<_>, Vec<_>) = batch::check_many(grains).into_iter().unzip();
        let wrong = verdicts.into_iter().enumerate().filter_map(|(i, v)| v.err().map(|e| (i, e)));
        return Checked { digests, special, wrong: wrong.collect() };
    }
    let plain: Vec<usize> = (0..grains.len()).filter(|i| is_plain(grains[*i])).collect();
    let views: Vec<&[u8]> = plain.iter().map(|i| grains[*i]).collect();
    let verdicts = batch::check_many(&views);
    let wrong = plain.iter().zip(verdicts).filter_map(|(i, (_, v))| v.err().map(|e| (*i, e)));
    Checked { digests: batch::address_many(grains), special, wrong: wrong.collect() }
}

fn is_plain(grain: &[u8]) -> bool {
    matches!(grain, [VERSION, flags, ..] if flags & (SIGNED | ENCRYPTED) == 0)
}

/// The addresses of stored blobs, each in a row after the beginning of its address; None if one of
/// them changed.
pub fn sound(rows: &[&[u8]], mark: usize) -> Option<Vec<Digest>> {
    let parts: Option<Vec<_>> = rows.iter().map(|row| row.split_at_checked(mark)).collect();
    let (marks, blobs): (Vec<_>, Vec<_>) = parts?.into_iter().unzip();
    // A block is too small to be worth waking other threads.
    let digests = sha256_lanes::digests(blobs.len(), |i| blobs[i]);
    marks.iter().zip(&digests).all(|(mark, digest)| digest.starts_with(mark)).then_some(digests)
}

/// The first grain whose header has an earlier time than the grain before it, or else the last
/// time. Grains of `skipped`, in rising order, do not count.
pub fn out_of_order(grains: &[&[u8]], mut last: u32, skipped: &[usize]) -> std::result::Result<u32, usize> {
    let mut skipped = skipped.iter().peekable();
    for (i, grain) in grains.iter().enumerate() {
        if skipped.next_if(|bad| **bad == i).is_some() {
            continue;
        }
        let time = created_at(grain);
        if time < last {
            return Err(i);
        }
        last = time;
    }
    Ok(last)
}

/// The time in the header of a grain; 0 if there is none.
fn created_at(grain: &[u8]) -> u32 {
    let blob = extent::inner(grain).unwrap_or_default();
    blob.get(5..9).and_then(|time| time.try_into().ok()).map_or(0, u32::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::sha256;
    use crate::encode::{Options, encode};
    use crate::json;

    fn blob(text: &str) -> Vec<u8> {
        let fields = format!(r#"{{"type":"event","content":"{text}","created_at":1768471200000}}"#);
        encode(&&json::parse(fields.as_bytes()).unwrap(), &Options::default()).unwrap()
    }

    fn sizes(grains: &[&[u8]]) -> Vec<u8> {
        grains.iter().flat_map(|grain| u32::try_from(grain.len()).unwrap().to_ne_bytes()).collect()
    }

    #[test]
    fn blocks_are_split_where_their_grains_end() {
        let grains = [&b"one"[..], b"", b"three"];
        assert_eq!(split(b"onethree", &sizes(&grains)).unwrap(), grains);
        assert_eq!(split(b"", b"").unwrap(), Vec::<&[u8]>::new());
        for (bytes, sizes) in
            [(&b"onethre"[..], &sizes(&grains)[..]), (b"onethree!", &sizes(&grains)), (b"", b"\0")]
        {
            assert_eq!(split(bytes, sizes).unwrap_err().kind(), Code::Corrupt);
        }
    }

    #[test]
    fn each_grain_is_judged_for_itself() {
        let (good, mut broken, mut sealed) = (blob("a"), blob("b"), blob("c"));
        broken.push(0);
        sealed[1] |= ENCRYPTED;
        let envelope = [0xd2u8, 0x84];
        let grains = [&good[..], &broken, &sealed, &envelope, b"\x01", &good];
        let checked = check(&grains);
        assert_eq!(checked.special, [2, 3, 4]);
        assert_eq!(
            checked.wrong.iter().map(|(i, e)| (*i, e.kind())).collect::<Vec<_>>(),
            [(1, Code::Corrupt)]
        );
        let digests: Vec<Digest> = grains.iter().map(|grain| sha256(grain)).collect();
        assert_eq!(checked.digests, digests);
        let plain = check(&grains[..2]);
        assert_eq!((plain.special.len(), plain.wrong[0].0, &plain.digests[..]), (0, 1, &digests[..2]));
    }

    #[test]
    fn rows_are_told_from_damaged_ones() {
        let row = |text: &[u8]| [&sha256(text)[..8], text].concat();
        let (good, mut bad) = (row(b"good"), row(b"bad"));
        bad[9] ^= 1;
        assert_eq!(sound(&[&good, &good], 8), Some(vec![sha256(b"good"); 2]));
        assert_eq!(sound(&[&good, &bad, &good], 8), None);
        assert_eq!(sound(&[&good, b"short"], 8), None);
    }

    #[test]
    fn times_must_rise() {
        let at = |time: u8| [1, 0, 1, 0, 0, 0, 0, 0, time];
        let grains = [&at(3)[..], &at(3), &at(1), &at(7)];
        assert_eq!(out_of_order(&grains, 3, &[2]), Ok(7));
        assert_eq!(out_of_order(&grains, 0, &[]), Err(2));
        assert_eq!(out_of_order(&grains, 4, &[2]), Err(0));
    }
}
