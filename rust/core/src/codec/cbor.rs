// SPDX-License-Identifier: Apache-2.0
//! CBOR heads in deterministic encoding: shortest heads, definite lengths, shortest floats, no
//! tags, no simple values but false, true and null. Spec: OMS §16, RFC 8949 §4.2.1

use core::cmp::Ordering;

use super::{Cursor, Head, Sink, Wire, first_eight, not_shortest};
use crate::{Code, Error, Result};

/// Deterministic CBOR.
#[derive(Debug)]
pub struct Cbor;

const UNSIGNED: u8 = 0 << 5;
const NEGATIVE: u8 = 1 << 5;
const BYTES: u8 = 2 << 5;
const TEXT: u8 = 3 << 5;
const ARRAY: u8 = 4 << 5;
const MAP: u8 = 5 << 5;
const TAG: u8 = 6 << 5;

#[inline]
fn put(out: &mut impl Sink, major: u8, n: u64) {
    match n {
        0..24 => out.push(major | n as u8),
        24..=0xff => out.extend_from_slice(&[major | 24, n as u8]),
        0x100..=0xffff => {
            out.push(major | 25);
            out.extend_from_slice(&(n as u16).to_be_bytes());
        }
        0x1_0000..=0xffff_ffff => {
            out.push(major | 26);
            out.extend_from_slice(&(n as u32).to_be_bytes());
        }
        _ => {
            out.push(major | 27);
            out.extend_from_slice(&n.to_be_bytes());
        }
    }
}

impl Wire for Cbor {
    fn nil(out: &mut impl Sink) {
        out.push(0xf6);
    }

    fn bool(out: &mut impl Sink, value: bool) {
        out.push(0xf4 + u8::from(value));
    }

    #[inline]
    fn int(out: &mut impl Sink, value: i64) {
        if value >= 0 {
            put(out, UNSIGNED, value as u64);
        } else {
            // -1 - value, which is the complement of the bits.
            put(out, NEGATIVE, !value as u64);
        }
    }

    #[inline]
    fn uint(out: &mut impl Sink, value: u64) {
        put(out, UNSIGNED, value);
    }

    fn float(out: &mut impl Sink, value: f64) {
        if let Some(half) = half_bits(value) {
            out.push(0xf9);
            out.extend_from_slice(&half.to_be_bytes());
        } else if f64::from(value as f32) == value {
            out.push(0xfa);
            out.extend_from_slice(&(value as f32).to_be_bytes());
        } else {
            out.push(0xfb);
            out.extend_from_slice(&value.to_be_bytes());
        }
    }

    #[inline]
    fn str_head(out: &mut impl Sink, len: usize) {
        put(out, TEXT, len as u64);
    }

    fn bytes(out: &mut impl Sink, value: &[u8]) {
        put(out, BYTES, value.len() as u64);
        out.extend_from_slice(value);
    }

    fn array(out: &mut impl Sink, len: usize) {
        put(out, ARRAY, len as u64);
    }

    fn map(out: &mut impl Sink, len: usize) {
        put(out, MAP, len as u64);
    }

    #[inline]
    fn head(cursor: &mut Cursor<'_>) -> Result<Head> {
        let first = cursor.byte()?;
        let (major, info) = (first & 0xe0, first & 0x1f);
        if major == 7 << 5 {
            return simple(cursor, info);
        }
        let n = argument(cursor, info)?;
        let len = || usize::try_from(n).unwrap_or(usize::MAX);
        Ok(match major {
            UNSIGNED => i64::try_from(n).map_or(Head::UInt(n), Head::Int),
            NEGATIVE => Head::Int(!i64::try_from(n).map_err(|_| {
                Error::new(Code::Range, "the integer is too small").expected("-2^63 or more")
            })?),
            BYTES => Head::Bytes(len()),
            TEXT => Head::Str(len()),
            ARRAY => Head::Array(len()),
            MAP => Head::Map(len()),
            TAG => return Err(Error::new(Code::Corrupt, "a tag")),
            _ => return Err(Error::new(Code::Corrupt, "a major type that does not exist")),
        })
    }

