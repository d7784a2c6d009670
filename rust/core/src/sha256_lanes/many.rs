// SPDX-License-Identifier: Apache-2.0
//! Hashes messages of any lengths side by side: a lane that is done takes the next message.

use super::wide::Wide;
use super::{BLOCK, Eight, START, Sixteen, States, digest};
use crate::address::{Digest, sha256};

/// The SHA-256 of each message, in input order. Sixteen at once take as long as one alone, eight
/// slightly longer. So it is worth it from that many messages on, whatever their lengths.
pub fn digests<'m>(count: usize, message: impl Fn(usize) -> &'m [u8]) -> Vec<Digest> {
    match (Sixteen::here(), Eight::here()) {
        (Some(wide), _) if count >= 2 => lanes::<16>(wide, count, message),
        (_, Some(wide)) if count >= 3 => lanes::<8>(wide, count, message),
        _ => (0..count).map(|i| sha256(message(i))).collect(),
    }
}

/// The state of one lane.
struct Lane<'m> {
    index: usize,
    whole: &'m [[u8; BLOCK]],
    last: Last,
    blocks: usize,
    done: usize,
}

impl<'m> Lane<'m> {
    const EMPTY: Lane<'static> =
        Lane { index: usize::MAX, whole: &[], last: [[0; BLOCK]; 2], blocks: usize::MAX, done: 0 };

    fn take(&mut self, index: usize, message: &'m [u8]) {
        let (whole, blocks) = pad(message, &mut self.last);
        (self.index, self.whole, self.blocks, self.done) = (index, whole, blocks, 0);
    }

    /// Its next block.
    fn block(&self) -> &[u8; BLOCK] {
        block(self.whole, &self.last, self.done)
    }
}

fn lanes<'m, const L: usize>(
    wide: impl Wide<L>,
    count: usize,
    message: impl Fn(usize) -> &'m [u8],
) -> Vec<Digest> {
    let mut out = vec![Digest::default(); count];
    let mut waiting = 0..count;
    let mut lanes: [Lane<'_>; L] = std::array::from_fn(|_| Lane::EMPTY);
    let mut states: States<L> = START.map(|word| [word; L]);
    for (lane, index) in lanes.iter_mut().zip(&mut waiting) {
        lane.take(index, message(index));
    }
    loop {
        // For this many steps, the lanes only advance to their next block.
        let Some(steps) = lanes.iter().filter(|l| l.index < count).map(|l| l.blocks - l.done).min() else {
            return out;
        };
        for _ in 0..steps {
            wide.compress(&mut states, &lanes.each_ref().map(Lane::block));
            lanes.iter_mut().for_each(|lane| lane.done += 1);
        }
        for (i, lane) in lanes.iter_mut().enumerate().filter(|(_, lane)| lane.done == lane.blocks) {
            out[lane.index] = digest(&states, i);
            states.iter_mut().zip(START).for_each(|(words, start)| words[i] = start);
            match waiting.next() {
                Some(index) => lane.take(index, message(index)),
                None => *lane = Lane::EMPTY,
            }
        }
    }
}
/// The minimum of padding: one bit and the length.
const PADDING: usize = 9;

/// The bytes after the whole blocks: the rest, one bit, zeros, and the length in bits.
pub type Last = [[u8; BLOCK]; 2];

/// Writes the last blocks of a message. Returns its whole blocks, and the number of all blocks.
pub fn pad<'m>(message: &'m [u8], last: &mut Last) -> (&'m [[u8; BLOCK]], usize) {
    let (whole, rest) = message.as_chunks();
    let blocks = (message.len() + PADDING).div_ceil(BLOCK);
    let last = last.as_flattened_mut();
    last.fill(0);
    last[..rest.len()].copy_from_slice(rest);
    last[rest.len()] = 0x80;
    let end = (blocks - whole.len()) * BLOCK;
    last[end - 8..end].copy_from_slice(&((message.len() as u64) << 3).to_be_bytes());
    (whole, blocks)
}

/// A block by its number; after the last, any block.
#[inline]
pub fn block<'b>(whole: &'b [[u8; BLOCK]], last: &'b Last, number: usize) -> &'b [u8; BLOCK] {
    match number.checked_sub(whole.len()) {
        None => &whole[number],
        Some(behind) => &last[behind & 1],
    }
}

#[cfg(test)]
mod tests {
    use super::super::wide::Portable;
    use super::*;

    /// Tests lengths around the ends of blocks, and some in between.
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
        for count in [0, 1, 2, 3, L - 1, L, L + 1, 50, 300] {
            let expected: Vec<_> = messages[..count].iter().map(|m| sha256(m)).collect();
            assert_eq!(lanes::<L>(wide, count, |i| &messages[i]), expected);
            let backwards: Vec<_> = expected.iter().rev().copied().collect();
            assert_eq!(lanes::<L>(wide, count, |i| &messages[count - 1 - i]), backwards);
        }
        // Messages at any offset, and one much longer than the others.
        let bytes: Vec<u8> = messages.concat();
        for start in 0..130 {
            let message =
                |i: usize| &bytes[start + i * 7..][..if i == 5 { 3000 } else { (i * 37 + start) % 261 }];
            let expected: Vec<_> = (0..40).map(|i| sha256(message(i))).collect();
            assert_eq!(lanes::<L>(wide, 40, message), expected);
        }
    }

    #[test]
    fn side_by_side_is_as_one_by_one() {
        all_agree::<8>(Portable);
        all_agree::<16>(Portable);
        let messages = messages();
        let expected: Vec<_> = messages.iter().map(|m| sha256(m)).collect();
        for count in [0, 1, 2, 3, 17, messages.len()] {
            assert_eq!(digests(count, |i| &messages[i]), expected[..count]);
        }
    }

    /// Also runs on processors with SHA instructions, which would not use this code.
    #[test]
    fn by_the_instructions_of_this_processor() {
        if let Some(wide) = Eight::by_force() {
            all_agree::<8>(wide);
        }
        if let Some(wide) = Sixteen::by_force() {
            all_agree::<16>(wide);
        }
    }
}
