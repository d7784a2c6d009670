// SPDX-License-Identifier: Apache-2.0
//! Turns registry.toml into static tables with perfect hashes, and into JSON for Python.

use std::fmt::Write as _;
use std::fs;

use toml::Table;

use crate::perfect;
use crate::rows::{Field, Registry, registry};

/// The generated parts of the library: static tables, and the registry as JSON.
pub fn read(path: &str) -> (String, String) {
    let text = fs::read_to_string(path).expect("registry.toml");
    let whole: Table = text.parse().expect("registry.toml");
    let mut registry = registry(&whole);
    for field in
        registry.nested.iter_mut().filter(|(name, _)| name == "related_to").flat_map(|(_, rows)| rows)
    {
        if field.name == "relation_type" {
            field.one_of.clone_from(&registry.related_to_relation_types);
        }
    }
    (tables(&registry), serde_json::to_string(&whole).expect("registry as JSON"))
}

/// The constant of a field: `content` of an action is a separate field.
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

/// The rules of the phases use the separate `content` of an action.
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
        kind(&f.kind),
        f.min,
        f.max,
        strings(&f.one_of),
        f.one_of_int,
        strings(&f.listed),
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
    for (i, f) in r.fields.iter().enumerate() {
        let _ = writeln!(w, "pub const {}: u8 = {i};", ident(f));
    }
    let _ = writeln!(w, "}}\n/// How many fields there are.\npub const COUNT: usize = {};", r.fields.len());
    for (name, fields) in &r.nested {
        let rows: Vec<String> = fields.iter().map(field).collect();
        let _ = writeln!(
            w,
            "/// Entries of this nested table.\npub static NESTED_{}: Nested = Nested(&[{}]);",
            name.to_uppercase(),
            rows.join(",\n")
        );
    }
    let rows: Vec<String> = r.fields.iter().map(field).collect();
    let _ = writeln!(w, "/// Every field.\npub static FIELDS: [Field; COUNT] = [\n{}];", rows.join(",\n"));
    let _ = writeln!(
        w,
        "/// The ten grain types, by their byte less one.\npub static TYPES: [GrainType; {}] = [",
        r.types.len()
    );
    for (i, t) in r.types.iter().enumerate() {
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
        r.phases.len()
    );
    for p in &r.phases {
        let _ = writeln!(
            w,
            "Phase {{ name: {:?}, execution_mode: {:?}, required: {}, required_any: {}, forbidden: {} }},",
            p.name,
            p.execution_mode,
            of_action(ids(&p.required)),
            of_action(groups(&p.required_any)),
            of_action(ids(&p.forbidden))
        );
    }
    let _ = writeln!(w, "];\n/// 1.1 field names.\npub static ALIASES: &[Alias] = &[");
    for a in &r.aliases {
        let byte = r.types.iter().find(|t| t.name == a.of).expect("alias type").byte;
        let target = r.fields.iter().find(|f| f.name == a.name && (f.name != "content" || f.scope == a.of));
        let target = ident(target.expect("alias target"));
        let _ = writeln!(
            w,
            "Alias {{ old: {}, field: id::{target}, type_byte: {byte}, negate: {} }},",
            strings(&a.old),
            a.negate
        );
    }
    let _ = writeln!(w, "];\n/// The domain profiles.\npub static PROFILES: &[Profile] = &[");
    for p in &r.profiles {
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
        r.fields.iter().enumerate().filter(|(_, f)| ident(f) != "CONTENT_ACTION").collect();
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

/// Searches for a seed under which no two keys share a slot.
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
