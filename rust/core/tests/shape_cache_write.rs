// SPDX-License-Identifier: Apache-2.0
//! The general code accepts what the shape cache accepts, with the same bytes and without warnings.

use std::borrow::Cow;

use omsgrain_core::Value;
use omsgrain_core::codec::{EXTENDED, Encoding, LIGHTWEIGHT, Profile, STANDARD};
use omsgrain_core::encode::{Options, encode_into};
use omsgrain_core::registry::{FIELDS, Field, GrainType, Kind, PHASES, TYPES, field};
use omsgrain_core::shape_cache::ShapeCache;

type Fields = Vec<(Cow<'static, str>, Value<'static>)>;

const DID: &str = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK";
const ADDRESS: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const OTHER_NAMES: [&str; 16] = [
    "lab:own",
    "x",
    "nothing_known",
    "confidnce",
    "contnet",
    "st",
    "cnt",
    "args",
    "arguments",
    "sensor_id",
    "result",
    "success",
    "é",
    "a name that is longer than most of them",
    "con:sentiment",
    "fin:risk_scor",
];
const TEXTS: [&str; 20] = [
    "",
    "x",
    "shelf 7",
    "mg:knows",
    "mg:nothing",
    "sensor",
    "senzor",
    "lidar",
    "llm",
    "human",
    "trigger:x",
    "lab:spectrometer",
    "é",
    "e\u{301}",
    "\u{feff}x",
    "本",
    "2026-01-15T10:00:00.5Z",
    "call",
    DID,
    ADDRESS,
];
const TAGS: [&str; 9] = [
    "shelf",
    "pii:email",
    "sec:x",
    "reg:x",
    "phi:name",
    "phi:nobody",
    "profile:healthcare",
    "profile:x",
    "e\u{301}",
];

