// SPDX-License-Identifier: Apache-2.0
//! The writer without an allocator gives the blobs of `encode`, or refuses with its code.

use omsgrain_core::codec::Encoding;
use omsgrain_core::{Belief, Object, Observation, Options, Value, decode, encode, mg_size, write_mg};

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    fn text<'t>(&mut self, long: &'t str) -> Option<&'t str> {
        const TEXTS: [&str; 9] =
            ["", "x", "dock 4", "é", "e\u{301}", "\u{212b}\u{323}", "각ᄀ\u{1161}", "\u{feff}", "größe 温度"];
        match self.below(7) {
            0 => None,
            1 => {
                let end = self.below(long.len());
                long.get(..end)
            }
            _ => Some(self.of(&TEXTS)),
        }
    }

    fn number(&mut self) -> f64 {
        self.of(&[0.0, -0.0, 0.5, 1.0, 0.1, 22.5, -273.15, 1e300, f64::MIN_POSITIVE, f64::NAN, f64::INFINITY])
    }
}

fn observation<'t>(random: &mut Random, long: &'t str) -> Observation<'t> {
    let object = match random.below(3) {
        0 => None,
        1 => random.text(long).map(Object::Text),
        _ => Some(Object::Reading { value: random.number(), unit: random.text(long) }),
    };
    let confidence = (random.below(3) > 0).then(|| random.number());
    let times = [0, -1, 1, 999, 1_768_471_200_000, 4_294_967_295_999, 4_294_967_296_000, i64::MIN, i64::MAX];
    Observation {
        observer_id: if random.below(4) == 0 { random.text(long) } else { Some("t-4") },
        observer_type: if random.below(4) == 0 { random.text(long) } else { Some("trigger:x") },
        subject: random.text(long),
        relation: random.text(long),
        object,
        confidence: confidence.filter(|value| value.abs() <= 1.0 || random.below(4) == 0),
        namespace: random.text(long),
        created_at: random.of(&times),
    }
}

fn fields<'t>(type_name: &'t str, given: &Observation<'t>) -> Value<'t> {
    let text = |text: Option<&'t str>| text.map(Value::from);
    let object = given.object.map(|object| match object {
        Object::Text(text) => Value::from(text),
        Object::Reading { value, unit: None } => Value::from([("value", value.into())]),
        Object::Reading { value, unit: Some(unit) } => {
            Value::from([("value", value.into()), ("unit", unit.into())])
        }
    });
    let all = [
        ("subject", text(given.subject)),
        ("confidence", given.confidence.map(Value::from)),
        ("type", text(Some(type_name))),
        ("object", object),
        ("created_at", Some(given.created_at.into())),
        ("observer_type", text(given.observer_type)),
        ("namespace", text(given.namespace)),
        ("observer_id", text(given.observer_id)),
        ("relation", text(given.relation)),
    ];
    Value::Map(all.into_iter().filter_map(|(name, value)| Some((name.into(), value?))).collect())
}

#[test]
fn random_grains_have_the_blobs_of_encode_or_its_codes() {
    let (mut random, long) = (Random(3), "o\u{308}ab".repeat(120));
    let (mut written, mut codes) = (0, Vec::new());
    for _ in 0..40_000 {
        let mut given = observation(&mut random, &long);
        let encoding = random.of(&[Encoding::Msgpack, Encoding::Cbor]);
        let mut buffer = [0; 512];
        let (name, blob) = if random.below(2) == 0 {
            ("observation", given.encoded(encoding, &mut buffer))
        } else {
            (given.observer_id, given.observer_type) = (None, None);
            let Observation { subject, relation, object, confidence, namespace, created_at, .. } = given;
            let belief = Belief { subject, relation, object, confidence, namespace, created_at };
            ("belief", belief.encoded(encoding, &mut buffer))
        };
        let options = Options { encoding, ..Options::default() }.lightweight();
        let expected = encode(&fields(name, &given), &options);
        match (blob, expected) {
            (Ok(blob), Ok(expected)) => {
                assert_eq!(blob, expected, "{given:?}");
                written += 1;
            }
            (Err(refusal), Err(error)) => {
                assert_eq!(refusal.code(), error.code(), "{given:?}: {error}");
                // `encode` does not place every error; where it does, both name the same field.
                let place = error.pointer().unwrap_or_default();
                let field = refusal.field().unwrap_or_default();
                assert!(place.is_empty() || place[1..].starts_with(field), "{place}: {refusal}");
                codes.push(refusal.code());
            }
            (blob, expected) => panic!("{given:?}: {blob:?}, not {expected:?}"),
        }
    }
    codes.sort_unstable();
    codes.dedup();
    assert!(written > 3_000, "{written}");
    assert_eq!(
        codes,
        ["ERR_CORRUPT", "ERR_EMPTY", "ERR_FLOAT_INVALID", "ERR_RANGE", "ERR_SCHEMA", "ERR_TOO_LARGE"]
    );
}

