// SPDX-License-Identifier: Apache-2.0
//! The rounds with AVX-512 instructions. The compiler turns the plain loops in `rounds` into
//! gathers and scatters, which take as long as everything else: 55 ns a block instead of 22.
#![allow(unsafe_code)]

use core::arch::x86_64::{
    __m512i as Words, _mm512_add_epi32 as add, _mm512_rol_epi32 as rol, _mm512_ror_epi32 as ror,
    _mm512_set1_epi32 as splat, _mm512_shuffle_i32x4 as quarters, _mm512_srli_epi32 as shr,
    _mm512_ternarylogic_epi32 as logic, _mm512_unpackhi_epi32 as high, _mm512_unpackhi_epi64 as high_pairs,
    _mm512_unpacklo_epi32 as low, _mm512_unpacklo_epi64 as low_pairs,
};
use core::mem::transmute;

use super::wide::K;
use super::{BLOCK, Blocks, States};

/// Truth tables of three bits.
const XOR: i32 = 0x96;
const CHOICE: i32 = 0xca;
const MAJORITY: i32 = 0xe8;

/// Compresses one block of each message.
#[target_feature(enable = "avx512f")]
pub fn compress(states: &mut States<16>, blocks: &Blocks<'_, 16>) {
    let mut w = words(blocks);
    // SAFETY: both are arrays of the same number of bytes, and every bit pattern is valid.
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

/// Transposes consecutive blocks into words side by side: rows become columns. Storing them word by
/// word would take a third of the time of the rounds.
#[inline]
#[target_feature(enable = "avx512f")]
fn words(blocks: &Blocks<'_, 16>) -> [Words; 16] {
    let outer_bytes = splat(0xff00_ff00_u32 as i32);
    let mut fours = [[splat(0); 4]; 4];
    for (four, blocks) in fours.iter_mut().zip(blocks.as_chunks::<4>().0) {
        let mut rows = [splat(0); 4];
        for (row, block) in rows.iter_mut().zip(blocks) {
            // SAFETY: it copies the same number of bytes, and every bit pattern is valid.
            let little = unsafe { transmute::<[u8; BLOCK], Words>(**block) };
            *row = logic::<CHOICE>(outer_bytes, ror::<8>(little), rol::<8>(little));
        }
        let [a, b, c, d] = rows;
        let (ab, cd) = ([low(a, b), high(a, b)], [low(c, d), high(c, d)]);
        *four = [
            low_pairs(ab[0], cd[0]),
            high_pairs(ab[0], cd[0]),
            low_pairs(ab[1], cd[1]),
            high_pairs(ab[1], cd[1]),
        ];
    }
    // For each four blocks, the words n, 4 + n, 8 + n and 12 + n are the quarters of one row.
    let mut out = [splat(0); 16];
    for n in 0..4 {
        let [a, b, c, d] = [fours[0][n], fours[1][n], fours[2][n], fours[3][n]];
        let (even, odd) = (
            [quarters::<0x88>(a, b), quarters::<0x88>(c, d)],
            [quarters::<0xdd>(a, b), quarters::<0xdd>(c, d)],
        );
        out[n] = quarters::<0x88>(even[0], even[1]);
        out[4 + n] = quarters::<0x88>(odd[0], odd[1]);
        out[8 + n] = quarters::<0xdd>(even[0], even[1]);
        out[12 + n] = quarters::<0xdd>(odd[0], odd[1]);
    }
    out
}
