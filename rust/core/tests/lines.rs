// SPDX-License-Identifier: Apache-2.0
//! JSON lines in any spelling give the same as each line through a tree.

use omsgrain_core::batch::Batch;
use omsgrain_core::codec::{Encoding, LIGHTWEIGHT};
use omsgrain_core::encode::{Options, encode_into};
use omsgrain_core::{Error, address, json, json::lines};

const GOOD: [(&str, &str); 12] = [
    ("type", r#""belief""#),
    ("subject", r#""robot-7""#),
    ("relation", r#""mg:perceives""#),
    ("object", r#""shelf 12 has 3 boxes""#),
    ("confidence", "0.93"),
    ("source_type", r#""sensor""#),
    ("created_at", "1768471200000"),
    ("namespace", r#""warehouse:zone-3""#),
    ("author_did", r#""did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK""#),
    ("importance", "0.5"),
    ("structural_tags", r#"["inventory", "shelf"]"#),
    ("user_id", r#""u1""#),
];
const KEYS: [&str; 14] = [
    "x_value",
    "lab:y",
    "subject",
    "subjct",
    "content",
    "st",
    "args",
    "\\u0074ype",
    "$bytes",
    "\\u0024bytes",
    "é",
    "e\u{301}",
    "",
    "a\\nb",
];
const NUMBERS: [&str; 44] = [
    "0",
    "-0",
    "-0.0",
    "0.0",
    "1",
    "-1",
    "255",
    "1E2",
    "1.5e-3",
    "1e22",
    "1e23",
    "1e+2",
    "8.5E-0",
    "0e9",
    "0.1",
    "123456789012345678",
    "-123456789012345678",
    "1234567890123456789",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "18446744073709551616",
    "9007199254740993.0",
    "9007199254740992.5",
    "900719925474099.3",
    "0.30000000000000004",
    "0.12345678901234567",
    "0.123456789012345678",
    "5e-324",
    "2.2250738585072011e-308",
    "1e308",
    "1e309",
    "-1e400",
    "01",
    "-01",
    "1.",
    ".5",
    "1e",
    "1e+",
    "-",
    "+1",
    "1 1",
];
const TEXTS: [&str; 26] = [
    "",
    "x",
    "belief",
    "event",
    "fact",
    "é",
    "e\u{301}",
    "本語",
    "🤖",
    "กขค\u{e48}",
    "\u{feff}x",
    "\\n",
    "\\\\",
    "\\\"",
    "\\/\\b\\f\\r\\t",
    "\\u00e9",
    "\\ud83e\\udd16",
    "\\uD83E\\uDd16x",
    "\\ud800",
    "\\udc00",
    "\\ud800\\u0041",
    "\\u12",
    "\\x",
    "\t",
    "\u{0}",
    "2026-01-15T10:00:00Z",
];
const WORDS: [&str; 8] = ["null", "true", "false", "nul", "True", "NaN", "Infinity", "-Infinity"];

struct Rng(u64);

impl Rng {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    fn text(&mut self) -> String {
        let around = self.below(3) * self.below(50);
        format!(
            "\"{}{}{}\"",
            "a".repeat(self.below(around + 1)),
            self.of(&TEXTS),
            "b".repeat(self.below(around + 1))
        )
    }

    fn number(&mut self) -> String {
        if self.one_in(2) {
            return self.of(&NUMBERS).to_owned();
        }
        let digits =
            |rng: &mut Self, n: usize| (0..n).map(|_| char::from(b'0' + rng.below(10) as u8)).collect();
        let (a, b) = (1 + self.below(20), 1 + self.below(24));
        let (whole, after): (String, String) = (digits(self, a), digits(self, b));
        match self.below(3) {
            0 => whole,
            1 => format!("{}.{after}", whole.trim_start_matches('0')),
            _ => format!("0.{after}e{}", self.below(640) as i32 - 320),
        }
    }

    fn value(&mut self, depth: usize) -> String {
        match self.below(if depth > 4 { 8 } else { 12 }) {
            0 | 1 => self.of(&WORDS[..3]).to_owned(),
            2 if self.one_in(8) => self.of(&WORDS).to_owned(),
            2..=4 => self.number(),
            5..=7 => self.text(),
            8 if self.one_in(20) => {
                let levels = 28 + self.below(8);
                "[".repeat(levels) + &"]".repeat(levels)
            }
            8 => r#"{"$bytes":"AAEC/w=="}"#.to_owned(),
            9 | 10 => {
                let items: Vec<String> = (0..self.below(4)).map(|_| self.value(depth + 1)).collect();
                format!("[{}]", items.join(self.of(&[",", ", ", " , "])))
            }
            _ => {
                let entries = (0..self.below(4)).map(|_| (self.of(&KEYS).to_owned(), self.value(depth + 1)));
                let entries: Vec<_> = entries.collect();
                self.map(&entries)
            }
        }
    }

    fn map(&mut self, entries: &[(String, String)]) -> String {
        let (comma, colon) = self.of(&[(",", ":"), (", ", ": "), (" ,\t", " : ")]);
        let entries: Vec<String> = entries.iter().map(|(k, v)| format!("\"{k}\"{colon}{v}")).collect();
        format!("{{{}}}", entries.join(comma))
    }

    fn line(&mut self) -> Vec<u8> {
        let mut entries: Vec<(String, String)> =
            GOOD.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        for _ in 0..self.below(3) {
            let at = self.below(entries.len());
            match self.below(5) {
                0 => drop(entries.remove(at)),
                1 => entries[at].1 = self.value(0),
                2 => entries.insert(at, (self.of(&KEYS).to_owned(), self.value(0))),
                3 => entries.swap(0, at),
                _ => entries.push((self.of(&KEYS).to_owned(), self.value(0))),
            }
        }
        let mut line = self.map(&entries).into_bytes();
        if self.one_in(4) {
            let at = self.below(line.len());
            match self.below(4) {
                0 => line[at] ^= 1 << self.below(7),
                1 => line.truncate(at),
                2 => drop(line.remove(at)),
                _ => line.insert(at, self.of(b" ,:{}[]\"\\0-.e\t\r\x0b\x7f")),
            }
        }
        line
    }

    fn lines(&mut self) -> Vec<u8> {
        let mut text = if self.one_in(4) { b"\xef\xbb\xbf".to_vec() } else { Vec::new() };
        for _ in 0..60 {
            let line = match self.below(20) {
                0 => self.of(&["", " \t", "\x0c", "{}", "[]", "5", "{"]).as_bytes().to_vec(),
                _ => self.line(),
            };
            text.extend(line);
            text.extend_from_slice(self.of(&["\n", "\n", "\n", "\r\n", " \n"]).as_bytes());
        }
        if self.one_in(8) {
            let at = self.below(text.len());
            text[at] = 0xff;
        }
        text.truncate(text.len() - self.below(3));
        text
    }
}

/// Each line separately, through a tree.
fn by_trees(text: &[u8], options: &Options) -> Batch {
    let mut batch = Batch::default();
    let mut at = if text.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    let mut index = 0;
    for (line, number) in text[at..].split_inclusive(|b| *b == b'\n').zip(1..) {
        if !line.trim_ascii().is_empty() {
            batch.add(index, Some(number), |out, warnings| {
                let value = json::parse(line).map_err(|e: Error| e.shifted(at))?;
                encode_into(&&value, options, out, warnings)
            });
            index += 1;
        }
        at += line.len();
    }
    batch.hash();
    batch
}

/// The complete result of a batch.
fn said(batch: &Batch) -> Vec<String> {
    let blobs = (0..batch.len())
        .map(|i| format!("{} {} {:x?}", batch.indices[i], address::to_hex(&batch.digests[i]), batch.blob(i)));
    let refused = batch.refused.iter().map(|r| format!("{} {:?} {:?}", r.index, r.line, r.error));
    let warned = batch.warned.iter().map(|w| format!("{} {:?} {}", w.index, w.line, w.message));
    blobs.chain(refused).chain(warned).collect()
}

fn variants() -> [Options; 5] {
    let usual = Options::default();
    [
        usual,
        usual,
        Options { encoding: Encoding::Cbor, sensitivity: 2, ..usual },
        Options { keep_type_name: true, compress: true, ..usual },
        Options { profile: LIGHTWEIGHT, ..usual },
    ]
}

#[test]
fn lines_come_to_the_same_as_by_trees() {
    let (mut good, mut bad) = (0, 0);
    for seed in 0..150 {
        let text = Rng(seed).lines();
        let options = variants()[seed as usize % 5];
        let (batch, expected) = (lines::encode_jsonl(&text, &options), by_trees(&text, &options));
        assert_eq!(said(&batch), said(&expected), "seed {seed}: {:?}", String::from_utf8_lossy(&text));
        good += batch.len();
        bad += batch.refused.len();
    }
    assert!(good > 2000 && bad > 2000, "{good} {bad}");
}

#[test]
fn values_of_every_spelling_are_what_they_are_in_a_tree() {
    let mut rng = Rng(7);
    let all = KEYS.iter().chain(&NUMBERS).chain(&TEXTS).chain(&WORDS);
    let mut values: Vec<String> = all.flat_map(|text| [(*text).to_owned(), format!("\"{text}\"")]).collect();
    values.extend((0..2000).map(|_| rng.value(0)));
    values.extend((0..2000).map(|_| rng.number()));
    let mut text = String::new();
    for value in &values {
        let good = rng.map(&GOOD.map(|(key, value)| (key.to_owned(), value.to_owned())));
        text += &format!("{},\"x_value\":{value}}}\n", &good[..good.len() - 1]);
    }
    let options = Options::default();
    let (batch, expected) =
        (lines::encode_jsonl(text.as_bytes(), &options), by_trees(text.as_bytes(), &options));
    assert_eq!(said(&batch), said(&expected));
    assert!(batch.len() > 2000 && batch.refused.len() > 500, "{} {}", batch.len(), batch.refused.len());
}

#[test]
fn strings_end_where_they_end() {
    // At any position of the end within the words and chunks of one step.
    let mut text = String::new();
    for length in 0..150 {
        for stop in ["", "\\\"", "\\u0041", "\u{1f}", "é\"", "\u{7f}\u{80}", "!#[]\u{20}"] {
            let filler = "ab\u{e9}#![]".chars().cycle().take(length).collect::<String>();
            text += &format!("{{\"type\":\"belief\",\"subject\":\"{filler}{stop}\",\"relation\":\"r\",");
            text += "\"object\":\"o\",\"confidence\":1,\"created_at\":1}\n";
        }
    }
    let options = Options::default();
    let (batch, expected) =
        (lines::encode_jsonl(text.as_bytes(), &options), by_trees(text.as_bytes(), &options));
    assert_eq!(said(&batch), said(&expected));
    assert!(batch.len() > 600 && batch.refused.len() > 250);
}
