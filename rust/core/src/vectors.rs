// SPDX-License-Identifier: Apache-2.0
//! The similarity of a vector to many others: the cosine of the angle between them.
//!
//! Stored vectors are float32, little-endian, of any length but zero. Products and squares are
//! summed in double precision, which no float32 can overflow, in a fixed order. So the same vectors
//! give the same cosine on every machine.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt::Write as _;

use crate::{Code, Error, Result};

/// The number of parallel sums, for the vector unit.
const LANES: usize = 8;

/// The vector of a search.
#[derive(Clone, Debug)]
pub struct Query {
    values: Vec<f64>,
    norm: f64,
}

impl Query {
    /// Makes a query from a vector.
    ///
    /// # Errors
    /// ERR_RANGE if it has no values, values that are not finite, or only zeros.
    pub fn new(bytes: &[u8]) -> Result<Query> {
        let (floats, rest) = bytes.as_chunks::<4>();
        let values: Vec<f64> = floats.iter().map(|x| wide(*x)).collect();
        let norm = square(floats).sqrt();
        if rest.is_empty() && norm > 0.0 && norm.is_finite() {
            return Ok(Query { values, norm });
        }
        Err(Error::new(Code::Range, "a vector without a direction").expected("finite numbers, not all zero"))
    }

    /// The cosine of the angle to a stored vector, from -1 to 1. None if that vector has another
    /// dimension, or no direction.
    pub fn cosine(&self, row: &[u8]) -> Option<f64> {
        let (floats, rest) = row.as_chunks::<4>();
        if floats.len() != self.values.len() || !rest.is_empty() {
            return None;
        }
        self.cosine_to(floats, square(floats).sqrt())
    }

    fn cosine_to(&self, floats: &[[u8; 4]], norm: f64) -> Option<f64> {
        let cosine = dot(&self.values, floats) / (self.norm * norm);
        cosine.is_finite().then(|| cosine.clamp(-1.0, 1.0))
    }
}

/// The sum of the products. The sum of the squares has a separate loop: in one loop the compiler
/// pairs the two, which takes twice the time.
fn dot(values: &[f64], floats: &[[u8; 4]]) -> f64 {
    let mut lanes = [0.0; LANES];
    let (left, left_rest) = values.as_chunks::<LANES>();
    let (right, right_rest) = floats.as_chunks::<LANES>();
    for (left, right) in left.iter().zip(right) {
        for lane in 0..LANES {
            lanes[lane] += left[lane] * wide(right[lane]);
        }
    }
    let rest: f64 = left_rest.iter().zip(right_rest).map(|(x, y)| x * wide(*y)).sum();
    lanes.iter().sum::<f64>() + rest
}

/// The sum of the squares.
fn square(floats: &[[u8; 4]]) -> f64 {
    let mut lanes = [0.0; LANES];
    let (chunks, rest) = floats.as_chunks::<LANES>();
    for chunk in chunks {
        for lane in 0..LANES {
            let x = wide(chunk[lane]);
            lanes[lane] += x * x;
        }
    }
    lanes.iter().sum::<f64>() + rest.iter().map(|x| wide(*x) * wide(*x)).sum::<f64>()
}

fn wide(float: [u8; 4]) -> f64 {
    f64::from(f32::from_le_bytes(float))
}

/// The numbered vectors whose cosine is not below a floor, the nearest first. Among equals, the
/// highest number comes first.
pub fn nearest(query: &Query, rows: &[(u64, &[u8])], floor: f64) -> Vec<(f64, u64)> {
    let cosine = |&(number, row): &(u64, &[u8])| query.cosine(row).map(|cosine| (cosine, number));
    let mut found: Vec<(f64, u64)> =
        rows.iter().filter_map(cosine).filter(|(cosine, _)| *cosine >= floor).collect();
    found.sort_unstable_by(nearer);
    found
}

fn nearer(a: &(f64, u64), b: &(f64, u64)) -> Ordering {
    b.0.total_cmp(&a.0).then(b.1.cmp(&a.1))
}

