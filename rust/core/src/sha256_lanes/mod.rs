// SPDX-License-Identifier: Apache-2.0
//! SHA-256 for processors that have no instructions for SHA: of several messages at once, with AVX2
//! eight side by side, with AVX-512 sixteen; of one alone, eight of its blocks are prepared side by
//! side. Where there are such instructions, the crate `sha2` is as fast or faster. Spec: FIPS 180-4
//!
//! ```text
//! wide      the means that this processor has
//! avx2      the rounds in its instructions
//! avx512    the same
//! alone     one message; in these four files stands all unsafe code
//! rounds    the rounds in plain code, for any number of lanes
//! padded    a message as blocks
//! many      messages of any lengths, lane by lane
//! ```

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod many;
#[cfg(target_arch = "x86_64")]
mod single;
mod wide;

pub use many::digests;
#[cfg(target_arch = "x86_64")]
pub use single::Single;
pub use wide::{Eight, Sixteen, Wide};

/// How many an [`Eight`] hashes at once.
pub const LANES: usize = 8;
/// Bytes that are hashed at a time.
pub const BLOCK: usize = 64;
/// The states of all messages, word by word.
pub type States<const L: usize> = [[u32; L]; 8];

/// A block of each message, as it stands in it.
pub type Blocks<'b, const L: usize> = [&'b [u8; BLOCK]; L];

/// The state before the first block.
pub const START: [u32; 8] =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];

/// The bytes of one lane's state.
pub fn digest<const L: usize>(states: &States<L>, lane: usize) -> [u8; 32] {
    let mut out = [0; 32];
    for (bytes, word) in out.as_chunks_mut().0.iter_mut().zip(states) {
        *bytes = word[lane].to_be_bytes();
    }
    out
}
