// SPDX-License-Identifier: Apache-2.0
//! The values of a grain, and the trait through which the encoder reads them from any source.
//!
//! The encoder is generic over [`Node`]: the core's own [`Value`], a parsed JSON value and a
//! Python object all implement it, so there is one encoder and no tree in between.

use alloc::borrow::Cow;
use alloc::{string::String, vec::Vec};

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

    /// The kind and the value of this node.
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

/// A value of a grain. Text and bytes can be borrowed.
///
/// ```
/// use omsgrain_core::Value;
///
/// let place = Value::from([("name", "dock 4".into()), ("floor", 2.into())]);
/// assert_eq!(place.get("name").and_then(Value::as_str), Some("dock 4"));
/// assert_eq!(place.get("floor"), Some(&Value::Int(2)));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// Only in lists: a map omits it.
    Null,
    /// True or false.
    Bool(bool),
    /// An integer, or a time in milliseconds since 1970.
    Int(i64),
    /// An integer beyond `i64::MAX`.
    UInt(u64),
    /// A finite number.
    Float(f64),
    /// Text. The encoder writes it in NFC.
    Str(Cow<'a, str>),
    /// Bytes.
    Bytes(Cow<'a, [u8]>),
    /// A list.
    List(Vec<Value<'a>>),
    /// Keys and values, in any order; the encoder sorts them.
    Map(Vec<(Cow<'a, str>, Value<'a>)>),
}

impl Value<'_> {
    /// The value under a key, if this is a map that has it.
    pub fn get(&self, key: &str) -> Option<&Self> {
        let Value::Map(entries) = self else { return None };
        entries.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// The text, if this is a string.
    pub fn as_str(&self) -> Option<&str> {
        if let Value::Str(text) = self { Some(text) } else { None }
    }

    /// The same value, borrowing nothing.
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Value::Null => Value::Null,
            Value::Bool(b) => Value::Bool(b),
            Value::Int(i) => Value::Int(i),
            Value::UInt(u) => Value::UInt(u),
            Value::Float(f) => Value::Float(f),
            Value::Str(s) => Value::Str(s.into_owned().into()),
            Value::Bytes(b) => Value::Bytes(b.into_owned().into()),
            Value::List(items) => Value::List(items.into_iter().map(Value::into_owned).collect()),
            Value::Map(entries) => {
                let owned =
                    |(key, value): (Cow<'_, str>, Value<'_>)| (key.into_owned().into(), value.into_owned());
                Value::Map(entries.into_iter().map(owned).collect())
            }
        }
    }
}

macro_rules! from {
    ($($type:ty => $variant:ident),+ $(,)?) => {$(
        impl<'a> From<$type> for Value<'a> {
            fn from(given: $type) -> Self {
                Value::$variant(given.into())
            }
        }
    )+};
}

from! { bool => Bool, i64 => Int, f64 => Float, &'a str => Str, String => Str, &'a [u8] => Bytes, Vec<Value<'a>> => List }

impl<'a, K: Into<Cow<'a, str>>, const N: usize> From<[(K, Value<'a>); N]> for Value<'a> {
    fn from(entries: [(K, Value<'a>); N]) -> Self {
        Value::Map(entries.into_iter().map(|(key, value)| (key.into(), value)).collect())
    }
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
