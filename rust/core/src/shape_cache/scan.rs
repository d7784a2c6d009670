// SPDX-License-Identifier: Apache-2.0
//! Reads a JSON line in place, without a tree, and without an allocation once the buffers have
//! grown.
//!
//! [`Scan`] accepts a line or declines it. If it accepts a line, [`crate::json::parse`] accepts it
//! with the same content. Declined lines, malformed or merely rare, go to `parse`.

use super::json::Glue;
use super::json::Line;

/// It declines deeper lines.
const DEPTH: usize = 32;

/// A value, or the head of a container whose content follows it. An entry of a map takes two slots:
/// the key, which is a string, and the value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Slot {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    /// A place in the text.
    Str(u32, u32),
    /// A place in the unescaped text.
    Made(u32, u32),
    /// The number of items, and the first slot after them.
    List(u32, u32),
    /// The number of entries, and the first slot after them.
    Map(u32, u32),
}

/// The place of an entry of the line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// The slot of its value; the slot before it has the key.
    pub slot: u32,
    /// The value in the text.
    pub from: u32,
    pub to: u32,
}

/// The buffers of a scan.
#[derive(Debug, Default)]
pub struct Scan {
    pub(super) slots: Vec<Slot>,
    pub(super) made: String,
    pub(super) places: Vec<Place>,
}

/// A line that was read.
pub struct LineEnd {
    /// Where the next line begins.
    pub next: usize,
    /// Whether its keys are the expected ones.
    pub(super) expected: bool,
}

impl Scan {
    /// Reads the line that begins at `at`. `glue` is the text between the values of an earlier
    /// line.
    pub(super) fn line(&mut self, text: &str, at: usize, glue: Option<&Glue>) -> Option<LineEnd> {
        self.slots.clear();
        self.made.clear();
        self.places.clear();
        u32::try_from(text.len()).ok()?;
        Reader { text, bytes: text.as_bytes(), scan: self }.line(at, glue)
    }

    /// The result of reading `text`.
    pub(super) fn read<'s>(&'s self, text: &'s str) -> Line<'s> {
        Line { slots: &self.slots, made: &self.made, places: &self.places, text }
    }
}

/// One pass over a line.
struct Reader<'r> {
    text: &'r str,
    bytes: &'r [u8],
    scan: &'r mut Scan,
}