/// A small generator: the same seed gives the same grains.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn of<'t>(&mut self, all: &[&'t str]) -> &'t str {
        all[self.below(all.len())]
    }

    fn text(&mut self, all: &[&'static str]) -> Value<'static> {
        Value::Str(Cow::Borrowed(self.of(all)))
    }

    fn anything(&mut self, depth: usize) -> Value<'static> {
        match self.below(if depth > 3 { 8 } else { 11 }) {
            0 => Value::Null,
            1 => Value::Bool(self.one_in(2)),
            2 => Value::Int([0, 1, -1, 255, 256, i64::MIN, i64::MAX, 1_768_471_200_000][self.below(8)]),
            3 => Value::UInt(u64::MAX - self.below(2) as u64),
            4 => Value::Float([0.0, -0.0, 0.5, 1.0, 1.5, f64::NAN, f64::INFINITY, f64::MAX][self.below(8)]),
            5 => Value::Bytes(Cow::Borrowed(b"bytes")),
            6 | 7 => self.text(&TEXTS),
            8 => Value::List((0..self.below(3)).map(|_| self.anything(depth + 1)).collect()),
            9 => Value::List((0..self.below(4)).map(|_| self.text(&TAGS)).collect()),
            _ => Value::Map((0..self.below(3)).map(|_| (self.name(), self.anything(depth + 1))).collect()),
        }
    }

    fn name(&mut self) -> Cow<'static, str> {
        const NESTED: [&str; 8] = ["uri", "modality", "hash", "relation_type", "type", "text", "weight", "u"];
        if self.one_in(2) { self.of(&NESTED).into() } else { self.of(&OTHER_NAMES).into() }
    }

    fn good(&mut self, kind: Kind, field: &'static Field) -> Value<'static> {
        match kind {
            Kind::Bool => Value::Bool(self.one_in(2)),
            Kind::Str if !field.one_of.is_empty() => self.text(field.one_of),
            Kind::Str if !field.listed.is_empty() => self.text(field.listed),
            Kind::Str | Kind::Object => Value::Str(format!("text {}", self.below(9)).into()),
            Kind::Bytes => Value::Bytes(Cow::Borrowed(b"bytes")),
            Kind::Int | Kind::Int64 | Kind::UInt8 | Kind::Number => Value::Int(self.below(3) as i64),
            Kind::Float64 if self.one_in(4) => Value::Int(1),
            Kind::Float64 => Value::Float(0.25),
            Kind::Datetime => Value::Int(1_768_471_200_000 + self.below(9) as i64),
            Kind::Address => Value::Str(ADDRESS.into()),
            Kind::Did => Value::Str(DID.into()),
            Kind::Map | Kind::MapOfStr => Value::Map(vec![("k".into(), Value::Str("v".into()))]),
            Kind::Array(Kind::Map) if field.nested.is_some() => Value::List(vec![self.nested(field)]),
            Kind::Array(item) => {
                Value::List((0..1 + self.below(3)).map(|_| self.good(*item, field)).collect())
            }
            Kind::Any => self.anything(2),
        }
    }

    fn nested(&mut self, field: &'static Field) -> Value<'static> {
        let rows = field.nested.map_or(&[][..], |table| table.0);
        Value::Map(rows.iter().map(|row| (row.name.into(), self.good(row.kind, row))).collect())
    }

    /// The names of a grain of a type, mostly of a valid one.
    pub(crate) fn shape(&mut self, of: &'static GrainType) -> Vec<Cow<'static, str>> {
        let mut ids: Vec<u8> = of.required.to_vec();
        if !of.required_any.is_empty() {
            ids.extend(of.required_any[self.below(of.required_any.len())]);
        }
        if of.name == "action" {
            let phase = &PHASES[self.below(PHASES.len())];
            ids.extend(phase.required);
            ids.extend(phase.required_any.first().copied().unwrap_or_default());
        }
        let mut names: Vec<Cow<'static, str>> = vec!["type".into(), "created_at".into()];
        names.extend(ids.iter().map(|id| Cow::Borrowed(field(*id).name)));
        for _ in 0..self.below(7) {
            names.push(Cow::Borrowed(FIELDS[self.below(FIELDS.len())].name));
        }
        if self.one_in(3) {
            names.push(self.of(&OTHER_NAMES).into());
        }
        if self.one_in(12) {
            names.remove(self.below(names.len()));
        }
        for i in (1..names.len()).rev() {
            names.swap(i, self.below(i + 1));
        }
        if !self.one_in(30) {
            let all = names.clone();
            let mut i = 0;
            names.retain(|name| {
                i += 1;
                !all[..i - 1].contains(name)
            });
        }
        names
    }

    pub(crate) fn grain(&mut self, of: &'static GrainType, names: &[Cow<'static, str>]) -> Fields {
        let old = of.legacy.first().copied().unwrap_or(of.name);
        let type_name = if self.one_in(4) { old } else { of.name };
        let value = |rng: &mut Rng, name: &str| match FIELDS.iter().find(|f| f.name == name) {
            _ if rng.one_in(60) => rng.anything(0),
            _ if name == "type" => Value::Str(type_name.into()),
            Some(_) if rng.one_in(40) => Value::Null,
            Some(f) => {
                let row = if name == "content" && of.name == "action" { &FIELDS[107] } else { f };
                rng.good(row.kind, row)
            }
            None => rng.anything(0),
        };
        names.iter().map(|name| (name.clone(), value(self, name))).collect()
    }
}

/// The general code.
fn general(grain: &Value<'_>, options: &Options) -> Option<(Vec<u8>, Vec<String>)> {
    let (mut out, mut warnings) = (vec![7; 3], Vec::new());
    encode_into(&grain, options, &mut out, &mut warnings).ok()?;
    Some((out, warnings))
}

/// Whether the shape cache accepted; if so, the general code agreed.
fn same(cache: &mut ShapeCache, grain: &Value<'_>, options: &Options) -> bool {
    let mut out = vec![7; 3];
    if !cache.encode(&grain, options, &mut out) {
        assert_eq!(out, [7; 3], "what is declined leaves nothing");
        return false;
    }
    assert_eq!(general(grain, options), Some((out, Vec::new())), "{grain:?}");
    true
}

pub(crate) fn options(rng: &mut Rng) -> Options {
    let profiles: [Profile; 5] =
        [EXTENDED, EXTENDED, STANDARD, LIGHTWEIGHT, Profile { max_depth: 1, ..EXTENDED }];
    Options {
        encoding: if rng.one_in(2) { Encoding::Msgpack } else { Encoding::Cbor },
        compress: rng.one_in(20),
        sensitivity: rng.below(4) as u8,
        keep_type_name: rng.one_in(3),
        type_byte: rng.one_in(20).then(|| rng.below(20) as u8),
        profile: profiles[rng.below(profiles.len())],
    }
}

#[test]
fn random_grains_of_every_type() {
    let (mut rng, mut long) = (Rng(1), ShapeCache::default());
    for of in &TYPES {
        let (mut accepted, mut taken) = (0, 0);
        for _ in 0..400 {
            let (names, options) = (rng.shape(of), options(&mut rng));
            let mut cache = ShapeCache::default();
            for _ in 0..6 {
                let grain = Value::Map(rng.grain(of, &names));
                let general = general(&grain, &options).is_some_and(|(_, warnings)| warnings.is_empty());
                taken += usize::from(general);
                accepted += usize::from(same(&mut cache, &grain, &options));
                same(&mut long, &grain, &options);
            }
        }
        println!("{}: {accepted} of {taken}", of.name);
        assert!(accepted * 3 > taken && accepted > 100, "{}: {accepted} of {taken}", of.name);
    }
    assert_eq!(long.plans(), 8);
}

fn map(fields: &[(&'static str, Value<'static>)]) -> Value<'static> {
    Value::Map(fields.iter().map(|(name, value)| (Cow::Borrowed(*name), value.clone())).collect())
}

