// SPDX-License-Identifier: Apache-2.0
//! The rows of registry.toml. A derive of serde would add a Rust parser to each build, so this file
//! checks each key itself.

use toml::{Table, Value};

pub struct Registry {
    pub related_to_relation_types: Vec<String>,
    pub mg_relations: Vec<String>,
    pub phi_tags: Vec<String>,
    pub invalidation_modes: Vec<String>,
    pub lightweight: Vec<String>,
    pub open_licenses: Vec<String>,
    pub types: Vec<GrainType>,
    pub phases: Vec<Phase>,
    pub fields: Vec<Field>,
    pub nested: Vec<(String, Vec<Field>)>,
    pub aliases: Vec<Alias>,
    pub profiles: Vec<Profile>,
}

pub struct GrainType {
    pub byte: u8,
    pub name: String,
    pub legacy: Vec<String>,
    pub later: Vec<String>,
    pub required: Vec<String>,
    pub non_empty: Vec<String>,
    pub required_any: Vec<Vec<String>>,
}

pub struct Phase {
    pub name: String,
    pub execution_mode: String,
    pub required: Vec<String>,
    pub required_any: Vec<Vec<String>>,
    pub forbidden: Vec<String>,
}

pub struct Field {
    pub name: String,
    pub short: String,
    pub kind: String,
    pub scope: String,
    pub min: Option<f64>,
    pub max: Option<f64>,
    pub one_of: Vec<String>,
    pub one_of_int: Vec<i64>,
    pub listed: Vec<String>,
    pub keys: Vec<(String, String)>,
    pub required: bool,
    pub index_layer: bool,
    pub supersede_only: bool,
    pub elidable: bool,
    pub nested: Option<String>,
}

pub struct Alias {
    pub old: Vec<String>,
    pub name: String,
    pub of: String,
    pub negate: bool,
}

pub struct Profile {
    pub name: String,
    pub prefix: String,
    pub fields: Vec<Field>,
}

/// The value of a key, if it is present.
fn maybe<'t, T>(table: &'t Table, key: &str, of: impl Fn(&'t Value) -> Option<T>) -> Option<T> {
    table.get(key).map(|value| of(value).unwrap_or_else(|| panic!("registry.toml: {key} = {value}")))
}

fn must<'t, T>(table: &'t Table, key: &str, of: impl Fn(&'t Value) -> Option<T>) -> T {
    maybe(table, key, of).unwrap_or_else(|| panic!("registry.toml: no {key} in {table}"))
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn byte(value: &Value) -> Option<u8> {
    value.as_integer()?.try_into().ok()
}

fn number(value: &Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64))
}

fn list<'t, T>(of: impl Fn(&'t Value) -> Option<T>) -> impl Fn(&'t Value) -> Option<Vec<T>> {
    move |value| value.as_array()?.iter().map(&of).collect()
}

fn entries<'t, T>(of: impl Fn(&'t Value) -> Option<T>) -> impl Fn(&'t Value) -> Option<Vec<(String, T)>> {
    move |value| value.as_table()?.iter().map(|(key, value)| Some((key.clone(), of(value)?))).collect()
}

fn texts(table: &Table, key: &str) -> Vec<String> {
    maybe(table, key, list(text)).unwrap_or_default()
}

fn groups_of(table: &Table) -> Vec<Vec<String>> {
    maybe(table, "required_any", list(list(text))).unwrap_or_default()
}

fn flag(table: &Table, key: &str) -> Option<bool> {
    maybe(table, key, Value::as_bool)
}

fn grain_type(value: &Value) -> Option<GrainType> {
    let table = value.as_table()?;
    Some(GrainType {
        byte: must(table, "byte", byte),
        name: must(table, "name", text),
        legacy: texts(table, "legacy"),
        later: texts(table, "later"),
        required: must(table, "required", list(text)),
        non_empty: texts(table, "non_empty"),
        required_any: groups_of(table),
    })
}

fn phase(value: &Value) -> Option<Phase> {
    let table = value.as_table()?;
    Some(Phase {
        name: must(table, "name", text),
        execution_mode: maybe(table, "execution_mode", text).unwrap_or_default(),
        required: must(table, "required", list(text)),
        required_any: groups_of(table),
        forbidden: texts(table, "forbidden"),
    })
}

fn row(value: &Value) -> Option<Field> {
    let table = value.as_table()?;
    Some(Field {
        name: must(table, "name", text),
        short: maybe(table, "short", text).unwrap_or_default(),
        kind: must(table, "type", text),
        scope: maybe(table, "scope", text).unwrap_or_default(),
        min: maybe(table, "min", number),
        max: maybe(table, "max", number),
        one_of: texts(table, "enum"),
        one_of_int: maybe(table, "enum_int", list(Value::as_integer)).unwrap_or_default(),
        listed: texts(table, "open_enum"),
        keys: maybe(table, "keys", entries(text)).unwrap_or_default(),
        required: flag(table, "required").unwrap_or(false),
        index_layer: flag(table, "index_layer").unwrap_or(false),
        supersede_only: flag(table, "supersede_only").unwrap_or(false),
        elidable: flag(table, "elidable").unwrap_or(true),
        nested: maybe(table, "nested", text),
    })
}

fn alias(value: &Value) -> Option<Alias> {
    let table = value.as_table()?;
    Some(Alias {
        old: must(table, "old", list(text)),
        name: must(table, "name", text),
        of: must(table, "type", text),
        negate: flag(table, "negate").unwrap_or(false),
    })
}

fn profile(value: &Value) -> Option<Profile> {
    let table = value.as_table()?;
    Some(Profile {
        name: must(table, "name", text),
        prefix: must(table, "prefix", text),
        fields: must(table, "fields", list(row)),
    })
}

/// All rows.
pub fn registry(table: &Table) -> Registry {
    let all = |key| must(table, key, Value::as_table);
    Registry {
        related_to_relation_types: must(table, "related_to_relation_types", list(text)),
        mg_relations: must(table, "mg_relations", list(text)),
        phi_tags: must(table, "phi_tags", list(text)),
        invalidation_modes: must(table, "invalidation_modes", list(text)),
        lightweight: must(table, "lightweight", list(text)),
        open_licenses: must(table, "open_licenses", list(text)),
        types: must(table, "type", list(grain_type)),
        phases: must(table, "phase", list(phase)),
        fields: must(all("fields"), "all", list(row)),
        nested: must(table, "nested", entries(list(row))),
        aliases: must(all("aliases"), "all", list(alias)),
        profiles: must(table, "profile", list(profile)),
    }
}
