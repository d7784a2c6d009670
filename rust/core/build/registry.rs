// SPDX-License-Identifier: Apache-2.0
//! Turns registry.toml into static tables with perfect hashes, and into JSON for Python.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use serde::Deserialize;

use crate::perfect;

#[derive(Deserialize)]
struct Registry {
    related_to_relation_types: Vec<String>,
    mg_relations: Vec<String>,
    phi_tags: Vec<String>,
    invalidation_modes: Vec<String>,
    lightweight: Vec<String>,
    open_licenses: Vec<String>,
    r#type: Vec<GrainType>,
    phase: Vec<Phase>,
    fields: All<Field>,
    nested: BTreeMap<String, Vec<Field>>,
    aliases: All<Alias>,
    profile: Vec<Profile>,
}

#[derive(Deserialize)]
struct All<T> {
    all: Vec<T>,
}

#[derive(Deserialize)]
struct GrainType {
    byte: u8,
    name: String,
    #[serde(default)]
    legacy: Vec<String>,
    #[serde(default)]
    later: Vec<String>,
    required: Vec<String>,
    #[serde(default)]
    non_empty: Vec<String>,
    #[serde(default)]
    required_any: Vec<Vec<String>>,
}

#[derive(Deserialize)]
struct Phase {
    name: String,
    execution_mode: Option<String>,
    required: Vec<String>,
    #[serde(default)]
    required_any: Vec<Vec<String>>,
    #[serde(default)]
    forbidden: Vec<String>,
}

