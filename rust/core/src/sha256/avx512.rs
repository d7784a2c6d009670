// SPDX-License-Identifier: Apache-2.0
//! The rounds in the instructions of AVX-512. Of the plain loops in `rounds` the compiler makes
//! gathers and scatters here, which take as long as all the rest: 55 ns a block instead of 22.
#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m512i as Words, _mm512_add_epi32 as add, _mm512_ror_epi32 as ror, _mm512_set1_epi32 as splat,
    _mm512_srli_epi32 as shr, _mm512_ternarylogic_epi32 as logic,
};
use std::mem::transmute;

use super::rounds::K;
use super::{Blocks, States};

/// Truth tables of three bits.
const XOR: i32 = 0x96;
const CHOICE: i32 = 0xca;
const MAJORITY: i32 = 0xe8;

/// Takes in a block of each message.
#[target_feature(enable = "avx512f")]
pub fn compress(states: &mut States<16>, blocks: &Blocks<16>) {
    // SAFETY: arrays of as many bytes, of which every pattern is a value.
    let mut w = unsafe { transmute::<Blocks<16>, [Words; 16]>(*blocks) };
    // SAFETY: as above.
    let before = unsafe { transmute::<States<16>, [Words; 8]>(*states) };
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = before;
    for (part, k) in K.as_chunks::<16>().0.iter().enumerate() {
        for i in 0..16 {
            if part > 0 {
                let (low, high) = (w[(i + 1) % 16], w[(i + 14) % 16]);
                let low = logic::<XOR>(ror::<7>(low), ror::<18>(low), shr::<3>(low));
                let high = logic::<XOR>(ror::<17>(high), ror::<19>(high), shr::<10>(high));
                w[i] = add(add(w[i], low), add(w[(i + 9) % 16], high));
            }
            let word = add(w[i], splat(k[i] as i32));
            let mixed = logic::<XOR>(ror::<6>(e), ror::<11>(e), ror::<25>(e));
            let first = add(add(h, mixed), add(logic::<CHOICE>(e, f, g), word));
            let mixed = logic::<XOR>(ror::<2>(a), ror::<13>(a), ror::<22>(a));
            let second = add(mixed, logic::<MAJORITY>(a, b, c));
            (h, g, f, e, d, c, b, a) = (g, f, e, add(d, first), c, b, a, add(first, second));
        }
    }
    let mut after = [a, b, c, d, e, f, g, h];
    after.iter_mut().zip(before).for_each(|(word, before)| *word = add(*word, before));
    // SAFETY: as above.
    *states = unsafe { transmute::<[Words; 8], States<16>>(after) };
}
