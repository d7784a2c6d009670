// SPDX-License-Identifier: Apache-2.0
//! SHA-256 of several messages side by side, for x86-64 processors without SHA instructions, such
//! as Skylake and Cascade Lake: eight with AVX2, sixteen with AVX-512. On other processors the
//! crate `sha2` hashes one message after the other. Spec: FIPS 180-4
//!
//! In `make bench-stages FEATURES=without-sha`, compare rows "sha256 of N bytes, 512 together" with
//! 512 times "sha256 of N bytes". With AVX-512, 84 bytes are 9.7 times as fast, 231 bytes 8.1 and
//! 2,261 bytes 7.8. AVX2 takes 57 ns a block, AVX-512 22. The fuzz target `lanes` compares both
//! ways.
//!
//! ```text
//! wide      what this processor has, and the rounds in plain code
//! avx2      the rounds in its instructions
//! avx512    the same; all unsafe code is in these three files
//! many      messages of any lengths, lane by lane
//! ```

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod many;
mod wide;

pub use many::digests;
pub use wide::{Eight, Sixteen, Wide};

/// Whether the processor has SHA instructions. Benchmarks can ignore them.
#[cfg(target_arch = "x86_64")]
fn has_sha() -> bool {
    !cfg!(feature = "without-sha") && std::is_x86_feature_detected!("sha")
}

/// The number of messages that an [`Eight`] hashes at once.
pub const LANES: usize = 8;
/// The bytes of a block.
pub const BLOCK: usize = 64;
/// The states of all messages, word by word.
pub type States<const L: usize> = [[u32; L]; 8];

/// One block of each message.
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