#[derive(Deserialize)]
struct Field {
    name: String,
    #[serde(default)]
    short: String,
    r#type: String,
    #[serde(default)]
    scope: String,
    min: Option<f64>,
    max: Option<f64>,
    #[serde(default)]
    r#enum: Vec<String>,
    #[serde(default)]
    enum_int: Vec<i64>,
    #[serde(default)]
    open_enum: Vec<String>,
    #[serde(default)]
    keys: BTreeMap<String, String>,
    #[serde(default)]
    required: bool,
    #[serde(default)]
    index_layer: bool,
    #[serde(default)]
    supersede_only: bool,
    #[serde(default = "yes")]
    elidable: bool,
    nested: Option<String>,
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
struct Alias {
    old: Vec<String>,
    name: String,
    r#type: String,
    #[serde(default)]
    negate: bool,
}

#[derive(Deserialize)]
struct Profile {
    name: String,
    prefix: String,
    fields: Vec<Field>,
}

/// What the library includes: static tables, and the registry as JSON.
pub fn read(path: &str) -> (String, String) {
    let text = fs::read_to_string(path).expect("registry.toml");
    let mut registry: Registry = toml::from_str(&text).expect("registry.toml is not the table we know");
    for field in registry.nested.get_mut("related_to").into_iter().flatten() {
        if field.name == "relation_type" {
            field.r#enum.clone_from(&registry.related_to_relation_types);
        }
    }
    let whole: toml::Table = toml::from_str(&text).expect("registry.toml");
    (tables(&registry), serde_json::to_string(&whole).expect("registry as JSON"))
}

/// The constant of a field: `content` of an action is a field of its own.
fn ident(field: &Field) -> String {
    let name = field.name.trim_start_matches('_').to_uppercase();
    if field.name == "content" && field.scope == "action" { name + "_ACTION" } else { name }
}

fn kind(name: &str) -> String {
    match name {
        "any" => "Kind::Any".into(),
        "bool" => "Kind::Bool".into(),
        "string" => "Kind::Str".into(),
        "bytes" => "Kind::Bytes".into(),
        "int" => "Kind::Int".into(),
        "int64" => "Kind::Int64".into(),
        "uint8" => "Kind::UInt8".into(),
        "float64" => "Kind::Float64".into(),
        "number" => "Kind::Number".into(),
        "datetime" | "int64 epoch ms" => "Kind::Datetime".into(),
        "address" => "Kind::Address".into(),
        "did" => "Kind::Did".into(),
        "map" => "Kind::Map".into(),
        "map[string]" => "Kind::MapOfStr".into(),
        "object" => "Kind::Object".into(),
        _ => match name.strip_prefix("array[").and_then(|n| n.strip_suffix(']')) {
            Some(item) => format!("Kind::Array(&{})", kind(item)),
            None => panic!("registry.toml: unknown kind {name:?}"),
        },
    }
}

fn strings(list: &[String]) -> String {
    format!("&{list:?}")
}

fn ids(list: &[String]) -> String {
    let names: Vec<String> =
        list.iter().map(|n| format!("id::{}", n.trim_start_matches('_').to_uppercase())).collect();
    format!("&[{}]", names.join(", "))
}

fn groups(list: &[Vec<String>]) -> String {
    format!("&[{}]", list.iter().map(|g| ids(g)).collect::<Vec<_>>().join(", "))
}

/// The rules of the phases speak of an action's own `content`.
fn of_action(ids: String) -> String {
    ids.replace("id::CONTENT", "id::CONTENT_ACTION")
}

fn field(f: &Field) -> String {
    let keys: Vec<String> = f.keys.iter().map(|(k, v)| format!("({k:?}, {})", kind(v))).collect();
    let nested = match f.nested.as_deref() {
        Some(name) => format!("Some(&NESTED_{})", name.to_uppercase()),
        None => "None".into(),
    };
    format!(
        "Field {{ name: {:?}, short: {:?}, kind: {}, min: {:?}, max: {:?}, one_of: {}, one_of_int: &{:?}, \
         listed: {}, keys: &[{}], required: {}, index_layer: {}, supersede_only: {}, elidable: {}, nested: {} }}",
        f.name,
        f.short,
        kind(&f.r#type),
        f.min,
        f.max,
        strings(&f.r#enum),
        f.enum_int,
        strings(&f.open_enum),
        keys.join(", "),
        f.required,
        f.index_layer,
        f.supersede_only,
        f.elidable,
        nested
    )
}

fn tables(r: &Registry) -> String {
    let mut out = String::new();
    let w = &mut out;
    for (name, list) in [
        ("RELATED_TO_RELATION_TYPES", &r.related_to_relation_types),
        ("MG_RELATIONS", &r.mg_relations),
        ("PHI_TAGS", &r.phi_tags),
        ("INVALIDATION_MODES", &r.invalidation_modes),
        ("OPEN_LICENSES", &r.open_licenses),
    ] {
        let _ = writeln!(w, "/// See registry.toml.\npub static {name}: &[&str] = {};", strings(list));
    }
    let _ = writeln!(
        w,
        "/// The fields of a lightweight grain.\npub static LIGHTWEIGHT: &[u8] = {};",
        ids(&r.lightweight)
    );
    let _ = writeln!(w, "/// The place of each field in `FIELDS`.\n#[allow(missing_docs)]\npub mod id {{");
    for (i, f) in r.fields.all.iter().enumerate() {
        let _ = writeln!(w, "pub const {}: u8 = {i};", ident(f));
    }
    let _ =
        writeln!(w, "}}\n/// How many fields there are.\npub const COUNT: usize = {};", r.fields.all.len());
    for (name, fields) in &r.nested {
        let rows: Vec<String> = fields.iter().map(field).collect();
        let _ = writeln!(
            w,
            "/// Entries of this nested table.\npub static NESTED_{}: Nested = Nested(&[{}]);",
            name.to_uppercase(),
            rows.join(",\n")
        );
    }
    let rows: Vec<String> = r.fields.all.iter().map(field).collect();
    let _ = writeln!(w, "/// Every field.\npub static FIELDS: [Field; COUNT] = [\n{}];", rows.join(",\n"));
    let _ = writeln!(
        w,
        "/// The ten grain types, by their byte less one.\npub static TYPES: [GrainType; {}] = [",
        r.r#type.len()
    );
    for (i, t) in r.r#type.iter().enumerate() {
        assert_eq!(usize::from(t.byte), i + 1, "types stand in the order of their bytes");
        let _ = writeln!(
            w,
            "GrainType {{ byte: {}, name: {:?}, legacy: {}, later: {}, required: {}, non_empty: {}, required_any: {} }},",
            t.byte,
            t.name,
            strings(&t.legacy),
            strings(&t.later),
            ids(&t.required),
            ids(&t.non_empty),
            groups(&t.required_any)
        );
    }
    let _ = writeln!(
        w,
        "];\n/// What an action needs, by phase.\npub static PHASES: [Phase; {}] = [",
        r.phase.len()
    );
    for p in &r.phase {
        let _ = writeln!(
            w,
            "Phase {{ name: {:?}, execution_mode: {:?}, required: {}, required_any: {}, forbidden: {} }},",
            p.name,
            p.execution_mode.as_deref().unwrap_or(""),
            of_action(ids(&p.required)),
            of_action(groups(&p.required_any)),
            of_action(ids(&p.forbidden))
        );
    }
    let _ = writeln!(w, "];\n/// 1.1 field names.\npub static ALIASES: &[Alias] = &[");
    for a in &r.aliases.all {
        let byte = r.r#type.iter().find(|t| t.name == a.r#type).expect("alias type").byte;
        let target =
            r.fields.all.iter().find(|f| f.name == a.name && (f.name != "content" || f.scope == a.r#type));
        let target = ident(target.expect("alias target"));
        let _ = writeln!(
            w,
            "Alias {{ old: {}, field: id::{target}, type_byte: {byte}, negate: {} }},",
            strings(&a.old),
            a.negate
        );
    }
    let _ = writeln!(w, "];\n/// The domain profiles.\npub static PROFILES: &[Profile] = &[");
    for p in &r.profile {
        let rows: Vec<String> = p.fields.iter().map(field).collect();
        let _ = writeln!(
            w,
            "Profile {{ name: {:?}, prefix: {:?}, fields: &[\n{}] }},",
            p.name,
            p.prefix,
            rows.join(",\n")
        );
    }
    let _ = writeln!(w, "];");
    // `content` of an action is found by its type, not by the hash.
    let plain: Vec<(usize, &Field)> =
        r.fields.all.iter().enumerate().filter(|(_, f)| ident(f) != "CONTENT_ACTION").collect();
    for (name, keys) in [
        ("FULL", plain.iter().map(|(i, f)| (*i, f.name.as_str())).collect::<Vec<_>>()),
        ("SHORT", plain.iter().map(|(i, f)| (*i, f.short.as_str())).collect()),
    ] {
        let (seed, slots) = perfect_table(&keys);
        let _ = writeln!(w, "pub(crate) static {name}_SEED: u64 = {seed};");
        let _ = writeln!(w, "pub(crate) static {name}_SLOTS: [u8; {}] = {slots:?};", slots.len());
    }
    out
}

/// Searches a seed under which no two keys share a slot.
fn perfect_table(keys: &[(usize, &str)]) -> (u64, Vec<u8>) {
    assert!(keys.len() < 255, "field ids are bytes");
    'seed: for seed in 1..1_000_000u64 {
        let seed = seed.wrapping_mul(0x2545_f491_4f6c_dd1d);
        let mut slots = vec![255u8; perfect::SLOTS];
        for (id, key) in keys {
            let at = perfect::slot(key.as_bytes(), seed);
            if slots[at] != 255 {
                continue 'seed;
            }
            slots[at] = *id as u8;
        }
        return (seed, slots);
    }
    panic!("no seed keeps the field names apart");
}
