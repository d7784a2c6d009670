// SPDX-License-Identifier: Apache-2.0
//! The index rows of a grain: a pure function of its blob, so that rebuilding an index is a loop.
//!
//! A row is a key, which contains a term, and a value, which is the place of one grain under it:
//!
//! ```text
//! key    kind, one byte ++ the term: its UTF-8 if short, else a marker and a hash
//! value  created_at in ms, 6 bytes ++ complement of the address's first 6 bytes ++ sequence, 4
//! ```
//!
//! Read backwards, the values of a key are the grains with that term, newest first and then by
//! address. The value of a grain is the same under all its keys, so one look-up answers whether it
//! is under another term too.

use alloc::vec::Vec;

use jiter::JsonValue;
use smallvec::SmallVec;

use crate::address::{Digest, is_address};
use crate::codec::msgpack::Msgpack;
use crate::codec::{EXTENDED, Limits};
use crate::fingerprint::Fingerprint;
use crate::header::{ENCRYPTED, Header, LEN};
use crate::indexed_paths::IndexedPaths;
use crate::registry::id;
use crate::value::{Node, Value, View};
use crate::{Code, Error, Result, codec, decode, extent, fingerprint, json, registry, text};

/// Bytes of a value.
pub const VALUE: usize = 16;
/// A place of a grain under a term.
pub type Place = [u8; VALUE];
/// The bytes of a key.
pub type Key = SmallVec<[u8; 48]>;

/// The longest term that is stored in a key as it is; longer ones are hashed.
const INLINE: usize = 40;
/// Namespaces are stored as they are, for queries by prefix; LMDB's keys end at 511 bytes.
const INLINE_NAMESPACE: usize = 480;
/// Marks a hashed string; no UTF-8 begins with it.
const HASHED: u8 = 0xff;
/// Marks the hash of a value other than a string, in MessagePack.
const HASHED_VALUE: u8 = 0xfe;

/// The kind of a term; the byte begins its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
#[repr(u8)]
pub enum Kind {
    /// Every readable grain, under one key without a term.
    All = b'a',
    /// Every sealed grain, under one key without a term, and under its type byte.
    Sealed = b'e',
    /// The type byte.
    Type = b't',
    Namespace = b'n',
    User = b'u',
    Session = b'i',
    Run = b'r',
    Tag = b'g',
    Subject = b's',
    Relation = b'p',
    Object = b'o',
    /// Subject and relation together: the most common query.
    SubjectRelation = b'q',
    /// A grain that this one is derived from.
    Parent = b'd',
    /// The consent or legal basis.
    Basis = b'b',
    /// The same statement, whenever it was made.
    Fingerprint = b'f',
    /// A grain that this one refers to in one of `LINKS`.
    Link = b'l',
    /// The id of a record in a document of another format; the hash of its text.
    Origin = b'x',
    /// A value at an indexed path; the highest byte, so that these rows are the last ones.
    Value = b'z',
}

/// The kinds whose term is one string field.
const STRINGS: [(u8, Kind); 7] = [
    (id::NAMESPACE, Kind::Namespace),
    (id::USER_ID, Kind::User),
    (id::SESSION_ID, Kind::Session),
    (id::RUN_ID, Kind::Run),
    (id::SUBJECT, Kind::Subject),
    (id::RELATION, Kind::Relation),
    (id::PROCESSING_BASIS, Kind::Basis),
];

/// The fields besides derived_from by which links are followed backwards: replies to a message,
/// goals below a goal or waiting for it, the withdrawal of a consent.
const LINKS: [u8; 4] = [id::PARENT_MESSAGE_ID, id::PARENT_GOALS, id::DEPENDS_ON, id::PRIOR_CONSENT];

/// Strings of one grain; most have few.
type Texts<'v> = SmallVec<[&'v str; 8]>;

