// SPDX-License-Identifier: Apache-2.0
//! Numbers of embeddings: as float32, where the text of each is the shortest of a float32.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;

/// The doubles that the shortest texts of float32 say: of 0.1f32 it is 0.1, and not 0.10000000149.
pub fn widened(values: impl Iterator<Item = f32>) -> impl Iterator<Item = f64> {
    let mut text = String::with_capacity(16);
    values.map(move |value| {
        text.clear();
        // Neither fails: a string grows, and what Rust writes of a float it also reads.
        let _ = write!(text, "{value:e}");
        text.parse().unwrap_or_else(|_| f64::from(value))
    })
}

/// The values as float32; none if one of them is not what the shortest text of a float32 says.
pub fn narrowed(values: &[f64]) -> Option<Vec<f32>> {
    let narrow: Vec<f32> = values.iter().map(|&value| value as f32).collect();
    let mut pairs = widened(narrow.iter().copied()).zip(values);
    // JSON has no others.
    let same = pairs.all(|(one, other)| one.is_finite() && one.to_bits() == other.to_bits());
    drop(pairs);
    same.then_some(narrow)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_float32_says() {
        let values = [0.1, -0.1, 0.0, -0.0, 1.0, 3.402_823_5e38, 1e-45, 16_777_216.0, 0.333_333_34];
        let narrow = narrowed(&values).unwrap();
        assert_eq!(narrow[0], 0.1f32);
        assert!(widened(narrow.into_iter()).zip(values).all(|(a, b)| a.to_bits() == b.to_bits()));
    }

    #[test]
    fn what_none_says() {
        for value in [0.100_000_001_490_116_12, 1.0 / 3.0, 1e39, 1e-50, f64::NAN, 16_777_217.0] {
            assert_eq!(narrowed(&[0.5, value]), None, "{value}");
        }
    }
}
