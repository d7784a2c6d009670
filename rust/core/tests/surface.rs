// SPDX-License-Identifier: Apache-2.0
//! The public API of the crate: eight names, and no module.

const ROOT: &str = include_str!("../src/lib.rs");

#[test]
fn eight_names_and_no_module() {
    let lines: Vec<&str> = ROOT.lines().collect();
    let shown: Vec<&str> = lines
        .windows(2)
        .filter(|pair| pair[1].starts_with("pub ") && pair[0] != "#[doc(hidden)]")
        .map(|pair| pair[1])
        .collect();
    assert!(shown.iter().all(|line| line.starts_with("pub use ")), "{shown:?}");
    let words = shown.iter().flat_map(|line| line.split(|c: char| !c.is_alphanumeric()));
    let mut names: Vec<&str> = words
        .filter(|word| word.starts_with(char::is_uppercase) || ["decode", "encode", "verify"].contains(word))
        .collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names, ["Address", "Error", "Grain", "Options", "Value", "decode", "encode", "verify"]);
}