impl Kind {
    /// The kind by the name of a query's filter.
    pub fn named(name: &str) -> Option<Kind> {
        Some(match name {
            "all" => Kind::All,
            "sealed" => Kind::Sealed,
            "type" => Kind::Type,
            "namespace" => Kind::Namespace,
            "user_id" => Kind::User,
            "session_id" => Kind::Session,
            "run_id" => Kind::Run,
            "tag" => Kind::Tag,
            "subject" => Kind::Subject,
            "relation" => Kind::Relation,
            "object" => Kind::Object,
            "subject relation" => Kind::SubjectRelation,
            "derived_from" => Kind::Parent,
            "processing_basis" => Kind::Basis,
            "fingerprint" => Kind::Fingerprint,
            "link" => Kind::Link,
            "origin" => Kind::Origin,
            _ => return None,
        })
    }

    /// The key of a string term.
    pub fn of_str(self, term: &str) -> Key {
        let most = if self == Kind::Namespace { INLINE_NAMESPACE } else { INLINE };
        let mut key = Key::from_slice(&[self as u8]);
        if term.len() <= most {
            key.extend_from_slice(term.as_bytes());
        } else {
            push_hash(&mut key, HASHED, &[term.as_bytes()]);
        }
        key
    }

    /// The key of a term that is not a string, by its canonical MessagePack.
    fn of_packed(self, packed: &[u8]) -> Key {
        let mut key = Key::from_slice(&[self as u8]);
        push_hash(&mut key, HASHED_VALUE, &[packed]);
        key
    }
}

/// The key of a subject with a relation.
pub fn pair(subject: &str, relation: &str) -> Key {
    let mut key = Key::from_slice(&[Kind::SubjectRelation as u8]);
    let len = subject.len() as u32;
    if subject.len() + relation.len() <= INLINE {
        key.push(len as u8); // at most INLINE, so it is never taken for a marker
        key.extend_from_slice(subject.as_bytes());
        key.extend_from_slice(relation.as_bytes());
    } else {
        push_hash(&mut key, HASHED, &[&len.to_be_bytes(), subject.as_bytes(), relation.as_bytes()]);
    }
    key
}

/// The key of the type with this byte.
pub fn of_type(byte: u8) -> Key {
    Key::from_slice(&[Kind::Type as u8, byte])
}

/// The key of a semantic fingerprint.
pub fn of_fingerprint(fingerprint: &Fingerprint) -> Key {
    let mut key = Key::from_slice(&[Kind::Fingerprint as u8]);
    key.extend_from_slice(fingerprint);
    key
}

/// The bits of a fingerprint's second byte that belong to its bucket.
const BUCKET: u8 = 0xc0;

/// The row of a fingerprint in its bucket; None for a key of another kind.
///
/// Fingerprints are random. As keys of their own each would dirty a page of a large store. In one
/// of 1,024 buckets the row is appended behind older ones; bytes of the fingerprint take the place
/// of those of the address.
pub fn bucket(key: &[u8], place: &Place) -> Option<(Key, Place)> {
    let [kind, print @ ..] = key else { return None };
    let print = Fingerprint::try_from(print).ok().filter(|_| *kind == Kind::Fingerprint as u8)?;
    let mut in_bucket = *place;
    in_bucket[6..12].copy_from_slice(&print[2..8]);
    Some((Key::from_slice(&[*kind, print[0], print[1] & BUCKET]), in_bucket))
}

/// The key of all readable grains.
pub fn of_all() -> Key {
    Key::from_slice(&[Kind::All as u8])
}

/// The key of all sealed grains.
pub fn of_sealed() -> Key {
    Key::from_slice(&[Kind::Sealed as u8])
}

/// The key of any term from a user.
///
/// # Errors A term that a grain cannot contain.
pub fn of_node<N: Node>(kind: Kind, node: &N) -> Result<Key> {
    if let View::Str(term) = node.view()? {
        return Ok(kind.of_str(&text::nfc(term)?));
    }
    let mut packed = Vec::new();
    // A float that takes nine bytes here takes three in CBOR.
    let limits = Limits { depth: EXTENDED.max_depth, end: 3 * EXTENDED.max_size };
    codec::write::<Msgpack, N>(&mut packed, node, 2, limits)?;
    Ok(kind.of_packed(&packed))
}

