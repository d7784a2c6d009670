// SPDX-License-Identifier: Apache-2.0
//! The three verbs of the crate, and the grain that `decode` returns.

use alloc::{string::String, vec::Vec};

use crate::{Address, Error, Header, Options, Value, address, decode as reader, encode as writer};

/// Encodes the fields of a grain as a blob: its canonical bytes.
///
/// The fields are a [`Value::Map`] with the full names of OMS 1.2. Their order does not matter: the
/// same fields always give the same blob. `type` and `created_at` (milliseconds since 1970) are
/// required, and each type of grain requires more.
///
/// ```
/// use omsgrain_core::{Address, Options, Value, encode};
///
/// let fields = Value::from([
///     ("type", "belief".into()),
///     ("subject", "dock 4".into()),
///     ("relation", "mg:state_at".into()),
///     ("object", "blocked".into()),
///     ("confidence", 0.9.into()),
///     ("source_type", "sensor".into()),
///     ("created_at", 1_768_471_200_000.into()),
/// ]);
/// let blob = encode(&fields, &Options::default())?;
/// assert_eq!(Address::of(&blob).to_string().len(), 64);
///
/// let refused = encode(&Value::from([("type", "belief".into())]), &Options::default());
/// assert_eq!(refused.unwrap_err().code(), "ERR_SCHEMA");
/// # Ok::<(), omsgrain_core::Error>(())
/// ```
///
/// # Errors
/// The first rule of OMS that the fields break, with the path to the field.
pub fn encode(fields: &Value<'_>, options: &Options) -> Result<Vec<u8>, Error> {
    writer::encode(&fields, options)
}

/// Decodes a blob. It accepts only what [`encode`] writes: any other bytes are refused.
///
/// ```
/// use omsgrain_core::{Options, Value, decode, encode};
///
/// let fields = Value::from([
///     ("type", "event".into()),
///     ("content", "battery replaced".into()),
///     ("created_at", 1_768_471_200_000.into()),
/// ]);
/// let blob = encode(&fields, &Options::default())?;
/// let grain = decode(&blob)?;
/// assert_eq!(grain.type_name(), Some("event"));
/// assert_eq!(grain.get("content").and_then(Value::as_str), Some("battery replaced"));
///
/// let damaged = decode(&blob[..blob.len() - 1]).unwrap_err();
/// assert_eq!(damaged.code(), "ERR_CORRUPT");
/// assert!(damaged.offset().is_some());
/// # Ok::<(), omsgrain_core::Error>(())
/// ```
///
/// # Errors
/// The first rule of OMS that the blob breaks, with the byte offset. A signed or encrypted grain is
/// refused: the Python package `omsgrain` opens those.
pub fn decode(blob: &[u8]) -> Result<Grain, Error> {
    let (header, payload) = reader::open(blob)?;
    let mut decoded = reader::read(header, &payload)?;
    let warnings = core::mem::take(&mut decoded.warnings);
    let type_name = decoded.grain_type.map(|grain_type| grain_type.name);
    let fields = decoded.into_value().into_owned();
    Ok(Grain { address: Address::of(blob), header, type_name, fields, warnings })
}

/// Checks that a blob has an address, and that [`decode`] accepts it.
///
/// ```
/// use omsgrain_core::{Address, Options, Value, encode, verify};
///
/// let fields = Value::from([
///     ("type", "event".into()),
///     ("content", "battery replaced".into()),
///     ("created_at", 1_768_471_200_000.into()),
/// ]);
/// let mut blob = encode(&fields, &Options::default())?;
/// let address = Address::of(&blob);
/// verify(&blob, &address)?;
///
/// blob[20] ^= 1;
/// assert_eq!(verify(&blob, &address).unwrap_err().code(), "ERR_INTEGRITY");
/// # Ok::<(), omsgrain_core::Error>(())
/// ```
///
/// # Errors
/// `ERR_INTEGRITY` if the blob has another address; otherwise as [`decode`].
pub fn verify(blob: &[u8], address: &Address) -> Result<(), Error> {
    address::verify(blob, address.as_bytes())?;
    reader::verify(blob).map(drop)
}

/// A decoded grain.
#[derive(Clone, Debug, PartialEq)]
pub struct Grain {
    address: Address,
    header: Header,
    type_name: Option<&'static str>,
    fields: Value<'static>,
    warnings: Vec<String>,
}

impl Grain {
    /// The address of the blob.
    pub fn address(&self) -> Address {
        self.address
    }

    /// The type of the grain; `None` for a type byte that OMS reserves or leaves to domains.
    pub fn type_name(&self) -> Option<&str> {
        self.type_name
    }

    /// From 0 to 3: public, internal, personal (pii), health (phi).
    pub fn sensitivity(&self) -> u8 {
        self.header.sensitivity()
    }

    /// A field by its full name.
    pub fn get(&self, name: &str) -> Option<&Value<'static>> {
        self.fields.get(name)
    }

    /// All fields: a [`Value::Map`] by full name.
    pub fn fields(&self) -> &Value<'static> {
        &self.fields
    }

    /// The warnings: allowed by OMS, but likely mistakes.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}
