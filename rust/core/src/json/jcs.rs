// SPDX-License-Identifier: Apache-2.0
//! The one canonical text of a JSON document. Spec: RFC 8785 (JCS), RFC 7493 (I-JSON)
//!
//! Numbers are doubles, spelled as ECMAScript does; keys are in the order of their UTF-16 code
//! units. A document without a certain meaning (a repeated key, a lone surrogate, a number beyond
//! the doubles) is refused.

use std::cmp::Ordering;

use jiter::JsonValue;
use num_bigint::{BigInt, Sign};

use crate::{Code, Error, Result, json};

/// The canonical text of one JSON document; for an object, without one of its keys.
///
/// # Errors `ERR_FORMAT` with the byte offset if it is not JSON; with the pointer if an object has
/// the same key twice or a number is too large for a double. `ERR_CORRUPT` if arrays and objects
/// are nested deeper than `depth`.
pub fn canonical(text: &[u8], without: Option<&str>, depth: usize) -> Result<Vec<u8>> {
    of_value(&json::parse(text)?, without, depth, &mut || Ok(()))
}

/// Values that are written between two calls of `alive`.
const STEP: usize = 1 << 16;

/// The same for a parsed document. For a large one it calls `alive` from time to time, and ends
/// with its error.
///
/// # Errors Those of `canonical`, except for text that is not JSON; and that of `alive`.
pub fn of_value(
    value: &JsonValue<'_>,
    without: Option<&str>,
    depth: usize,
    alive: &mut dyn FnMut() -> Result<()>,
) -> Result<Vec<u8>> {
    let mut writer = Writer { out: Vec::new(), left: STEP, alive };
    writer.write(value, without, depth)?;
    Ok(writer.out)
}

struct Writer<'a> {
    out: Vec<u8>,
    left: usize,
    alive: &'a mut dyn FnMut() -> Result<()>,
}

impl Writer<'_> {
    fn write(&mut self, value: &JsonValue<'_>, without: Option<&str>, depth: usize) -> Result<()> {
        self.left -= 1;
        if self.left == 0 {
            self.left = STEP;
            (self.alive)()?;
        }
        let out = &mut self.out;
        let inside = || depth.checked_sub(1).ok_or_else(|| Error::new(Code::Corrupt, "nested too deep"));
        match value {
            JsonValue::Null => out.extend_from_slice(b"null"),
            JsonValue::Bool(true) => out.extend_from_slice(b"true"),
            JsonValue::Bool(false) => out.extend_from_slice(b"false"),
            JsonValue::Int(whole) => integer(*whole, out)?,
            JsonValue::BigInt(big) => number(double(big), out)?,
            JsonValue::Float(float) => number(*float, out)?,
            JsonValue::Str(text) => string(text, out),
            JsonValue::Array(items) => {
                let depth = inside()?;
                out.push(b'[');
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        self.out.push(b',');
                    }
                    self.write(item, None, depth).map_err(|e| e.in_index(i))?;
                }
                self.out.push(b']');
            }
            JsonValue::Object(entries) => {
                let depth = inside()?;
                let mut sorted: Vec<_> = entries.iter().collect();
                let ascii = sorted.iter().all(|(key, _)| key.is_ascii());
                let order = if ascii { <str as Ord>::cmp } else { utf16_order };
                sorted.sort_by(|(a, _), (b, _)| order(a, b));
                if let Some(pair) = sorted.windows(2).find(|pair| pair[0].0 == pair[1].0) {
                    return Err(
                        Error::new(Code::Format, "an object has the same key twice").in_key(&pair[0].0)
                    );
                }
                sorted.retain(|(key, _)| Some(key.as_ref()) != without);
                out.push(b'{');
                for (i, (key, value)) in sorted.into_iter().enumerate() {
                    if i > 0 {
                        self.out.push(b',');
                    }
                    string(key, &mut self.out);
                    self.out.push(b':');
                    self.write(value, None, depth).map_err(|e| e.in_key(key))?;
                }
                self.out.push(b'}');
            }
        }
        Ok(())
    }
}

/// The order of UTF-16 code units: that of the bytes, except for characters beyond the first
/// plane, whose surrogates sort before U+E000 to U+FFFF.
fn utf16_order(a: &str, b: &str) -> Ordering {
    a.encode_utf16().cmp(b.encode_utf16())
}

/// The least integer that a double cannot represent: 2^53 + 1 becomes 2^53.
const EXACT: i64 = 1 << 53;

fn integer(whole: i64, out: &mut Vec<u8>) -> Result<()> {
    if (-EXACT..=EXACT).contains(&whole) {
        out.extend_from_slice(whole.to_string().as_bytes());
        return Ok(());
    }
    number(whole as f64, out)
}

/// The nearest double, by the same rules as for any other spelling.
fn double(big: &BigInt) -> f64 {
    let text = big.magnitude().to_string();
    let size = text.parse().unwrap_or(f64::INFINITY);
    if big.sign() == Sign::Minus { -size } else { size }
}

fn number(value: f64, out: &mut Vec<u8>) -> Result<()> {
    if !value.is_finite() {
        return Err(Error::new(Code::Format, "a number too large for a double"));
    }
    out.extend_from_slice(ryu_js::Buffer::new().format_finite(value).as_bytes());
    Ok(())
}

