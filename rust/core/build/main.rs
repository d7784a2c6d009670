// SPDX-License-Identifier: Apache-2.0
//! Builds the library's tables from registry.toml and from Unicode.
#![allow(clippy::expect_used, clippy::panic)] // a broken table must stop the build

use std::{env, fs, path::Path};

mod letters;
#[path = "../src/perfect.rs"]
mod perfect;
mod registry;
mod rows;

const REGISTRY: &str = "registry.toml";

fn main() {
    for source in [REGISTRY, "src/perfect.rs", "build"] {
        println!("cargo:rerun-if-changed={source}");
    }
    let (tables, json) = registry::read(REGISTRY);
    let out = env::var_os("OUT_DIR").expect("OUT_DIR");
    for (name, text) in [("registry.rs", tables), ("registry.json", json), ("letters.rs", letters::tables())]
    {
        fs::write(Path::new(&out).join(name), text).expect(name);
    }
}
