// SPDX-License-Identifier: Apache-2.0
//! Fields and a buffer for the library for C: the blob of `encode`, or its code. No byte outside of
//! the buffers is read or written.
#![no_main]

use std::ffi::CStr;
use std::ptr;

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use omsgrain::{
    BeliefFields, Blob, ObservationFields, Text, omsgrain_address, omsgrain_check_address,
    omsgrain_code_name, omsgrain_write_belief, omsgrain_write_mg, omsgrain_write_observation,
};
use omsgrain_core::codec::{Encoding, LIGHTWEIGHT};
use omsgrain_core::encode::{Options, encode};
use omsgrain_core::{Address, Value, decode};

/// The fields, each in memory of its own length.
struct Given {
    texts: [Option<Box<[u8]>>; 7],
    value: Option<f64>,
    confidence: Option<f64>,
    created_at: i64,
    is_belief: bool,
    cbor: bool,
    room: usize,
}

const NAMES: [&str; 7] =
    ["observer_id", "observer_type", "subject", "relation", "object", "unit", "namespace"];

fn given(data: &mut Unstructured<'_>) -> Result<Given> {
    let (is_belief, cbor) = (data.arbitrary()?, data.arbitrary()?);
    let room = data.int_in_range(0..=600)?;
    let (value, confidence, created_at) = (data.arbitrary()?, data.arbitrary()?, data.arbitrary()?);
    let mut texts: [Option<Box<[u8]>>; 7] = Default::default();
    for text in &mut texts {
        if data.arbitrary()? {
            let length = usize::from(data.arbitrary::<u8>()?).min(data.len());
            *text = Some(data.bytes(length)?.into());
        }
    }
    Ok(Given { texts, value, confidence, created_at, is_belief, cbor, room })
}

impl Given {
    fn text(&self, i: usize) -> Text {
        match &self.texts[i] {
            Some(text) => Text { data: text.as_ptr().cast(), length: text.len() },
            None => Text { data: ptr::null(), length: 0 },
        }
    }

    /// What C does: a code, and the blob.
    fn written(&self) -> (String, Vec<u8>) {
        let mut out = vec![0; self.room].into_boxed_slice();
        let mut length = usize::MAX;
        let mut field = ptr::null();
        let number = |number: &Option<f64>| number.as_ref().map_or(ptr::null(), ptr::from_ref);
        let statement = BeliefFields {
            subject: self.text(2),
            relation: self.text(3),
            object: self.text(4),
            value: number(&self.value),
            unit: self.text(5),
            confidence: number(&self.confidence),
            namespace: self.text(6),
            created_at: self.created_at,
        };
        let (observer_id, observer_type) = (self.text(0), self.text(1));
        let observation = ObservationFields { observer_id, observer_type, statement };
        let (data, encoding) = (out.as_mut_ptr(), i32::from(self.cbor));
        // SAFETY: all pointers are those of the boxes and variables above.
        let code = unsafe {
            if self.is_belief {
                omsgrain_write_belief(&statement, encoding, data, out.len(), &mut length, &mut field)
            } else {
                omsgrain_write_observation(&observation, encoding, data, out.len(), &mut length, &mut field)
            }
        };
        // SAFETY: the code is one of the library's, so its name is a static text.
        let name = unsafe { CStr::from_ptr(omsgrain_code_name(code)) };
        assert!(code != 0 || field.is_null());
        (name.to_str().expect("a name is ASCII").to_owned(), out[..length].to_vec())
    }

    /// The same by `encode`; None if a text is not UTF-8, or C has a rule of its own.
    fn encoded(&self) -> Option<std::result::Result<Vec<u8>, String>> {
        let [.., object, unit, _] = &self.texts;
        if (object.is_some() && self.value.is_some()) || (unit.is_some() && self.value.is_none()) {
            return None;
        }
        let mut fields = vec![
            ("type".into(), Value::from(if self.is_belief { "belief" } else { "observation" })),
            ("created_at".into(), self.created_at.into()),
        ];
        let mut reading = Vec::new();
        for (name, text) in NAMES.into_iter().zip(&self.texts) {
            let Some(text) = text else { continue };
            if self.is_belief && name.starts_with("observer") {
                continue;
            }
            let text = Value::from(std::str::from_utf8(text).ok()?);
            if name == "unit" { &mut reading } else { &mut fields }.push((name.into(), text));
        }
        if let Some(value) = self.value {
            reading.push(("value".into(), value.into()));
            fields.push(("object".into(), Value::Map(reading)));
        }
        if let Some(confidence) = self.confidence {
            fields.push(("confidence".into(), confidence.into()));
        }
        let encoding = if self.cbor { Encoding::Cbor } else { Encoding::Msgpack };
        let options = Options { encoding, profile: LIGHTWEIGHT, ..Options::default() };
        Some(encode(&&Value::Map(fields), &options).map_err(|error| error.code().to_owned()))
    }
}

fuzz_target!(|data: &[u8]| {
    let Ok(given) = given(&mut Unstructured::new(data)) else { return };
    let (code, blob) = given.written();
    if code == "OK" {
        assert_eq!(given.encoded(), Some(Ok(blob.clone())));
        decode(&blob).expect("a grain can be read");
        in_a_file(&blob);
    } else if let Some(expected) = given.encoded() {
        assert!(blob.is_empty());
        match expected {
            Err(expected) => assert!(code == expected || code == "ERR_UNSUPPORTED", "{code}, not {expected}"),
            Ok(expected) if code == "ERR_TOO_LARGE" => assert!(expected.len() > given.room),
            Ok(_) => assert_eq!(code, "ERR_UNSUPPORTED"),
        }
    }
});

fn in_a_file(blob: &[u8]) {
    let mut address = [0u8; 65];
    let blobs = [Blob { data: blob.as_ptr(), length: blob.len() }; 2];
    let mut file = vec![0; 48 + 8 + 2 * blob.len()].into_boxed_slice();
    let mut length = 0;
    // SAFETY: all pointers are those of the slices above.
    unsafe {
        assert_eq!(omsgrain_address(blob.as_ptr(), blob.len(), address.as_mut_ptr().cast()), 0);
        let text = Text { data: address.as_ptr().cast(), length: 64 };
        assert_eq!(omsgrain_check_address(blob.as_ptr(), blob.len(), text), 0);
        assert_eq!(omsgrain_write_mg(blobs.as_ptr(), 2, file.as_mut_ptr(), file.len(), &mut length), 0);
    }
    assert_eq!(address[..64], *Address::of(blob).to_string().as_bytes());
    assert_eq!(length, file.len());
}
