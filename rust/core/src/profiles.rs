// SPDX-License-Identifier: Apache-2.0
//! The requirements of a grain's tags: sensitivity, and domain profiles. Spec: OMS §13, domain
//! profiles

use alloc::{borrow::ToOwned as _, string::String, vec::Vec};
use smallvec::SmallVec;

use crate::fields::Fields;
use crate::registry::{self, PROFILES, Profile, UNKNOWN, id};
use crate::value::{Node, View};
use crate::{Code, Error, Result};

/// The facts from structural_tags.
#[derive(Debug, Default)]
pub struct Tags {
    /// The least sensitivity of the header.
    pub sensitivity: u8,
    /// Whether there is a `phi:` tag.
    pub phi: bool,
    /// Declared profiles.
    pub profiles: SmallVec<[&'static Profile; 2]>,
    /// Unknown names after `phi:` or `profile:`.
    pub unknown: Vec<String>,
}

const PII: u8 = 2;
const PHI: u8 = 3;

/// Reads structural_tags.
///
/// # Errors
/// Those of the source.
pub fn read_tags<K: AsRef<str>, N: Node>(fields: &Fields<K, N>) -> Result<Tags> {
    let mut tags = Tags::default();
    let Some(entry) = fields.get(id::STRUCTURAL_TAGS) else { return Ok(tags) };
    let read = entry.node.each_item(&mut |item| {
        if let View::Str(tag) = item.view()? {
            tags.read(tag);
        }
        Ok(())
    });
    read.map_err(|e| entry.place(e))?;
    Ok(tags)
}

/// The sensitivity that a tag with this prefix requires.
pub(crate) fn level(prefix: &str) -> u8 {
    match prefix {
        "phi" => PHI,
        "pii" | "sec" | "legal" => PII,
        "reg" => 1,
        _ => 0,
    }
}

impl Tags {
    fn read(&mut self, tag: &str) {
        let Some((prefix, name)) = tag.split_once(':') else { return };
        self.sensitivity = self.sensitivity.max(level(prefix));
        if prefix == "phi" {
            self.phi = true;
            if !registry::PHI_TAGS.contains(&name) {
                self.unknown.push("structural_tags: a phi: tag that is not known".to_owned());
            }
        } else if prefix == "profile" {
            match PROFILES.iter().find(|p| p.name == name) {
                Some(profile) => self.profiles.push(profile),
                None => self.unknown.push("structural_tags: a profile: tag that is not known".to_owned()),
            }
        }
    }
}

/// Sets the rules of declared profiles for their fields.
pub fn apply<K: AsRef<str>, N: Node>(fields: &mut Fields<K, N>, tags: &Tags) {
    for profile in &tags.profiles {
        for entry in fields.entries.iter_mut().filter(|e| e.id == UNKNOWN) {
            let key = entry.key.as_str();
            if key.starts_with(profile.prefix) {
                entry.field = profile.fields.iter().find(|f| f.name == key);
            }
        }
    }
}

/// The rules for writing a grain. Rules about export are checked at export. An elided field counts
/// as present.
///
/// # Errors
/// `ERR_SCHEMA`.
pub fn check<K: AsRef<str>, N: Node>(fields: &Fields<K, N>, tags: &Tags, elided: &[u8]) -> Result<()> {
    if !tags.profiles.iter().any(|p| p.name == "healthcare") {
        return Ok(());
    }
    let basis = fields.get(id::PROCESSING_BASIS).is_some() || elided.contains(&id::PROCESSING_BASIS);
    if tags.phi && !basis {
        return Err(Error::new(Code::Schema, "health information needs a processing_basis")
            .in_key("processing_basis"));
    }
    let Some(license) = fields.text(id::LICENSE)? else { return Ok(()) };
    let open = registry::OPEN_LICENSES.iter().any(|known| match known.strip_suffix('-') {
        Some(_) => license.starts_with(known),
        None => license == *known,
    });
    if open {
        return Err(Error::new(Code::Schema, "an open licence is not allowed for health information")
            .in_key("license"));
    }
    Ok(())
}
