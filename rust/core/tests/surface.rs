// SPDX-License-Identifier: Apache-2.0
//! The public API of the crate: fourteen names, and no module.

const ROOT: &str = include_str!("../src/lib.rs");

#[test]
fn fourteen_names_and_no_module() {
    let lines: Vec<&str> = ROOT.lines().collect();
    let shown: Vec<&str> = lines
        .windows(2)
        .filter(|pair| pair[1].starts_with("pub ") && pair[0] != "#[doc(hidden)]")
        .map(|pair| pair[1])
        .collect();
    assert!(shown.iter().all(|line| line.starts_with("pub use ")), "{shown:?}");
    let words = shown.iter().flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_'));
    let mut names: Vec<&str> = words
        .filter(|word| {
            word.starts_with(char::is_uppercase)
                || ["decode", "encode", "mg_size", "verify", "write_mg"].contains(word)
        })
        .collect();
    names.sort_unstable();
    names.dedup();
    let types =
        ["Address", "Belief", "Error", "Grain", "Object", "Observation", "Options", "Refusal", "Value"];
    assert_eq!(names, [&types[..], &["decode", "encode", "mg_size", "verify", "write_mg"]].concat());
}
