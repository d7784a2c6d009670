// SPDX-License-Identifier: Apache-2.0
//! One message alone. What a round adds of the block does not hang on the rounds before it, so it
//! is computed for eight blocks of the message side by side, between the rounds of the first of
//! them; the rounds of the others take it from memory.
#![allow(unsafe_code)]

use core::arch::x86_64::{
    __m256i as Words, _mm256_add_epi32 as add, _mm256_or_si256 as or, _mm256_set1_epi32 as splat,
    _mm256_slli_epi32 as shl, _mm256_srli_epi32 as shr, _mm256_xor_si256 as xor,
};
use core::mem::transmute;

use super::avx2::words;
use super::many::{block, pad};
use super::wide::K;
use super::{BLOCK, Blocks, LANES, START};

/// What each round adds of each block.
type Terms = [[u32; LANES]; 64];

/// Proof that this processor has AVX2 and BMI.
#[derive(Clone, Copy, Debug)]
pub struct Single {
    /// AVX-512 as well: rotations and sums of three bits are one instruction each.
    rotates: bool,
}

impl Single {
    /// If there are AVX2 and BMI, and no instruction for SHA, which is faster.
    pub fn here() -> Option<Single> {
        if std::is_x86_feature_detected!("sha") { None } else { Single::by_force() }
    }

    /// If there are AVX2 and BMI.
    pub fn by_force() -> Option<Single> {
        let good = std::is_x86_feature_detected!("avx2")
            && std::is_x86_feature_detected!("bmi1")
            && std::is_x86_feature_detected!("bmi2");
        good.then(|| Single { rotates: std::is_x86_feature_detected!("avx512vl") })
    }

    /// The same without AVX-512.
    #[cfg(test)]
    pub fn plain(self) -> Single {
        Single { rotates: false }
    }

    /// The SHA-256 of a message.
    pub fn digest(self, message: &[u8]) -> [u8; 32] {
        let mut last = [[0; BLOCK]; 2];
        let (whole, count) = pad(message, &mut last);
        let mut state = START;
        let mut terms = [[0; LANES]; 64];
        for start in (0..count).step_by(LANES) {
            // Past the end any block will do: nobody asks for its terms.
            let blocks = core::array::from_fn(|lane| block(whole, &last, start + lane));
            // SAFETY: an `Single` is made only where the processor has all of these.
            unsafe {
                match self.rotates {
                    true => first_avx512(&mut state, &blocks, &mut terms),
                    false => first_avx2(&mut state, &blocks, &mut terms),
                }
                for lane in 1..LANES.min(count - start) {
                    next(&mut state, &terms, lane);
                }
            }
        }
        let mut out = [0; 32];
        out.as_chunks_mut().0.iter_mut().zip(state).for_each(|(bytes, word)| *bytes = word.to_be_bytes());
        out
    }
}

/// Eight rounds. In each, two of the eight words change, and all go by the next name in the next.
macro_rules! eight {
    ($a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident, $bc:ident; $first:expr $(, $term:expr)*) => {
        let mixed = $e.rotate_right(6) ^ $e.rotate_right(11) ^ $e.rotate_right(25);
        $h = $h.wrapping_add($first).wrapping_add($e & $f).wrapping_add(!$e & $g).wrapping_add(mixed);
        $d = $d.wrapping_add($h);
        let mixed = $a.rotate_right(2) ^ $a.rotate_right(13) ^ $a.rotate_right(22);
        let ab = $a ^ $b;
        $h = $h.wrapping_add($b ^ (ab & $bc)).wrapping_add(mixed);
        $bc = ab; // which is b and c of the next round
        eight!($h $a $b $c $d $e $f $g, $bc; $($term),*);
    };
    ($($word:ident)*, $bc:ident;) => {};
}

macro_rules! mixed {
    ($x:expr, $r:literal, $s:literal, $t:literal) => {
        xor(xor(ror!($x, $r), ror!($x, $s)), shr::<$t>($x))
    };
}

macro_rules! ror {
    ($x:expr, $n:literal) => {
        or(shr::<$n>($x), shl::<{ 32 - $n }>($x))
    };
}

/// Takes in the first block, and writes down the terms of all. For AVX-512 the compiler finds the
/// shorter instructions by itself.
macro_rules! first {
    ($name:ident, $features:literal) => {
        #[target_feature(enable = $features)]
        fn $name(state: &mut [u32; 8], blocks: &Blocks<'_, LANES>, terms: &mut Terms) {
            let mut w = words(blocks);
            let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
            let mut bc = b ^ c;
            let parts = terms.as_chunks_mut::<16>().0.iter_mut().zip(K.as_chunks::<16>().0);
            for (part, (terms, k)) in parts.enumerate() {
                macro_rules! term {
                    ($i:literal) => {{
                        if part > 0 {
                            let low = mixed!(w[($i + 1) % 16], 7, 18, 3);
                            let high = mixed!(w[($i + 14) % 16], 17, 19, 10);
                            w[$i] = add(add(w[$i], low), add(w[($i + 9) % 16], high));
                        }
                        // SAFETY: as many bytes, of which every pattern is a value.
                        terms[$i] = unsafe { transmute::<Words, [u32; LANES]>(add(w[$i], splat(k[$i] as i32))) };
                        terms[$i][0]
                    }};
                }
                eight!(a b c d e f g h, bc; term!(0), term!(1), term!(2), term!(3), term!(4), term!(5), term!(6), term!(7));
                eight!(a b c d e f g h, bc; term!(8), term!(9), term!(10), term!(11), term!(12), term!(13), term!(14), term!(15));
            }
            for (word, after) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
                *word = word.wrapping_add(after);
            }
        }
    };
}

first!(first_avx2, "avx2,bmi1,bmi2");
first!(first_avx512, "avx2,avx512f,avx512vl,bmi1,bmi2");

/// Takes in another block, whose terms are known.
#[target_feature(enable = "bmi1,bmi2")]
fn next(state: &mut [u32; 8], terms: &Terms, lane: usize) {
    let lane = lane % LANES; // so that no index needs a look
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    let mut bc = b ^ c;
    for t in terms.as_chunks::<8>().0 {
        eight!(
            a b c d e f g h, bc;
            t[0][lane], t[1][lane], t[2][lane], t[3][lane], t[4][lane], t[5][lane], t[6][lane], t[7][lane]
        );
    }
    for (word, after) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *word = word.wrapping_add(after);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest as _, Sha256};

    /// Also where the processor has instructions for SHA, and would not be asked for these.
    #[test]
    fn agrees_with_another_hand() {
        let mut seed = 5_u32;
        let mut next = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 8) as usize
        };
        let bytes: Vec<u8> = (0..6000).map(|_| next() as u8).collect();
        let messages: Vec<&[u8]> = (0..=700)
            .map(|len| &bytes[len % 67..][..len])
            .chain((0..500).map(|_| &bytes[next() % 1000..][..next() % 5000]))
            .collect();
        for alone in Single::by_force().into_iter().flat_map(|alone| [alone, alone.plain()]) {
            for message in &messages {
                assert_eq!(alone.digest(message)[..], Sha256::digest(message)[..], "{}", message.len());
            }
        }
    }
}