impl Reader<'_> {
    fn line(&mut self, start: usize, glue: Option<&Glue>) -> Option<LineEnd> {
        let head = self.head(1)?;
        let (mut len, mut at) = (0, start);
        for part in glue.into_iter().flat_map(Glue::parts) {
            if !self.bytes[at..].starts_with(part.text) {
                break;
            }
            self.scan.slots.push(Slot::Str((at + part.key.0) as u32, (at + part.key.1) as u32));
            at = self.entry(at + part.text.len())?;
            len += 1;
        }
        let foreseen = len;
        if len == 0 {
            let open = self.blank(start);
            (at, len) = (self.bytes.get(open) == Some(&b'{')).then(|| self.entries(open, 1))??;
        } else if let Some(next) = self.sign(at, b',') {
            (at, len) = self.rest(next, len, 1)?;
        }
        let end = self.close(at, head, len, b'}')?;
        let end = self.blank(end);
        let expected = len > 0 && len == foreseen && Some(len) == glue.map(Glue::len);
        match self.bytes.get(end) {
            None => Some(LineEnd { next: end, expected }),
            Some(b'\n') => Some(LineEnd { next: end + 1, expected }),
            Some(_) => None,
        }
    }

    /// Reads the value of an entry of the line.
    #[inline]
    fn entry(&mut self, at: usize) -> Option<usize> {
        let slot = self.scan.slots.len() as u32;
        let end = self.value(at, 2)?;
        self.scan.places.push(Place { slot, from: at as u32, to: end as u32 });
        Some(end)
    }

    /// Skips blanks; a line feed ends the line.
    #[inline]
    fn blank(&self, mut at: usize) -> usize {
        while let Some(b' ' | b'\t' | b'\r') = self.bytes.get(at) {
            at += 1;
        }
        at
    }

    /// Skips one byte and the blanks around it.
    #[inline]
    fn sign(&self, at: usize, sign: u8) -> Option<usize> {
        let at = self.blank(at);
        (self.bytes.get(at) == Some(&sign)).then(|| self.blank(at + 1))
    }

    fn value(&mut self, at: usize, depth: usize) -> Option<usize> {
        match *self.bytes.get(at)? {
            b'"' => self.string(at),
            b'-' | b'0'..=b'9' => {
                let (number, end) = number(self.text, at)?;
                self.scan.slots.push(match number {
                    Number::Int(int) => Slot::Int(int),
                    Number::Float(float) => Slot::Float(float),
                });
                Some(end)
            }
            b'[' => self.list(at, depth),
            b'{' => self.map(at, depth),
            b't' => self.word(at, b"true", Slot::Bool(true)),
            b'f' => self.word(at, b"false", Slot::Bool(false)),
            b'n' => self.word(at, b"null", Slot::Null),
            _ => None,
        }
    }

    fn word(&mut self, at: usize, word: &[u8], slot: Slot) -> Option<usize> {
        self.scan.slots.push(slot);
        self.bytes[at..].starts_with(word).then_some(at + word.len())
    }

    #[inline]
    fn string(&mut self, at: usize) -> Option<usize> {
        let from = at + 1;
        let to = stop(self.bytes, from)?;
        if self.bytes[to] == b'"' {
            self.scan.slots.push(Slot::Str(from as u32, to as u32));
            return Some(to + 1);
        }
        let made = self.scan.made.len();
        let end = unescape(self.text, from, to, &mut self.scan.made)?;
        // It is no longer than the text, whose length fits.
        self.scan.slots.push(Slot::Made(made as u32, self.scan.made.len() as u32));
        Some(end)
    }

    fn list(&mut self, open: usize, depth: usize) -> Option<usize> {
        let (head, mut len) = (self.head(depth)?, 0);
        let mut at = self.blank(open + 1);
        if self.bytes.get(at) != Some(&b']') {
            loop {
                at = self.value(at, depth + 1)?;
                len += 1;
                let Some(next) = self.sign(at, b',') else { break };
                at = next;
            }
        }
        self.close(at, head, len, b']')
    }

    fn map(&mut self, open: usize, depth: usize) -> Option<usize> {
        let head = self.head(depth)?;
        let (at, len) = self.entries(open, depth)?;
        self.close(at, head, len, b'}')
    }

    fn entries(&mut self, open: usize, depth: usize) -> Option<(usize, usize)> {
        let at = self.blank(open + 1);
        if self.bytes.get(at) == Some(&b'}') { Some((at, 0)) } else { self.rest(at, 0, depth) }
    }

    /// Reads entries after the first `len`, and returns the new number of entries.
    fn rest(&mut self, mut at: usize, mut len: usize, depth: usize) -> Option<(usize, usize)> {
        loop {
            at = self.key(at)?;
            at = if depth == 1 { self.entry(at)? } else { self.value(at, depth + 1)? };
            len += 1;
            let Some(next) = self.sign(at, b',') else { return Some((at, len)) };
            at = next;
        }
    }

    /// Reserves the slot for a container's head.
    fn head(&mut self, depth: usize) -> Option<usize> {
        self.scan.slots.push(Slot::Null);
        (depth <= DEPTH).then_some(self.scan.slots.len() - 1)
    }

    /// Ends the container whose slot is `head`.
    fn close(&mut self, at: usize, head: usize, len: usize, sign: u8) -> Option<usize> {
        let (len, end) = (len as u32, self.scan.slots.len() as u32);
        let slot = if sign == b'}' { Slot::Map(len, end) } else { Slot::List(len, end) };
        self.scan.slots[head] = slot;
        let at = self.blank(at);
        let bytes = len == 1 && sign == b'}' && self.scan.read(self.text).str(head + 1) == "$bytes";
        // A map with only this key encodes bytes.
        (!bytes && self.bytes.get(at) == Some(&sign)).then_some(at + 1)
    }

    /// Reads a key and its colon.
    #[inline]
    fn key(&mut self, at: usize) -> Option<usize> {
        if self.bytes.get(at) != Some(&b'"') {
            return None;
        }
        let end = self.string(at)?;
        self.sign(end, b':')
    }
}
/// The end of a scalar in the text, and its value.
pub(super) type Read<T> = Option<(T, usize)>;

/// A number in the form of a grain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Int(i64),
    Float(f64),
}

/// The place of the first quote, backslash or control character.
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

/// It has no branch, so that the compiler can test many bytes at once.
#[inline]
fn stops(byte: u8) -> bool {
    (byte == b'"') | (byte == b'\\') | (byte < 0x20)
}

/// A byte that is not zero for each byte that stops the scan. The compiler turns the loop into one
/// step.
#[inline]
fn hits(chunk: &[u8; 16]) -> u128 {
    let mut hits = [0; 16];
    for (i, hit) in hits.iter_mut().enumerate() {
        *hit = if stops(chunk[i]) { 0xff } else { 0 };
    }
    u128::from_le_bytes(hits)
}

/// Appends the string whose first escape is at `at`, and returns the place of its closing quote.
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

/// The character of the four digits, or of the pair of surrogates, at `at`.
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

/// The powers of ten that are exact as a float64.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
    1e19, 1e20, 1e21, 1e22,
];
/// The number of digits that always fit into a u64, and into an i64.
const DIGITS: usize = 18;
/// Integers up to here are exact as a float64.
const EXACT: u64 = 1 << 53;
/// It declines longer numbers.
const LONGEST: usize = 256;

/// Reads the number at `at`. It declines integers with more digits than always fit, and floats that
/// are not finite.
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

/// Reads at least one digit and continues from `value`, which wraps on overflow.
#[inline]
fn digits(bytes: &[u8], from: usize, mut value: u64) -> Read<u64> {
    let mut at = from;
    while let Some(digit) = bytes.get(at).map(|b| b.wrapping_sub(b'0')).filter(|d| *d < 10) {
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
        at += 1;
    }
    (at > from).then_some((value, at))
}
