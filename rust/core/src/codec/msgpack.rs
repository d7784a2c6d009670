// SPDX-License-Identifier: Apache-2.0
//! MessagePack heads: the shortest form only, float64 only, no extension types. Spec: OMS §4

use core::cmp::Ordering;

use super::{Cursor, Head, Sink, Wire, first_eight, not_shortest};
use crate::{Code, Error, Result};

/// Canonical MessagePack.
#[derive(Debug)]
pub struct Msgpack;

/// Writes a length or a number after the first marker that is wide enough.
#[inline]
fn put(out: &mut impl Sink, markers: [u8; 3], n: u64) {
    match n {
        0..=0xff => out.extend_from_slice(&[markers[0], n as u8]),
        0x100..=0xffff => {
            out.push(markers[1]);
            out.extend_from_slice(&(n as u16).to_be_bytes());
        }
        _ => {
            out.push(markers[2]);
            out.extend_from_slice(&(n as u32).to_be_bytes());
        }
    }
}

impl Wire for Msgpack {
    fn nil(out: &mut impl Sink) {
        out.push(0xc0);
    }

    fn bool(out: &mut impl Sink, value: bool) {
        out.push(0xc2 + u8::from(value));
    }

    #[inline]
    fn int(out: &mut impl Sink, value: i64) {
        match value {
            0.. => Self::uint(out, value as u64),
            -32..0 => out.push(value as u8),
            -0x80..-32 => out.extend_from_slice(&[0xd0, value as u8]),
            -0x8000..-0x80 => {
                out.push(0xd1);
                out.extend_from_slice(&(value as i16).to_be_bytes());
            }
            -0x8000_0000..-0x8000 => {
                out.push(0xd2);
                out.extend_from_slice(&(value as i32).to_be_bytes());
            }
            _ => {
                out.push(0xd3);
                out.extend_from_slice(&value.to_be_bytes());
            }
        }
    }

    #[inline]
    fn uint(out: &mut impl Sink, value: u64) {
        match value {
            0..=0x7f => out.push(value as u8),
            0x80..=0xffff_ffff => put(out, [0xcc, 0xcd, 0xce], value),
            _ => {
                out.push(0xcf);
                out.extend_from_slice(&value.to_be_bytes());
            }
        }
    }

    #[inline]
    fn float(out: &mut impl Sink, value: f64) {
        out.push(0xcb);
        out.extend_from_slice(&value.to_be_bytes());
    }

    #[inline]
    fn str_head(out: &mut impl Sink, len: usize) {
        match len {
            0..=31 => out.push(0xa0 | len as u8),
            _ => put(out, [0xd9, 0xda, 0xdb], len as u64),
        }
    }

    fn bytes(out: &mut impl Sink, value: &[u8]) {
        put(out, [0xc4, 0xc5, 0xc6], value.len() as u64);
        out.extend_from_slice(value);
    }

    fn array(out: &mut impl Sink, len: usize) {
        match len {
            0..=15 => out.push(0x90 | len as u8),
            // There is no one-byte length for arrays and maps.
            16..=0xff => out.extend_from_slice(&[0xdc, 0, len as u8]),
            _ => put(out, [0xdc, 0xdc, 0xdd], len as u64),
        }
    }

    fn map(out: &mut impl Sink, len: usize) {
        match len {
            0..=15 => out.push(0x80 | len as u8),
            16..=0xff => out.extend_from_slice(&[0xde, 0, len as u8]),
            _ => put(out, [0xde, 0xde, 0xdf], len as u64),
        }
    }

    #[inline]
    fn head(cursor: &mut Cursor<'_>) -> Result<Head> {
        let marker = cursor.byte()?;
        Ok(match marker {
            0x00..=0x7f => Head::Int(i64::from(marker)),
            0x80..=0x8f => Head::Map(usize::from(marker & 0x0f)),
            0x90..=0x9f => Head::Array(usize::from(marker & 0x0f)),
            0xa0..=0xbf => Head::Str(usize::from(marker & 0x1f)),
            0xc0 => Head::Nil,
            0xc2 => Head::Bool(false),
            0xc3 => Head::Bool(true),
            0xc4 => Head::Bytes(length(cursor, 1, 0)?),
            0xc5 => Head::Bytes(length(cursor, 2, 0x100)?),
            0xc6 => Head::Bytes(length(cursor, 4, 0x1_0000)?),
            0xca => return Err(Error::new(Code::Corrupt, "a float of 32 bits").expected("64 bits")),
            0xcb => Head::Float(f64::from_bits(cursor.number(8)?)),
            0xcc => unsigned(cursor, 1, 0x80)?,
            0xcd => unsigned(cursor, 2, 0x100)?,
            0xce => unsigned(cursor, 4, 0x1_0000)?,
            0xcf => unsigned(cursor, 8, 0x1_0000_0000)?,
            0xd0 => signed(cursor, 1, -32)?,
            0xd1 => signed(cursor, 2, -0x80)?,
            0xd2 => signed(cursor, 4, -0x8000)?,
            0xd3 => signed(cursor, 8, -0x8000_0000)?,
            0xd9 => Head::Str(length(cursor, 1, 32)?),
            0xda => Head::Str(length(cursor, 2, 0x100)?),
            0xdb => Head::Str(length(cursor, 4, 0x1_0000)?),
            0xdc => Head::Array(length(cursor, 2, 16)?),
            0xdd => Head::Array(length(cursor, 4, 0x1_0000)?),
            0xde => Head::Map(length(cursor, 2, 16)?),
            0xdf => Head::Map(length(cursor, 4, 0x1_0000)?),
            0xe0..=0xff => Head::Int(i64::from(marker as i8)),
            0xc1 => return Err(Error::new(Code::Corrupt, "the byte c1, which MessagePack does not use")),
            0xc7..=0xc9 | 0xd4..=0xd8 => {
                return Err(Error::new(Code::Corrupt, "an extension type"));
            }
        })
    }

    fn order(a: &[u8], b: &[u8]) -> Ordering {
        a.cmp(b)
    }

    #[inline]
    fn rank(key: &[u8]) -> u64 {
        first_eight(key)
    }
}

/// A length of `width` bytes that no shorter form can encode.
#[inline]
fn length(cursor: &mut Cursor<'_>, width: usize, least: u64) -> Result<usize> {
    let n = cursor.number(width)?;
    if n < least { Err(not_shortest("a longer length")) } else { Ok(n as usize) }
}

#[inline]
fn unsigned(cursor: &mut Cursor<'_>, width: usize, least: u64) -> Result<Head> {
    let n = cursor.number(width)?;
    if n < least {
        return Err(not_shortest("a longer integer"));
    }
    Ok(i64::try_from(n).map_or(Head::UInt(n), Head::Int))
}

/// A negative integer below `bound`, the least of the next shorter form.
#[inline]
fn signed(cursor: &mut Cursor<'_>, width: usize, bound: i64) -> Result<Head> {
    let shift = 64 - 8 * width as u32;
    let n = (cursor.number(width)? << shift) as i64 >> shift;
    if n >= bound { Err(not_shortest("a longer integer")) } else { Ok(Head::Int(n)) }
}
