// SPDX-License-Identifier: Apache-2.0
//! Detects the instructions of this processor. It also has the rounds in plain code, for tests.
#![allow(unsafe_code)]

use super::{Blocks, States};
#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512};

/// A way to hash several messages at once.
pub trait Wide<const L: usize>: Copy {
    /// Compresses one block of each message.
    fn compress(self, states: &mut States<L>, blocks: &Blocks<'_, L>);
}

/// Proof that this processor has AVX2.
#[derive(Clone, Copy, Debug)]
pub struct Eight(());

/// Proof that this processor has AVX-512.
#[derive(Clone, Copy, Debug)]
pub struct Sixteen(());

impl Eight {
    /// Some if there is AVX2, and no SHA instructions, which are as fast.
    pub fn here() -> Option<Eight> {
        #[cfg(target_arch = "x86_64")]
        let good = std::is_x86_feature_detected!("avx2") && !super::has_sha();
        #[cfg(not(target_arch = "x86_64"))]
        let good = false;
        good.then_some(Eight(()))
    }
}

impl Sixteen {
    /// Some if there is AVX-512, and no SHA instructions.
    pub fn here() -> Option<Sixteen> {
        #[cfg(target_arch = "x86_64")]
        let good = std::is_x86_feature_detected!("avx512f") && !super::has_sha();
        #[cfg(not(target_arch = "x86_64"))]
        let good = false;
        good.then_some(Sixteen(()))
    }
}

impl Wide<8> for Eight {
    fn compress(self, states: &mut States<8>, blocks: &Blocks<'_, 8>) {
        // SAFETY: an `Eight` is made only where the processor has AVX2.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            avx2::compress(states, blocks);
        }
        #[cfg(not(target_arch = "x86_64"))]
        compress(states, blocks);
    }
}

impl Wide<16> for Sixteen {
    fn compress(self, states: &mut States<16>, blocks: &Blocks<'_, 16>) {
        // SAFETY: a `Sixteen` is made only where the processor has AVX-512.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            avx512::compress(states, blocks);
        }
        #[cfg(not(target_arch = "x86_64"))]
        compress(states, blocks);
    }
}

/// The rounds as compiled for any processor, for tests.
#[cfg(test)]
#[derive(Clone, Copy, Debug)]
pub struct Portable;

#[cfg(test)]
impl<const L: usize> Wide<L> for Portable {
    fn compress(self, states: &mut States<L>, blocks: &Blocks<'_, L>) {
        compress(states, blocks);
    }
}

#[cfg(test)]
impl Eight {
    /// Some if there is AVX2.
    pub fn by_force() -> Option<Eight> {
        #[cfg(target_arch = "x86_64")]
        return std::is_x86_feature_detected!("avx2").then_some(Eight(()));
        #[cfg(not(target_arch = "x86_64"))]
        None
    }
}

#[cfg(test)]
impl Sixteen {
    /// Some if there is AVX-512.
    pub fn by_force() -> Option<Sixteen> {
        #[cfg(target_arch = "x86_64")]
        return std::is_x86_feature_detected!("avx512f").then_some(Sixteen(()));
        #[cfg(not(target_arch = "x86_64"))]
        None
    }
}

/// One word of each message.
type Words<const L: usize> = [u32; L];

#[inline(always)]
fn each<const L: usize>(mut a: Words<L>, b: Words<L>, f: impl Fn(u32, u32) -> u32) -> Words<L> {
    a.iter_mut().zip(b).for_each(|(a, b)| *a = f(*a, b));
    a
}

#[inline(always)]
fn add<const L: usize>(a: Words<L>, b: Words<L>) -> Words<L> {
    each(a, b, u32::wrapping_add)
}

/// The exclusive or of a word rotated by three distances, or rotated by two and shifted by one.
#[inline(always)]
fn mixed<const L: usize>(a: Words<L>, [r, s, t]: [u32; 3], shift: bool) -> Words<L> {
    let last = |x: u32| if shift { x >> t } else { x.rotate_right(t) };
    each(a, a, |x, _| x.rotate_right(r) ^ x.rotate_right(s) ^ last(x))
}

/// Compresses one block of each message. On x86-64 only the tests call it.
#[cfg_attr(all(not(test), target_arch = "x86_64"), allow(dead_code))]
pub fn compress<const L: usize>(states: &mut States<L>, blocks: &Blocks<'_, L>) {
    let mut w = [[0; L]; 16];
    for (lane, block) in blocks.iter().enumerate() {
        for (words, bytes) in w.iter_mut().zip(block.as_chunks().0) {
            words[lane] = u32::from_be_bytes(*bytes);
        }
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *states;
    for (round, k) in K.iter().enumerate() {
        let i = round % 16;
        if round >= 16 {
            let small = mixed(w[(i + 1) % 16], [7, 18, 3], true);
            let large = mixed(w[(i + 14) % 16], [17, 19, 10], true);
            w[i] = add(add(w[i], small), add(w[(i + 9) % 16], large));
        }
        let choice = each(g, each(e, each(f, g, |f, g| f ^ g), |e, x| e & x), |g, x| g ^ x);
        let majority =
            each(each(a, b, |a, b| a & b), each(c, each(a, b, |a, b| a | b), |c, x| c & x), |x, y| x | y);
        let first = add(add(h, mixed(e, [6, 11, 25], false)), add(choice, add(w[i], [*k; L])));
        let second = add(mixed(a, [2, 13, 22], false), majority);
        (h, g, f, e, d, c, b, a) = (g, f, e, add(d, first), c, b, a, add(first, second));
    }
    for (state, word) in states.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *state = add(*state, word);
    }
}

#[rustfmt::skip]
pub const K: [u32; 64] = [
    0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5, 0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5,
    0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3, 0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174,
    0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc, 0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da,
    0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7, 0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967,
    0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13, 0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85,
    0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3, 0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070,
    0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5, 0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3,
    0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208, 0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2,
];
