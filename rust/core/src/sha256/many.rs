// SPDX-License-Identifier: Apache-2.0
//! Messages of any lengths, hashed side by side: a lane that is done takes the next message.

use super::wide::Wide;
use super::{BLOCK, Blocks, Eight, START, Sixteen, States, digest, load};
use crate::address::{Digest, sha256};

/// Bytes of padding at the least: one bit and the length.
const PADDING: usize = 9;

/// The SHA-256 of each message, in their order.
pub fn digests<'m>(count: usize, message: impl Fn(usize) -> &'m [u8]) -> Vec<Digest> {
    match (Sixteen::here(), Eight::here()) {
        (Some(wide), _) if count >= 12 => lanes::<16>(wide, count, message),
        (_, Some(wide)) if count >= 4 => lanes::<8>(wide, count, message),
        _ => (0..count).map(|i| sha256(message(i))).collect(),
    }
}

/// What a lane is at.
#[derive(Clone, Copy)]
struct Lane<'m> {
    index: usize,
    message: &'m [u8],
    block: usize,
    blocks: usize,
}

impl<'m> Lane<'m> {
    fn new(index: usize, message: &'m [u8]) -> Lane<'m> {
        Lane { index, message, block: 0, blocks: (message.len() + PADDING).div_ceil(BLOCK) }
    }

    /// Writes its next block: the message, one bit, zeros, and its length in bits at the end.
    fn fill<const L: usize>(&mut self, blocks: &mut Blocks<L>, lane: usize) {
        let start = self.block * BLOCK;
        let rest = self.message.get(start..).unwrap_or_default();
        if let Some(whole) = rest.first_chunk() {
            load(blocks, lane, whole);
        } else {
            let mut out = [0; BLOCK];
            out[..rest.len()].copy_from_slice(rest);
            if start <= self.message.len() {
                out[rest.len()] = 0x80;
            }
            if self.block + 1 == self.blocks {
                let bits = (self.message.len() as u64) << 3;
                out[BLOCK - 8..].copy_from_slice(&bits.to_be_bytes());
            }
            load(blocks, lane, &out);
        }
        self.block += 1;
    }
}

fn lanes<'m, const L: usize>(
    wide: impl Wide<L>,
    count: usize,
    message: impl Fn(usize) -> &'m [u8],
) -> Vec<Digest> {
    let mut out = vec![Digest::default(); count];
    let mut waiting = (0..count).map(|i| Lane::new(i, message(i)));
    let mut lanes: [Option<Lane<'_>>; L] = std::array::from_fn(|_| waiting.next());
    let mut states: States<L> = START.map(|word| [word; L]);
    let mut blocks: Blocks<L> = [[0; L]; 16];
    while lanes.iter().any(Option::is_some) {
        for (i, lane) in lanes.iter_mut().enumerate() {
            if let Some(lane) = lane {
                lane.fill(&mut blocks, i);
            }
        }
        wide.compress(&mut states, &blocks);
        for (i, lane) in lanes.iter_mut().enumerate() {
            if let Some(done) = lane.filter(|lane| lane.block == lane.blocks) {
                out[done.index] = digest(&states, i);
                states.iter_mut().zip(START).for_each(|(words, start)| words[i] = start);
                *lane = waiting.next();
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::wide::Portable;
    use super::*;

    /// Of all lengths around the ends of blocks, and some in between.
    fn messages() -> Vec<Vec<u8>> {
        let mut seed = 7_u32;
        let mut byte = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 24) as u8
        };
        (0..300)
            .map(|i| {
                let len = if i < 200 { i } else { usize::from(byte()) * 17 };
                (0..len).map(|_| byte()).collect()
            })
            .collect()
    }

    fn all_agree<const L: usize>(wide: impl Wide<L>) {
        let messages = messages();
        for count in [0, 1, 2, L - 1, L, L + 1, 50, 300] {
            let expected: Vec<_> = messages[..count].iter().map(|m| sha256(m)).collect();
            assert_eq!(lanes::<L>(wide, count, |i| &messages[i]), expected);
            let backwards: Vec<_> = expected.iter().rev().copied().collect();
            assert_eq!(lanes::<L>(wide, count, |i| &messages[count - 1 - i]), backwards);
        }
    }

    #[test]
    fn side_by_side_is_as_one_by_one() {
        all_agree::<8>(Portable);
        all_agree::<16>(Portable);
        if let Some(wide) = Eight::here() {
            all_agree::<8>(wide);
        }
        if let Some(wide) = Sixteen::here() {
            all_agree::<16>(wide);
        }
        let messages = messages();
        let expected: Vec<_> = messages.iter().map(|m| sha256(m)).collect();
        assert_eq!(digests(messages.len(), |i| &messages[i]), expected);
    }
}