/// Numbered vectors of one dimension, side by side, with their lengths.
///
/// It gives the same cosines as their rows, and wins benchmark row M2-embedder.
#[derive(Clone, Debug)]
pub struct Matrix {
    dimension: usize,
    values: Vec<[u8; 4]>,
    norms: Vec<f64>,
    numbers: Vec<u64>,
    places: BTreeMap<u64, usize>,
}

impl Matrix {
    /// An empty matrix for vectors of a dimension.
    pub fn new(dimension: usize) -> Matrix {
        Matrix {
            dimension,
            values: Vec::new(),
            norms: Vec::new(),
            numbers: Vec::new(),
            places: BTreeMap::new(),
        }
    }

    /// The number of vectors.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Whether it has no vectors.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Sets the vector of a number. One of another dimension removes the number, since no search
    /// finds it.
    pub fn set(&mut self, number: u64, row: &[u8]) {
        let (floats, rest) = row.as_chunks::<4>();
        if floats.len() != self.dimension || !rest.is_empty() {
            self.remove(number);
            return;
        }
        let norm = square(floats).sqrt();
        if let Some(&place) = self.places.get(&number) {
            self.values[place * self.dimension..][..self.dimension].copy_from_slice(floats);
            self.norms[place] = norm;
        } else {
            self.places.insert(number, self.len());
            self.values.extend_from_slice(floats);
            self.norms.push(norm);
            self.numbers.push(number);
        }
    }

    /// Removes the vector of a number. Its bytes are overwritten.
    pub fn remove(&mut self, number: u64) {
        let Some(place) = self.places.remove(&number) else { return };
        self.norms.swap_remove(place);
        self.numbers.swap_remove(place);
        if let Some(&moved) = self.numbers.get(place) {
            self.places.insert(moved, place);
        }
        let last = self.len() * self.dimension;
        self.values.copy_within(last.., place * self.dimension);
        self.values[last..].fill([0; 4]);
        self.values.truncate(last);
    }

    /// The nearest vectors, the nearest first. Among equals, the highest number comes first.
    pub fn nearest(&self, query: &Query, most: usize) -> Vec<(f64, u64)> {
        if self.is_empty() || most == 0 || query.values.len() != self.dimension {
            return Vec::new();
        }
        let rows = self.values.chunks_exact(self.dimension).zip(&self.norms).zip(&self.numbers);
        let mut found: Vec<(f64, u64)> =
            rows.filter_map(|((row, norm), number)| Some((query.cosine_to(row, *norm)?, *number))).collect();
        if most < found.len() {
            found.select_nth_unstable_by(most - 1, nearer);
            found.truncate(most);
        }
        found.sort_unstable_by(nearer);
        found
    }
}

// Numbers of embeddings, as float32 if the text of each is the shortest one of a float32.

/// The doubles that equal the shortest texts of float32: 0.1f32 becomes 0.1, not 0.10000000149.
pub fn widened(values: impl Iterator<Item = f32>) -> impl Iterator<Item = f64> {
    let mut text = String::with_capacity(16);
    values.map(move |value| {
        text.clear();
        // Neither can fail: a string grows, and Rust reads every float that it writes.
        let _ = write!(text, "{value:e}");
        text.parse().unwrap_or_else(|_| f64::from(value))
    })
}