fn str(text: &'static str) -> Value<'static> {
    Value::Str(text.into())
}

#[test]
fn the_grains_that_are_measured() {
    let (time, mg) = (Value::Int(1_768_471_200_000), str("mg:perceives"));
    let standard = map(&[
        ("type", str("belief")),
        ("subject", str("robot-1")),
        ("relation", mg.clone()),
        ("object", str("shelf 1 has 1 boxes")),
        ("confidence", Value::Float(0.93)),
        ("source_type", str("sensor")),
        ("created_at", time.clone()),
        ("namespace", str("warehouse:zone-3")),
        ("author_did", str(DID)),
        ("importance", Value::Float(0.5)),
        ("structural_tags", Value::List(vec![str("inventory"), str("shelf")])),
        ("user_id", str("u1")),
    ]);
    let event = map(&[
        ("type", str("event")),
        ("content", str("Ein Satz, который 終わる 🙂")),
        ("role", str("user")),
        ("session_id", str("session-1")),
        ("created_at", time.clone()),
        ("namespace", str("shared")),
        ("user_id", str("u1")),
    ]);
    let sensor = map(&[
        ("type", str("belief")),
        ("subject", str("probe-1")),
        ("relation", mg),
        ("object", str("21.0 C")),
        ("confidence", Value::Float(0.5)),
        ("created_at", time),
        ("namespace", str("lab")),
    ]);
    for encoding in [Encoding::Msgpack, Encoding::Cbor] {
        let (options, mut cache) = (Options { encoding, ..Options::default() }, ShapeCache::default());
        for grain in [&standard, &event, &sensor, &standard, &event, &sensor] {
            assert!(same(&mut cache, grain, &options));
        }
        assert_eq!(cache.plans(), 3);
    }
}

#[test]
fn many_shapes_hold_no_memory() {
    let mut cache = ShapeCache::default();
    for i in 0..100_000 {
        let own = Cow::Owned(format!("lab:{i}"));
        let grain = vec![
            ("type".into(), str("state")),
            ("created_at".into(), Value::Int(1)),
            ("context".into(), Value::Map(Vec::new())),
            (own, Value::Bool(true)),
        ];
        cache.encode(&&Value::Map(grain), &Options::default(), &mut Vec::new());
    }
    assert_eq!(cache.plans(), 8);
}
