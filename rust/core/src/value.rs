// SPDX-License-Identifier: Apache-2.0
//! What a grain is made of, and the trait by which the encoder sees any source of it.
//!
//! The encoder is generic over [`Node`]: the core's own [`Value`], a parsed JSON value and a
//! Python object all implement it, so there is one encoder and no tree in between.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use crate::Result;

/// One look at a node: a scalar's value, or which container it is.
#[derive(Debug, PartialEq)]
#[allow(missing_docs)]
pub enum View<'a> {
    Null,
    Bool(bool),
    Int(i64),
    /// An integer beyond `i64::MAX`.
    UInt(u64),
    Float(f64),
    Str(&'a str),
    Bytes(Cow<'a, [u8]>),
    /// A point in time given as such, in ms since 1970.
    Instant(i64),
    List,
    Map,
}

impl View<'_> {
    /// The kind in words, for errors.
    pub fn kind(&self) -> &'static str {
        match self {
            View::Null => "null",
            View::Bool(_) => "a bool",
            View::Int(_) | View::UInt(_) => "an integer",
            View::Float(_) => "a float",
            View::Str(_) => "a string",
            View::Bytes(_) => "bytes",
            View::Instant(_) => "a datetime",
            View::List => "an array",
            View::Map => "a map",
        }
    }
}

/// A source of values that the encoder can walk.
pub trait Node: Sized {
    /// A map key.
    type Key: AsRef<str>;

    /// What this node is.
    ///
    /// # Errors
    /// If it is nothing that a grain can hold.
    fn view(&self) -> Result<View<'_>>;

    /// Whether it is null; cheaper than `view`.
    fn is_null(&self) -> bool;

    /// How many items a list has.
    fn list_len(&self) -> usize;

    /// Visits the items of a list in order.
    ///
    /// # Errors
    /// Those of the visitor, and the source's own.
    fn each_item(&self, visit: &mut dyn FnMut(Self) -> Result<()>) -> Result<()>;

    /// Visits the entries of a map, in any order.
    ///
    /// # Errors
    /// Those of the visitor, and the source's own (a key that is no string).
    fn each_entry(&self, visit: &mut dyn FnMut(Self::Key, Self) -> Result<()>) -> Result<()>;
}

/// A value read from a payload; text and bytes are borrowed from it.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    UInt(u64),
    Float(f64),
    Str(Cow<'a, str>),
    Bytes(Cow<'a, [u8]>),
    List(Vec<Value<'a>>),
    Map(Vec<(Cow<'a, str>, Value<'a>)>),
}

impl<'v> Node for &'v Value<'_> {
    type Key = &'v str;

    #[inline]
    fn view(&self) -> Result<View<'_>> {
        Ok(match self {
            Value::Null => View::Null,
            Value::Bool(b) => View::Bool(*b),
            Value::Int(i) => View::Int(*i),
            Value::UInt(u) => View::UInt(*u),
            Value::Float(f) => View::Float(*f),
            Value::Str(s) => View::Str(s),
            Value::Bytes(b) => View::Bytes(Cow::Borrowed(b)),
            Value::List(_) => View::List,
            Value::Map(_) => View::Map,
        })
    }

    #[inline]
    fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    fn list_len(&self) -> usize {
        if let Value::List(items) = self { items.len() } else { 0 }
    }

    fn each_item(&self, visit: &mut dyn FnMut(Self) -> Result<()>) -> Result<()> {
        if let Value::List(items) = self {
            items.iter().try_for_each(visit)?;
        }
        Ok(())
    }

    fn each_entry(&self, visit: &mut dyn FnMut(Self::Key, Self) -> Result<()>) -> Result<()> {
        if let Value::Map(entries) = self {
            entries.iter().try_for_each(|(key, value)| visit(key, value))?;
        }
        Ok(())
    }
}