/// The values as float32; None if one does not equal the shortest text of a float32.
pub fn narrowed(values: &[f64]) -> Option<Vec<f32>> {
    let narrow: Vec<f32> = values.iter().map(|&value| value as f32).collect();
    let mut pairs = widened(narrow.iter().copied()).zip(values);
    // JSON has no other numbers.
    let same = pairs.all(|(one, other)| one.is_finite() && one.to_bits() == other.to_bits());
    drop(pairs);
    same.then_some(narrow)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|x| x.to_le_bytes()).collect()
    }

    fn cosine(a: &[f32], b: &[f32]) -> Option<f64> {
        Query::new(&bytes(a)).unwrap().cosine(&bytes(b))
    }

    /// Numbers in -1..1 that look random, for any length.
    fn noise(seed: u32, count: usize) -> Vec<f32> {
        let mut state = u64::from(seed) + 1;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn the_cosine_is_that_of_the_definition_at_every_length() {
        for count in 1..70 {
            let (a, b) = (noise(1, count), noise(2, count));
            let sum = |x: &[f32], y: &[f32]| -> f64 {
                x.iter().zip(y).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum()
            };
            let expected = sum(&a, &b) / (sum(&a, &a).sqrt() * sum(&b, &b).sqrt());
            assert!((cosine(&a, &b).unwrap() - expected).abs() < 1e-12, "{count}");
        }
    }

    #[test]
    fn length_does_not_count() {
        for scale in [1e-45, 1e-38, 1e-20, 1.0, 1e20, 3e38] {
            let near = cosine(&[1.0, 0.0, 0.0], &[scale, 0.0, 0.0]).unwrap();
            assert!((near - 1.0).abs() < 1e-9, "{scale}");
        }
        assert_eq!(cosine(&[3e38; 9], &[-3e38; 9]), Some(-1.0));
    }

    #[test]
    fn what_has_no_direction_is_refused_or_passed_over() {
        for wrong in [&[][..], &[0.0, 0.0], &[f32::NAN, 1.0], &[1.0, f32::INFINITY]] {
            assert_eq!(Query::new(&bytes(wrong)).unwrap_err().kind(), Code::Range);
            assert_eq!(cosine(&[1.0, 2.0], wrong), None);
        }
        assert_eq!(Query::new(&[0, 0, 128, 63, 0]).unwrap_err().kind(), Code::Range);
        assert_eq!(cosine(&[1.0, 2.0], &[1.0, 2.0, 3.0]), None);
        assert_eq!(Query::new(&bytes(&[1.0])).unwrap().cosine(&[0, 0, 128, 63, 0]), None);
    }

    #[test]
    fn the_nearest_come_first_and_of_equals_the_newest() {
        let rows = [[1.0, 0.0], [0.0, 1.0], [2.0, 0.0], [1.0, 1.0], [-1.0, 0.0]].map(|row| bytes(&row));
        let rows: Vec<(u64, &[u8])> = (1..).zip(rows.iter().map(Vec::as_slice)).collect();
        let query = Query::new(&bytes(&[5.0, 0.0])).unwrap();
        let numbers = |floor| nearest(&query, &rows, floor).iter().map(|(_, n)| *n).collect::<Vec<_>>();
        assert_eq!(numbers(-1.0), [3, 1, 4, 2, 5]);
        assert_eq!(numbers(0.5), [3, 1, 4]);
        assert_eq!(numbers(1.0), [3, 1]);
    }

    #[test]
    fn a_matrix_finds_what_its_rows_say() {
        let mut rows: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        let mut matrix = Matrix::new(5);
        let query = Query::new(&bytes(&noise(0, 5))).unwrap();
        for step in 0..90u32 {
            let number = u64::from(step * 7 % 20);
            rows.remove(&number);
            match step % 4 {
                0 if step > 20 => matrix.remove(number),
                1 if step > 20 => matrix.set(number, &bytes(&[1.0; 4])),
                2 if step > 20 => matrix.set(number, b"12345"),
                _ => {
                    let row = bytes(&noise(step / 2, 5));
                    matrix.set(number, &row);
                    rows.insert(number, row);
                }
            }
            let listed: Vec<(u64, &[u8])> = rows.iter().map(|(&n, row)| (n, row.as_slice())).collect();
            let wanted = nearest(&query, &listed, -1.0);
            assert_eq!(matrix.len(), wanted.len());
            for most in [0, 1, 3, wanted.len(), 100] {
                assert_eq!(matrix.nearest(&query, most), wanted[..most.min(wanted.len())]);
            }
        }
    }

    #[test]
    fn a_removed_vector_leaves_no_bytes() {
        let mut matrix = Matrix::new(2);
        for number in 0..3 {
            matrix.set(number, &bytes(&[1.0 + number as f32, 9.0]));
        }
        matrix.remove(0);
        matrix.remove(1);
        assert_eq!(matrix.values.concat(), bytes(&[3.0, 9.0]));
        matrix.remove(2);
        matrix.remove(2);
        assert!(matrix.is_empty() && matrix.values.is_empty());
    }

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
