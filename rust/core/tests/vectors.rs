// SPDX-License-Identifier: Apache-2.0
//! Every file of test_vectors/, without Python: stages on the way in, refusals by code.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiter::JsonValue;
use omsgrain_core::codec::{Encoding, LIGHTWEIGHT, STANDARD};
use omsgrain_core::encode::{Options, encode};
use omsgrain_core::{Error, address, decode, json};

/// Vectors of documents, files and signatures, which Python reads.
const OTHERS: [&str; 9] = [
    "test_vectors/aimem",
    "test_vectors/containers",
    "test_vectors/disclosures",
    "test_vectors/mif-ld",
    "test_vectors/mif1",
    "test_vectors/mif2",
    "test_vectors/sealed",
    "test_vectors/signatures",
    "test_vectors/streams",
];

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if !OTHERS.iter().any(|room| path.ends_with(room)) {
                files(&path, found);
            }
        } else if path.extension().is_some_and(|e| e == "json") {
            found.push(path);
        }
    }
}

fn get<'v>(value: &'v JsonValue<'_>, key: &str) -> Option<&'v JsonValue<'v>> {
    let JsonValue::Object(entries) = value else { return None };
    entries.iter().find(|(name, _)| name == key).map(|(_, value)| value)
}

fn text<'v>(value: &'v JsonValue<'_>, key: &str) -> Option<&'v str> {
    match get(value, key) {
        Some(JsonValue::Str(text)) => Some(text),
        _ => None,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

fn options(vector: &JsonValue<'_>) -> Options {
    let mut out = Options::default();
    let Some(JsonValue::Object(given)) = get(vector, "options") else { return out };
    for (name, value) in given.iter() {
        match (name.as_ref(), value) {
            ("encoding", JsonValue::Str(s)) if s == "cbor" => out.encoding = Encoding::Cbor,
            ("encoding", JsonValue::Str(s)) if s == "msgpack" => {}
            ("compress", JsonValue::Bool(b)) => out.compress = *b,
            ("keep_type_name", JsonValue::Bool(b)) => out.keep_type_name = *b,
            ("sensitivity", JsonValue::Int(level)) => out.sensitivity = u8::try_from(*level).unwrap(),
            ("sensitivity", JsonValue::Str(name)) => {
                let levels = ["public", "internal", "pii", "phi"];
                out.sensitivity = levels.iter().position(|l| l == name).unwrap() as u8;
            }
            ("type_byte", JsonValue::Int(byte)) => out.type_byte = Some(u8::try_from(*byte).unwrap()),
            ("profile", JsonValue::Str(s)) if s == "standard" => out.profile = STANDARD,
            ("profile", JsonValue::Str(s)) if s == "lightweight" => out.profile = LIGHTWEIGHT,
            ("profile", JsonValue::Str(s)) if s == "extended" => {}
            _ => panic!("unknown option {name}"),
        }
    }
    out
}

/// Replaces `{"$float": "nan"}` and the like by the floats that JSON cannot express.
fn with_floats<'v>(value: &JsonValue<'v>) -> JsonValue<'v> {
    match value {
        JsonValue::Array(items) => JsonValue::Array(Arc::new(items.iter().map(with_floats).collect())),
        JsonValue::Object(_) if text(value, "$float").is_some() => {
            JsonValue::Float(text(value, "$float").unwrap().parse().unwrap())
        }
        JsonValue::Object(entries) => {
            let entries = entries.iter().map(|(key, value)| (key.clone(), with_floats(value)));
            JsonValue::Object(Arc::new(entries.collect()))
        }
        other => other.clone(),
    }
}

/// The result of a vector: the blob that the core writes, or the blob that it reads.
fn run(vector: &JsonValue<'_>) -> Result<Vec<u8>, Error> {
    if let Some(line) = text(vector, "input_json") {
        return encode(&&json::parse(line.as_bytes())?, &options(vector));
    }
    let blob = match get(vector, "input") {
        Some(input) => encode(&&with_floats(input), &options(vector))?,
        None => {
            let stages = get(vector, "stages").unwrap_or(vector);
            unhex(text(stages, "blob_hex").unwrap())
        }
    };
    if let (Some(address), Some(_)) = (text(vector, "address"), text(vector, "expect_error")) {
        address::verify(&blob, &address::parse(address)?)?;
    }
    decode::verify(&blob)?;
    Ok(blob)
}

#[test]
fn every_vector() {
    let mut all = Vec::new();
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../test_vectors"), &mut all);
    assert!(all.len() > 300, "the vectors are there");
    let mut wrong = Vec::new();
    for path in all {
        let bytes = fs::read(&path).unwrap();
        let vector = json::parse(&bytes).unwrap();
        let name = path.display();
        match (run(&vector), text(&vector, "expect_error")) {
            (Err(error), Some(code)) if error.code() == code => {}
            (Err(error), expected) => wrong.push(format!("{name}: {error}, not {expected:?}")),
            (Ok(_), Some(code)) => wrong.push(format!("{name}: not refused with {code}")),
            (Ok(blob), None) => {
                let stages = get(&vector, "stages").unwrap_or(&vector);
                if text(stages, "blob_hex") != Some(&hex(&blob)) {
                    wrong.push(format!("{name}: other bytes"));
                }
                if text(&vector, "address") != Some(&address::to_hex(&address::sha256(&blob))) {
                    wrong.push(format!("{name}: another address"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
