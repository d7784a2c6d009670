// SPDX-License-Identifier: Apache-2.0
//! The fields of one grain, by name or by short key, before they are checked and written.

use smallvec::SmallVec;

use crate::codec::WireKey;
use crate::error::shown;
use crate::registry::{self, COUNT, Field, GrainType, UNKNOWN, id};
use crate::value::{Node, View};
use crate::{Code, Error, Result, warn};
use alloc::string::String;

/// The direction: fields from a user, or from a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Side {
    Write,
    Read,
}

/// One field.
#[derive(Debug)]
pub struct Entry<K, N> {
    /// The key in the payload.
    pub key: WireKey<K>,
    /// The field of the table, or [`UNKNOWN`].
    pub id: u8,
    /// The row with its rules: of the table, or of a domain profile.
    pub field: Option<&'static Field>,
    /// A 1.1 field with the opposite meaning of today's.
    pub negate: bool,
    /// The offset of its value in the payload, if it was read.
    pub offset: Option<usize>,
    /// The value.
    pub node: N,
}

impl<K: AsRef<str>, N> Entry<K, N> {
    /// The full name.
    pub fn name(&self) -> &str {
        self.field.map_or_else(|| self.key.as_str(), |f| f.name)
    }

    /// Adds the place of this field to an error of its value.
    pub fn place(&self, error: Error) -> Error {
        placed(error.in_key(self.name()), self.offset)
    }
}

fn placed(error: Error, offset: Option<usize>) -> Error {
    match offset {
        Some(offset) => error.at(offset),
        None => error,
    }
}

/// The fields of a grain.
#[derive(Debug)]
pub struct Fields<K, N> {
    /// In the order given.
    pub entries: SmallVec<[Entry<K, N>; 24]>,
    /// Position of each known field in `entries`, plus one; 0 if absent.
    at: [u16; COUNT],
    /// The direction.
    pub side: Side,
    /// The type; None if the grain is opaque.
    pub grain_type: Option<&'static GrainType>,
    /// The header byte.
    pub type_byte: u8,
}

impl<K: AsRef<str>, N: Node> Fields<K, N> {
    /// No fields yet.
    pub fn new(side: Side) -> Self {
        Fields { entries: SmallVec::new(), at: [0; COUNT], side, grain_type: None, type_byte: 0 }
    }

    /// A known field, if present.
    #[inline]
    pub fn get(&self, id: u8) -> Option<&Entry<K, N>> {
        self.at[usize::from(id)].checked_sub(1).map(|at| &self.entries[usize::from(at)])
    }

    /// A known field that is a string.
    ///
    /// # Errors
    /// Those of the source.
    pub fn text(&self, id: u8) -> Result<Option<&str>> {
        match self.get(id).map(|entry| entry.node.view()).transpose()? {
            Some(View::Str(text)) => Ok(Some(text)),
            _ => Ok(None),
        }
    }

    /// Adds a field.
    ///
    /// # Errors `ERR_CORRUPT` if it is present already.
    #[inline]
    pub fn push(&mut self, entry: Entry<K, N>) -> Result<()> {
        let id = entry.id;
        if id != UNKNOWN {
            self.claim(id, self.entries.len())?;
        }
        self.entries.push(entry);
        Ok(())
    }

    fn claim(&mut self, id: u8, position: usize) -> Result<()> {
        let at = &mut self.at[usize::from(id)];
        if *at != 0 {
            return Err(Error::new(Code::Corrupt, "the field occurs twice").in_key(registry::field(id).name));
        }
        // Only a grain that is far too large has more positions than u16.
        *at = u16::try_from(position + 1).map_err(|_| Error::new(Code::TooLarge, "too many fields"))?;
        Ok(())
    }

    /// Finds the type and what depends on it: an action's own `content`, 1.1 names.
    ///
    /// # Errors
    /// `ERR_NO_TYPE`, `ERR_UNKNOWN_TYPE`, `ERR_SCHEMA`, `ERR_CORRUPT`.
    pub fn resolve(&mut self, type_byte: Option<u8>) -> Result<()> {
        let named = self.named_type(type_byte)?;
        self.grain_type = named.map(|n| n.grain_type);
        self.type_byte = match (self.grain_type, type_byte) {
            (Some(grain_type), _) => grain_type.byte,
            (None, byte) => byte.unwrap_or(0),
        };
        if self.type_byte == registry::ACTION {
            self.use_action_content()?;
        }
        if named.is_some_and(|n| n.legacy) {
            self.use_old_names()?;
        }
        for position in 0..self.entries.len() {
            if self.entries[position].id == UNKNOWN {
                let offset = self.entries[position].offset;
                self.resolve_unknown(position).map_err(|e| placed(e, offset))?;
            }
        }
        Ok(())
    }