fn push_hash(key: &mut Key, marker: u8, parts: &[&[u8]]) {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(part);
    }
    key.push(marker);
    key.extend_from_slice(&hasher.finalize().as_bytes()[..16]);
}

/// The latest time of a place, in ms; only an opaque grain can have a later one.
const LATEST: i64 = (1 << 47) - 1;

/// The place of a grain under each of its terms. A time before 1970 counts as 1970.
pub fn place(created_at: i64, digest: &Digest, sequence: u32) -> Place {
    let mut out = [0; VALUE];
    out[..6].copy_from_slice(&(created_at.clamp(0, LATEST) as u64).to_be_bytes()[2..]);
    for (to, from) in out[6..12].iter_mut().zip(digest) {
        *to = !from;
    }
    out[12..].copy_from_slice(&sequence.to_be_bytes());
    out
}

/// Calls `row` with every key of a grain, each once, and returns its place. The values at indexed
/// paths have keys too.
///
/// The blob was verified when it was stored. An envelope counts as its inner blob. A sealed grain
/// has only the rows of its header.
///
/// # Errors
/// `ERR_CORRUPT` if the stored bytes are damaged.
pub fn rows(
    blob: &[u8],
    digest: &Digest,
    sequence: u32,
    paths: &IndexedPaths,
    mut row: impl FnMut(Key),
) -> Result<Place> {
    let blob = extent::inner(blob)?;
    let header = Header::read(blob)?;
    if header.has(ENCRYPTED) {
        // Its header shows no more, and it must not count as readable.
        row(of_sealed());
        row(Key::from_slice(&[Kind::Sealed as u8, header.type_byte]));
        return Ok(place(i64::from(header.created_at) * 1000, digest, sequence));
    }
    row(of_all());
    row(of_type(header.type_byte));
    let payload = decode::payload(header, blob)?;
    let entries = header.encoding().read_map(&payload, EXTENDED.max_depth);
    let entries = entries.map_err(|e| e.shifted(LEN))?;
    row(of_fingerprint(&fingerprint::of_entries(header.encoding(), &payload, &entries)?));
    let (mut created_at, mut subject, mut relation) = (0, None, None);
    let mut links = Texts::new();
    for entry in &entries {
        match (registry::by_short(entry.key, 0), &entry.value) {
            (id::CREATED_AT, Value::Int(ms)) => created_at = *ms,
            (id::OBJECT, object) => row(of_node(Kind::Object, &object)?),
            (id::STRUCTURAL_TAGS, Value::List(tags)) => {
                each_once(texts(tags), |tag| row(Kind::Tag.of_str(tag)));
            }
            (id::DERIVED_FROM, Value::List(from)) => {
                each_once(texts(from), |address| row(Kind::Parent.of_str(address)));
            }
            (field, Value::List(named)) if LINKS.contains(&field) => links.extend(texts(named)),
            (field, Value::Str(address)) if LINKS.contains(&field) => links.push(address),
            (field, Value::Str(text)) => {
                let Some((_, kind)) = STRINGS.iter().find(|(id, _)| *id == field) else { continue };
                row(kind.of_str(text));
                match kind {
                    Kind::Subject => subject = Some(text),
                    Kind::Relation => relation = Some(text),
                    _ => {}
                }
            }
            (registry::UNKNOWN, Value::Bytes(source)) if entry.key == SOURCE => {
                for name in source_names(source) {
                    row(of_node(Kind::Origin, &&Value::Str(name.into()))?);
                }
            }
            _ => {}
        }
    }
    if let (Some(subject), Some(relation)) = (subject, relation) {
        row(pair(subject, relation));
    }
    each_once(links, |address| row(Kind::Link.of_str(address)));
    paths.rows(header.type_byte, &entries, sequence, &mut row);
    Ok(place(created_at, digest, sequence))
}

