// SPDX-License-Identifier: Apache-2.0
//! The scalars of JSON, read where they stand. What is rare or doubtful is declined.

/// A scalar's end in the text, behind it, and what it says.
pub(super) type Read<T> = Option<(T, usize)>;

/// A number as a grain holds it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Int(i64),
    Float(f64),
}

/// Where a string ends, or needs a closer look: the first quote, backslash or control character.
#[inline]
pub(super) fn stop(bytes: &[u8], from: usize) -> Option<usize> {
    let (chunks, tail) = bytes.get(from..)?.as_chunks::<16>();
    let mut at = from;
    for chunk in chunks {
        let hits = hits(chunk);
        if hits != 0 {
            return Some(at + (hits.trailing_zeros() / 8) as usize);
        }
        at += 16;
    }
    Some(at + tail.iter().position(|b| stops(*b))?)
}

/// Without a branch, so that many bytes can be asked at once.
#[inline]
fn stops(byte: u8) -> bool {
    (byte == b'"') | (byte == b'\\') | (byte < 0x20)
}

/// A byte that is not zero for each that stops: a loop that a compiler makes one step.
#[inline]
fn hits(chunk: &[u8; 16]) -> u128 {
    let mut hits = [0; 16];
    for (i, hit) in hits.iter_mut().enumerate() {
        *hit = if stops(chunk[i]) { 0xff } else { 0 };
    }
    u128::from_le_bytes(hits)
}

/// Appends the string whose first escape stands at `at`, and tells where its quote ends.
pub(super) fn unescape(text: &str, from: usize, mut at: usize, out: &mut String) -> Option<usize> {
    let (bytes, mut plain) = (text.as_bytes(), from);
    loop {
        out.push_str(text.get(plain..at)?);
        match bytes[at] {
            b'"' => return Some(at + 1),
            b'\\' => {}
            _ => return None,
        }
        let escape = *bytes.get(at + 1)?;
        plain = at + 2;
        out.push(match escape {
            b'"' | b'\\' | b'/' => char::from(escape),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let (c, end) = code_point(bytes, plain)?;
                plain = end;
                c
            }
            _ => return None,
        });
        at = stop(bytes, plain)?;
    }
}

/// The character whose four digits, or whose pair of surrogates, stand at `at`.
fn code_point(bytes: &[u8], at: usize) -> Read<char> {
    let unit = unit(bytes, at)?;
    if !(0xd800..0xdc00).contains(&unit) {
        return Some((char::from_u32(unit)?, at + 4));
    }
    let low = bytes.get(at + 4..)?.starts_with(b"\\u").then(|| self::unit(bytes, at + 6))??;
    let pair = 0x1_0000 + ((unit - 0xd800) << 10) + low.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
    Some((char::from_u32(pair)?, at + 10))
}

fn unit(bytes: &[u8], at: usize) -> Option<u32> {
    let digits = bytes.get(at..at + 4)?;
    digits.iter().try_fold(0, |all, digit| Some(all << 4 | char::from(*digit).to_digit(16)?))
}

/// Powers of ten that a float64 holds exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
    1e19, 1e20, 1e21, 1e22,
];
/// Digits that a u64 surely holds, and an i64 too.
const DIGITS: usize = 18;
/// Integers up to here are exact as a float64.
const EXACT: u64 = 1 << 53;
/// Longer numbers are declined.
const LONGEST: usize = 256;

/// Reads the number at `at`. Integers of more digits than are sure to fit are declined, and so are
/// floats that are not finite.
#[inline]
pub(super) fn number(text: &str, at: usize) -> Read<Number> {
    let bytes = text.as_bytes();
    let negative = bytes.get(at) == Some(&b'-');
    let first = at + usize::from(negative);
    let (whole, end) = digits(bytes, first, 0)?;
    if bytes[first] == b'0' && end > first + 1 {
        return None;
    }
    let (mut mantissa, mut stop) = (whole, end);
    if bytes.get(end) == Some(&b'.') {
        (mantissa, stop) = digits(bytes, end + 1, whole)?;
    }
    let exponent = matches!(bytes.get(stop), Some(b'e' | b'E'));
    if stop == end && !exponent {
        let whole = Some(whole as i64).filter(|_| end - first <= DIGITS)?;
        return Some((Number::Int(if negative { -whole } else { whole }), end));
    }
    if exponent {
        let sign = usize::from(matches!(bytes.get(stop + 1), Some(b'+' | b'-')));
        stop = digits(bytes, stop + 1 + sign, 0)?.1;
    }
    if !exponent && stop - first - 1 <= DIGITS && mantissa <= EXACT {
        // Both are exact, so one division rounds correctly.
        let float = mantissa as f64 / POWERS[stop - end - 1];
        return Some((Number::Float(if negative { -float } else { float }), stop));
    }
    let float =
        text.get(at..stop).filter(|t| t.len() <= LONGEST)?.parse().ok().filter(|f: &f64| f.is_finite())?;
    Some((Number::Float(float), stop))
}

/// Reads at least one digit, going on from `value`; it wraps where there are too many.
#[inline]
fn digits(bytes: &[u8], from: usize, mut value: u64) -> Read<u64> {
    let mut at = from;
    while let Some(digit) = bytes.get(at).map(|b| b.wrapping_sub(b'0')).filter(|d| *d < 10) {
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
        at += 1;
    }
    (at > from).then_some((value, at))
}