    fn named_type(&self, type_byte: Option<u8>) -> Result<Option<registry::Named>> {
        let opaque = type_byte.is_some_and(|byte| byte > 0x0a);
        let Some(entry) = self.get(id::TYPE) else {
            return if opaque {
                Ok(None)
            } else {
                Err(Error::new(Code::NoType, "the grain has no type").expected("a field `type`"))
            };
        };
        let name = match entry.node.view()? {
            View::Str(name) => name,
            _ if opaque => return Ok(None),
            view => {
                return Err(entry.place(wrong_kind(&view, "a string")));
            }
        };
        match (registry::type_named(name), type_byte) {
            (None, _) if opaque => Ok(None),
            (None, _) => Err(entry.place(
                Error::new(Code::UnknownType, unknown_type(name))
                    .expected("belief, event, state, workflow, action, observation, goal, reasoning, consensus or consent")
                    .found(shown(name)),
            )),
            (Some(named), Some(byte)) if named.grain_type.byte != byte => Err(entry.place(
                Error::new(Code::Corrupt, "the type byte does not match the field type")
                    .expected(format!("byte {:02x}", named.grain_type.byte))
                    .found(format!("{byte:02x}")),
            )),
            (named, _) => Ok(named),
        }
    }

    /// `content` of an action is a separate field, with its own short key.
    fn use_action_content(&mut self) -> Result<()> {
        let position = match self.side {
            Side::Write => self.at[usize::from(id::CONTENT)],
            // In a payload an action's content is `cnt`; `content` is its full name.
            Side::Read if self.get(id::CONTENT).is_some() => return Err(full_name("content", "cnt")),
            Side::Read => return Ok(()),
        };
        if let Some(position) = position.checked_sub(1) {
            self.at[usize::from(id::CONTENT)] = 0;
            self.set(usize::from(position), id::CONTENT_ACTION)?;
        }
        Ok(())
    }

    /// Uses 1.1 field names where today's are absent. Of two old names for one field the first of
    /// the table is used, whatever the order of the input.
    fn use_old_names(&mut self) -> Result<()> {
        let unknown = |entry: &Entry<K, N>, name: &str| entry.id == UNKNOWN && entry.key.as_str() == name;
        for alias in registry::aliases(self.type_byte) {
            if self.get(alias.field).is_some() {
                continue;
            }
            let found = alias.old.iter().find_map(|old| self.entries.iter().position(|e| unknown(e, old)));
            if let Some(position) = found {
                self.entries[position].negate = alias.negate;
                self.set(position, alias.field)?;
            }
        }
        Ok(())
    }

    /// An unknown key: a short key instead of a name, or the reverse, or really unknown.
    fn resolve_unknown(&mut self, position: usize) -> Result<()> {
        let key = self.entries[position].key.as_str();
        match self.side {
            Side::Write => match registry::by_short(key, self.type_byte) {
                UNKNOWN => Ok(()),
                known => Err(short_key(key, registry::field(known).name)),
            },
            Side::Read
                if self.type_byte == registry::ACTION && key == registry::field(id::CONTENT_ACTION).short =>
            {
                self.set(position, id::CONTENT_ACTION)
            }
            Side::Read => match registry::by_name(key, self.type_byte) {
                UNKNOWN => Ok(()),
                known => Err(full_name(registry::field(known).name, registry::field(known).short)),
            },
        }
    }

    fn set(&mut self, position: usize, id: u8) -> Result<()> {
        self.claim(id, position)?;
        let entry = &mut self.entries[position];
        entry.id = id;
        entry.field = Some(registry::field(id));
        if self.side == Side::Write {
            entry.key = WireKey::Short(registry::field(id).short);
        }
        Ok(())
    }
}

fn unknown_type(name: &str) -> String {
    match warn::version_of_type(name) {
        Some(version) => format!("{name} is a type of {version}, and this is OMS 1.2"),
        None => "not a grain type".into(),
    }
}

/// Collects the fields from a user, by full name; nulls are left out.
///
/// # Errors
/// `ERR_NOT_MAP`, and those of names and types.
pub fn gather<N: Node>(node: &N, type_byte: Option<u8>) -> Result<Fields<N::Key, N>> {
    if !matches!(node.view()?, View::Map) {
        return Err(Error::new(Code::NotMap, "a grain must be a map of fields").found(node.view()?.kind()));
    }
    let mut fields = Fields::new(Side::Write);
    node.each_entry(&mut |key, value| {
        if value.is_null() {
            return Ok(());
        }
        let mut found = UNKNOWN;
        let key = WireKey::new(key, |name| {
            found = registry::by_name(name, 0);
            (found != UNKNOWN).then(|| registry::field(found).short)
        })?;
        let field = (found != UNKNOWN).then(|| registry::field(found));
        fields.push(Entry { key, id: found, field, negate: false, offset: None, node: value })
    })?;
    fields.resolve(type_byte)?;
    Ok(fields)
}

/// The error for a value of the wrong kind.
#[cold]
pub fn wrong_kind(view: &View<'_>, expected: &'static str) -> Error {
    Error::new(Code::Schema, "the value is of the wrong kind").expected(expected).found(view.kind())
}

#[cold]
pub(crate) fn short_key(short: &str, name: &'static str) -> Error {
    Error::new(Code::Schema, format!("{short:?} is the short key of {name:?}"))
        .expected(format!("the full name {name:?}"))
        .in_key(short)
}

#[cold]
pub(crate) fn full_name(name: &'static str, short: &'static str) -> Error {
    Error::new(Code::Corrupt, "a full name stands where its short key belongs")
        .expected(format!("{short:?}"))
        .in_key(name)
}