/// The strings of a list.
fn texts<'v>(items: &'v [Value<'_>]) -> Texts<'v> {
    let text = |item: &'v Value<'_>| if let Value::Str(text) = item { Some(text.as_ref()) } else { None };
    items.iter().filter_map(text).collect()
}

/// Sorted, since a hostile grain has thousands.
fn each_once(mut texts: Texts<'_>, visit: impl FnMut(&str)) {
    texts.sort_unstable();
    texts.dedup();
    texts.into_iter().for_each(visit);
}

/// The kind of a filter by its name.
///
/// # Errors
/// `ERR_SCHEMA` for an unknown kind of term.
pub fn kind(name: &str) -> Result<Kind> {
    Kind::named(name).ok_or_else(|| Error::new(Code::Schema, "the kind of term is unknown"))
}

// The origin of a grain: the side channel of what was read from a document of another format.
//
// Its key is not a field of OMS, so every implementation keeps it unchanged. The value is JSON in
// ASCII, as bytes, since text would be converted to NFC: `{"f": format, "k": kind of record, "id":
// the record's own id, "h": SHA-256 of its original text, ...}`.

/// The key of the side channel.
const SOURCE: &str = "x_src";

/// The prefix of a text's hash among the names of a grain.
const SHA256: &str = "sha256:";

/// The names that find a record, each once: the id from its document, and the hash of its text,
/// which finds records with the same text. Empty for any other value.
fn source_names(source: &[u8]) -> SmallVec<[String; 2]> {
    let mut names = SmallVec::new();
    let Ok(JsonValue::Object(entries)) = json::parse(source) else { return names };
    // Of a repeated key the last value counts.
    let text = |name| match entries.iter().rfind(|(key, _)| key == name) {
        Some((_, JsonValue::Str(text))) => Some(text.as_ref()),
        _ => None,
    };
    // No text of a grain begins with a byte order mark, so no query can ask for such an id.
    names.extend(text("id").filter(|id| !id.starts_with('\u{feff}')).map(String::from));
    if let Some(hash) = text("h").filter(|hash| is_address(hash)) {
        let name = format!("{SHA256}{hash}");
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::source_names;

    fn of(source: &str) -> Vec<String> {
        source_names(source.as_bytes()).into_vec()
    }

    #[test]
    fn the_id_of_a_record() {
        assert_eq!(of(r#"{"f":"aimem","k":"chunk","id":"urn:aimem:p:\u00e9"}"#), ["urn:aimem:p:é"]);
        assert_eq!(of(r#"{"id":"a","id":"b"}"#), ["b"]);
        for other in ["", "\0", "[]", "{}", r#"{"id":1}"#, r#"{"id":"a""#, r#"{"id":"\ufeffa"}"#] {
            assert!(of(other).is_empty(), "{other}");
        }
    }

    #[test]
    fn the_hash_of_its_text() {
        let hash = "0123456789abcdef".repeat(4);
        let name = format!("sha256:{hash}");
        assert_eq!(of(&format!(r#"{{"id":"a","h":"{hash}"}}"#)), ["a", name.as_str()]);
        assert_eq!(of(&format!(r#"{{"h":"{hash}","id":1}}"#)), [name.as_str()]);
        assert_eq!(of(&format!(r#"{{"id":"{name}","h":"{hash}"}}"#)), [name.as_str()]);
        for other in [&hash[1..], &format!("{hash}0"), &hash.to_uppercase(), &hash.replace('a', "g")] {
            assert_eq!(of(&format!(r#"{{"id":"a","h":"{other}"}}"#)), ["a"], "{other}");
        }
        assert_eq!(of(r#"{"id":"a","h":7}"#), ["a"]);
    }
}