fn string(text: &str, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut from = 0;
    for (i, byte) in bytes.iter().enumerate() {
        let escape = match byte {
            b'"' => b'"',
            b'\\' => b'\\',
            0x08 => b'b',
            0x09 => b't',
            0x0a => b'n',
            0x0c => b'f',
            0x0d => b'r',
            0..0x20 => b'u',
            _ => continue,
        };
        out.extend_from_slice(&bytes[from..i]);
        from = i + 1;
        out.extend_from_slice(&[b'\\', escape]);
        if escape == b'u' {
            out.extend_from_slice(b"00");
            out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    }
    out.extend_from_slice(&bytes[from..]);
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> String {
        String::from_utf8(canonical(text.as_bytes(), None, 8).unwrap()).unwrap()
    }

    fn refused(text: &str) -> Error {
        canonical(text.as_bytes(), None, 8).unwrap_err()
    }

    /// RFC 8785, appendix B: the bits of a double and its text.
    const NUMBERS: [(u64, &str); 25] = [
        (0x0000_0000_0000_0000, "0"),
        (0x8000_0000_0000_0000, "0"),
        (0x0000_0000_0000_0001, "5e-324"),
        (0x8000_0000_0000_0001, "-5e-324"),
        (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
        (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
        (0x4340_0000_0000_0000, "9007199254740992"),
        (0xc340_0000_0000_0000, "-9007199254740992"),
        (0x4430_0000_0000_0000, "295147905179352830000"),
        (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
        (0x44b5_2d02_c7e1_4af6, "1e+23"),
        (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
        (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
        (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
        (0x444b_1ae4_d6e2_ef50, "1e+21"),
        (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
        (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
        (0x41b3_de43_5555_5553, "333333333.3333332"),
        (0x41b3_de43_5555_5554, "333333333.33333325"),
        (0x41b3_de43_5555_5555, "333333333.3333333"),
        (0x41b3_de43_5555_5556, "333333333.3333334"),
        (0x41b3_de43_5555_5557, "333333333.33333343"),
        (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
        (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
        (0x3ff0_0000_0000_0000, "1"),
    ];

    #[test]
    fn numbers_of_the_rfc() {
        for (bits, text) in NUMBERS {
            let mut out = Vec::new();
            number(f64::from_bits(bits), &mut out).unwrap();
            assert_eq!(std::str::from_utf8(&out).unwrap(), text, "{bits:016x}");
            assert_eq!(of(&format!("{:e}", f64::from_bits(bits))), text, "{bits:016x}");
        }
    }

    #[test]
    fn spellings_of_numbers() {
        for (given, text) in [
            ("1e-05", "0.00001"),
            ("1e-7", "1e-7"),
            ("1E21", "1e+21"),
            ("100000000000000000000", "100000000000000000000"),
            ("-0", "0"),
            ("-0.0", "0"),
            ("9007199254740993", "9007199254740992"),
            ("-9007199254740993", "-9007199254740992"),
            ("9223372036854775807", "9223372036854776000"),
            ("18446744073709551616", "18446744073709552000"),
            ("123456789012345678901234567890", "1.2345678901234568e+29"),
            ("0.90", "0.9"),
            ("1.0", "1"),
            ("1e2", "100"),
            ("5e-400", "0"),
        ] {
            assert_eq!(of(given), text, "{given}");
        }
        assert_eq!(refused("[1e400]").kind(), Code::Format);
        assert_eq!(refused(&format!("[{}]", "9".repeat(400))).kind(), Code::Format);
        assert_eq!(refused("NaN").kind(), Code::Format);
    }

    #[test]
    fn keys_by_utf16() {
        // U+1F600 is d83d de00, before U+FB33 and after U+20AC.
        let text =
            "{\"\u{20ac}\":1,\"\\r\":2,\"\u{fb33}\":3,\"1\":4,\"\u{1f600}\":5,\"\u{80}\":6,\"\u{f6}\":7}";
        let wanted =
            "{\"\\r\":2,\"1\":4,\"\u{80}\":6,\"\u{f6}\":7,\"\u{20ac}\":1,\"\u{1f600}\":5,\"\u{fb33}\":3}";
        assert_eq!(of(text), wanted);
    }

    #[test]
    fn strings_keep_their_form() {
        assert_eq!(
            of(r#""\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\"\/\b\f\t""#),
            "\"€$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\\b\\f\\t\""
        );
        assert_eq!(of("\"e\u{301}\u{7f}\u{2028}\""), "\"e\u{301}\u{7f}\u{2028}\"");
        assert_eq!(of(r#""\ud83d\ude00""#), "\"\u{1f600}\"");
        for lone in [r#""\ud83d""#, r#""\ude00""#, r#"{"\ud83dx":1}"#] {
            assert_eq!(refused(lone).kind(), Code::Format, "{lone}");
        }
    }

    #[test]
    fn a_key_stands_once() {
        let error = refused(r#"{"a":[{"b":1,"\u0062":2}]}"#);
        assert_eq!((error.kind(), error.pointer().as_deref()), (Code::Format, Some("/a/0/b")));
        assert_eq!(of(r#"{ "b" : [ ] , "a" : { } }"#), r#"{"a":{},"b":[]}"#);
    }

    #[test]
    fn a_key_is_left_out_at_the_top_alone() {
        let text = br#"{"b":{"b":1},"a":2,"c":{}}"#;
        assert_eq!(canonical(text, Some("b"), 2).unwrap(), br#"{"a":2,"c":{}}"#);
        assert_eq!(canonical(text, Some("a"), 2).unwrap(), br#"{"b":{"b":1},"c":{}}"#);
        assert_eq!(canonical(text, None, 1).unwrap_err().kind(), Code::Corrupt);
        assert!(canonical(br#"{"b":1,"b":2}"#, Some("b"), 2).is_err());
    }

    #[test]
    fn canonical_text_is_its_own() {
        let once = of(r#"{"z":[1.50,2e3,null,true],"a":{"\u00e9":"\u0001"},"m":-1E-9}"#);
        assert_eq!(of(&once), once);
    }
}
