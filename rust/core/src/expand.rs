// SPDX-License-Identifier: Apache-2.0
//! A grain that was read, as fields by full name again. Spec: OMS §4.3

use alloc::borrow::Cow;

use crate::decode::{Decoded, Item};
use crate::registry::Nested;
use crate::value::Value;

impl<'p> Decoded<'p> {
    /// The fields as a map by full name; what [`crate::encode::encode`] takes.
    pub fn into_value(self) -> Value<'p> {
        Value::Map(self.items.into_iter().map(expand).collect())
    }
}

fn expand(item: Item<'_>) -> (Cow<'_, str>, Value<'_>) {
    let field = item.field();
    let name = Cow::Borrowed(field.map_or(item.key, |f| f.name));
    let value = match (item.value, field.and_then(|f| f.nested)) {
        (Value::Bool(b), _) if item.negate => Value::Bool(!b),
        (Value::List(entries), Some(table)) => {
            Value::List(entries.into_iter().map(|entry| nested(entry, table)).collect())
        }
        (value, _) => value,
    };
    (name, value)
}

fn nested<'p>(entry: Value<'p>, table: &'static Nested) -> Value<'p> {
    let Value::Map(entries) = entry else { return entry };
    let long = |key: Cow<'p, str>| table.by_short(&key).map_or(key, |f| Cow::Borrowed(f.name));
    Value::Map(entries.into_iter().map(|(key, value)| (long(key), value)).collect())
}