const READING: Observation<'_> = Observation {
    observer_id: Some("thermometer 4"),
    observer_type: Some("temperature"),
    subject: None,
    relation: None,
    object: Some(Object::Reading { value: 22.5, unit: Some("Cel") }),
    confidence: None,
    namespace: None,
    created_at: 1_768_471_200_000,
};

#[test]
fn a_buffer_that_is_too_small_is_refused_at_every_size() {
    let mut buffer = [0; 512];
    let size = READING.write(&mut buffer).unwrap().len();
    for room in 0..size {
        let refusal = READING.write(&mut buffer[..room]).unwrap_err();
        assert_eq!((refusal.code(), refusal.field()), ("ERR_TOO_LARGE", None), "{room}");
    }
    assert_eq!(READING.write(&mut buffer[..size]).map(<[u8]>::len), Ok(size));
}

#[test]
fn a_letter_with_many_marks_is_refused() {
    let text = format!("a{}", "\u{323}".repeat(31));
    let refusal = Observation { subject: Some(&text), ..READING }.write(&mut [0; 512]).unwrap_err();
    assert_eq!((refusal.code(), refusal.field()), ("ERR_UNSUPPORTED", Some("subject")));
}

#[test]
fn a_file_holds_its_grains_between_index_and_hash() {
    let mut buffers = [[0; 512]; 3];
    let mut blobs: [&[u8]; 3] = [&[]; 3];
    for ((at, buffer), blob) in [7_000, 9_000, 8_000].into_iter().zip(&mut buffers).zip(&mut blobs) {
        *blob = Observation { created_at: at, ..READING }.write(buffer).unwrap();
    }
    let size = mg_size(3, blobs.concat().len()).unwrap();
    let mut out = vec![0; size];
    for (count, flags) in [(0, 1), (1, 1), (2, 1), (3, 0)] {
        let file = write_mg(blobs.into_iter().take(count), &mut out).unwrap();
        let grains = blobs[..count].concat();
        assert_eq!(file.len(), mg_size(count, grains.len()).unwrap());
        assert_eq!(file[..8], [b'M', b'G', 1, flags, 0, 0, 0, count as u8]);
        let start = 16 + 4 * count;
        assert_eq!(file[start..file.len() - 32], grains);
        for (i, blob) in blobs.iter().enumerate().take(count) {
            let entry = u32::from_be_bytes(file[16 + 4 * i..][..4].try_into().unwrap()) as usize;
            assert_eq!(&file[entry..entry + blob.len()], *blob);
            assert!(decode(blob).is_ok());
        }
    }
    let code = |blobs: [&[u8]; 3], room: usize| {
        let mut out = vec![0; room];
        write_mg(blobs.into_iter(), &mut out).unwrap_err().code()
    };
    assert_eq!(code(blobs, size - 1), "ERR_TOO_LARGE");
    assert_eq!(code([blobs[0], &blobs[1][..9], blobs[2]], size), "ERR_TOO_SHORT");
    assert_eq!(code([blobs[0], &blobs[1][1..], blobs[2]], size), "ERR_VERSION");
    assert_eq!(mg_size(usize::MAX / 4, 1), None);
}