    /// Shorter keys first: the order of the encoded bytes, whose head is the length.
    fn order(a: &[u8], b: &[u8]) -> Ordering {
        a.len().cmp(&b.len()).then_with(|| a.cmp(b))
    }

    #[inline]
    fn rank(key: &[u8]) -> u64 {
        match key.len() {
            len @ 0..255 => (len as u64) << 56 | first_eight(key) >> 8,
            // All longer keys are equal here, so that their lengths are compared first.
            _ => 0xff << 56,
        }
    }
}

/// The number in or after a first byte, in its shortest form.
#[inline]
fn argument(cursor: &mut Cursor<'_>, info: u8) -> Result<u64> {
    let (width, least) = match info {
        0..24 => return Ok(u64::from(info)),
        24 => (1, 24),
        25 => (2, 0x100),
        26 => (4, 0x1_0000),
        27 => (8, 0x1_0000_0000),
        31 => return Err(Error::new(Code::Corrupt, "an indefinite length")),
        _ => return Err(Error::new(Code::Corrupt, "a reserved head")),
    };
    let n = cursor.number(width)?;
    if n < least { Err(not_shortest("a longer head")) } else { Ok(n) }
}

fn simple(cursor: &mut Cursor<'_>, info: u8) -> Result<Head> {
    let float = |value: f64, width: usize| {
        let shortest = match width {
            2 => true,
            4 => half_bits(value).is_none(),
            _ => half_bits(value).is_none() && f64::from(value as f32) != value,
        };
        // NaN has many encodings; all are refused by value, so any is fine here.
        if shortest || value.is_nan() { Ok(Head::Float(value)) } else { Err(not_shortest("a wider float")) }
    };
    match info {
        20 => Ok(Head::Bool(false)),
        21 => Ok(Head::Bool(true)),
        22 => Ok(Head::Nil),
        23 => Err(Error::new(Code::Corrupt, "the value undefined")),
        25 => float(from_half(cursor.number(2)? as u16), 2),
        26 => float(f64::from(f32::from_bits(cursor.number(4)? as u32)), 4),
        27 => float(f64::from_bits(cursor.number(8)?), 8),
        31 => Err(Error::new(Code::Corrupt, "a break without an indefinite length")),
        _ => Err(Error::new(Code::Corrupt, "a simple value")),
    }
}

/// The 16-bit float of exactly this value, if there is one.
fn half_bits(value: f64) -> Option<u16> {
    let single = value as f32;
    let bits = single.to_bits();
    let sign = (bits >> 16 & 0x8000) as u16;
    let exponent = (bits >> 23 & 0xff) as i32 - 127;
    let mantissa = bits & 0x7f_ffff;
    let half = match exponent {
        -127 if mantissa == 0 => sign,
        // Subnormal: the mantissa with its hidden bit, shifted down to units of 2^-24.
        -24..=-15 => {
            let shift = (-exponent - 1) as u32;
            let whole = mantissa | 0x80_0000;
            if whole.trailing_zeros() < shift {
                return None;
            }
            sign | (whole >> shift) as u16
        }
        -14..=15 if mantissa & 0x1fff == 0 => sign | ((exponent + 15) as u16) << 10 | (mantissa >> 13) as u16,
        128 if mantissa == 0 => sign | 0x7c00,
        _ => return None,
    };
    (from_half(half) == value).then_some(half)
}

fn from_half(bits: u16) -> f64 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let mantissa = f64::from(bits & 0x3ff);
    sign * match bits >> 10 & 0x1f {
        0 => mantissa / 16_777_216.0,
        31 if mantissa == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        exponent => (1.0 + mantissa / 1024.0) * f64::from_bits((u64::from(exponent) + 1023 - 15) << 52),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_comes_back() {
        for bits in 0..=u16::MAX {
            let value = from_half(bits);
            if !value.is_nan() {
                assert_eq!(half_bits(value), Some(bits), "{bits:04x} {value}");
            }
        }
        for value in [1e-8, 65_520.0, 0.1, 1.0 + f64::EPSILON, 5.9e-8, f64::MIN_POSITIVE] {
            assert_eq!(half_bits(value), None, "{value}");
        }
    }
}
