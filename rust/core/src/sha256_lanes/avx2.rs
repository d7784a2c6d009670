// SPDX-License-Identifier: Apache-2.0
//! The rounds with AVX2 instructions. The compiler turns the plain loops in `rounds` into the same
//! code only if it sees through all of them. Otherwise they take twenty times as long.
#![allow(unsafe_code)]

use core::arch::x86_64::{
    __m256i as Words, _mm256_add_epi32 as add, _mm256_and_si256 as and, _mm256_or_si256 as or,
    _mm256_permute2x128_si256 as halves, _mm256_set1_epi32 as splat, _mm256_setr_epi8 as bytes,
    _mm256_shuffle_epi8 as shuffle, _mm256_slli_epi32 as shl, _mm256_srli_epi32 as shr,
    _mm256_unpackhi_epi32 as high, _mm256_unpackhi_epi64 as high_pairs, _mm256_unpacklo_epi32 as low,
    _mm256_unpacklo_epi64 as low_pairs, _mm256_xor_si256 as xor,
};
use core::mem::transmute;

use super::wide::K;
use super::{BLOCK, Blocks, States};

/// Three rotations in one, by R, S and T bits; the last may be a shift.
macro_rules! mixed {
    ($x:expr, $r:literal, $s:literal, shift $t:literal) => {
        xor(xor(ror!($x, $r), ror!($x, $s)), shr::<$t>($x))
    };
    ($x:expr, $r:literal, $s:literal, $t:literal) => {
        xor(xor(ror!($x, $r), ror!($x, $s)), ror!($x, $t))
    };
}

macro_rules! ror {
    ($x:expr, $n:literal) => {
        or(shr::<$n>($x), shl::<{ 32 - $n }>($x))
    };
}

/// Compresses one block of each message.
#[target_feature(enable = "avx2")]
pub fn compress(states: &mut States<8>, blocks: &Blocks<'_, 8>) {
    let mut w = words(blocks);
    // SAFETY: both are arrays of the same number of bytes, and every bit pattern is valid.
    let before = unsafe { transmute::<States<8>, [Words; 8]>(*states) };
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = before;
    for (part, k) in K.as_chunks::<16>().0.iter().enumerate() {
        for i in 0..16 {
            if part > 0 {
                let low = mixed!(w[(i + 1) % 16], 7, 18, shift 3);
                let high = mixed!(w[(i + 14) % 16], 17, 19, shift 10);
                w[i] = add(add(w[i], low), add(w[(i + 9) % 16], high));
            }
            let choice = xor(g, and(e, xor(f, g)));
            let majority = or(and(a, b), and(c, or(a, b)));
            let word = add(w[i], splat(k[i] as i32));
            let first = add(add(h, mixed!(e, 6, 11, 25)), add(choice, word));
            let second = add(mixed!(a, 2, 13, 22), majority);
            (h, g, f, e, d, c, b, a) = (g, f, e, add(d, first), c, b, a, add(first, second));
        }
    }
    let mut after = [a, b, c, d, e, f, g, h];
    after.iter_mut().zip(before).for_each(|(word, before)| *word = add(*word, before));
    // SAFETY: as above.
    *states = unsafe { transmute::<[Words; 8], States<8>>(after) };
}

/// Transposes consecutive blocks into words side by side: rows become columns.
#[inline]
#[target_feature(enable = "avx2")]
pub fn words(blocks: &Blocks<'_, 8>) -> [Words; 16] {
    let big = bytes(
        3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12, //
        3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12,
    );
    let mut out = [splat(0); 16];
    for (half, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let mut fours = [[splat(0); 4]; 2];
        for (four, blocks) in fours.iter_mut().zip(blocks.as_chunks::<4>().0) {
            let mut rows = [splat(0); 4];
            for (row, block) in rows.iter_mut().zip(blocks) {
                // SAFETY: it copies the same number of bytes, and every bit pattern is valid.
                let both = unsafe { transmute::<[u8; BLOCK], [Words; 2]>(**block) };
                *row = shuffle(both[half], big);
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
        // For each four blocks, the words n and 4 + n are the halves of one row.
        for n in 0..4 {
            out[n] = halves::<0x20>(fours[0][n], fours[1][n]);
            out[4 + n] = halves::<0x31>(fours[0][n], fours[1][n]);
        }
    }
    out
}
