// SPDX-License-Identifier: Apache-2.0
//! From fields to the one canonical blob: gather, validate, compact, write, head. Spec: OMS §4.9

use alloc::{string::String, vec::Vec};
use smallvec::SmallVec;

use crate::check;
use crate::codec::cbor::Cbor;
use crate::codec::msgpack::Msgpack;
use crate::codec::{self, EXTENDED, Encoding, LIGHTWEIGHT, Limits, Nesting, Profile, STANDARD, Wire};
use crate::fields::{Entry, Fields, gather};
use crate::header::{COMPRESSED, LEN};
use crate::registry::{Field, GrainType, Kind, id};
use crate::value::{Node, View};
use crate::{Code, Error, Result, compress, validate};

/// How a grain is encoded.
///
/// The default is MessagePack without compression, and at most 1 MiB a grain.
///
/// ```
/// use omsgrain_core::Options;
///
/// let options = Options::default().cbor().sensitivity(2);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Options {
    #[doc(hidden)]
    pub encoding: Encoding,
    #[doc(hidden)]
    pub compress: bool,
    /// The least sensitivity; the tags may require more.
    #[doc(hidden)]
    pub sensitivity: u8,
    /// Keep an older type name instead of writing today's.
    #[doc(hidden)]
    pub keep_type_name: bool,
    /// Write an opaque grain with this byte.
    #[doc(hidden)]
    pub type_byte: Option<u8>,
    #[doc(hidden)]
    pub profile: Profile,
}

impl Options {
    /// Writes the payload as CBOR instead of MessagePack.
    #[must_use]
    pub fn cbor(self) -> Options {
        Options { encoding: Encoding::Cbor, ..self }
    }

    /// Compresses the payload with zstd, which is the feature `zstd`.
    #[must_use]
    pub fn compressed(self) -> Options {
        Options { compress: true, ..self }
    }

    /// Sets the sensitivity in the header, from 0 (public) to 3 (health data), unless the tags of
    /// the grain require more.
    #[must_use]
    pub fn sensitivity(self, level: u8) -> Options {
        Options { sensitivity: level, ..self }
    }

    /// Limits a grain to 32 KiB and 16 levels of nesting: the standard profile of OMS.
    #[must_use]
    pub fn standard(self) -> Options {
        Options { profile: STANDARD, ..self }
    }

    /// Limits a grain to 512 bytes, 8 levels and the seven fields of the lightweight profile.
    #[must_use]
    pub fn lightweight(self) -> Options {
        Options { profile: LIGHTWEIGHT, ..self }
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            encoding: Encoding::Msgpack,
            compress: false,
            sensitivity: 0,
            keep_type_name: false,
            type_byte: None,
            profile: EXTENDED,
        }
    }
}

/// The blob of a grain.
///
/// # Errors
/// The first rule that is broken, with the path to it.
pub fn encode<N: Node>(node: &N, options: &Options) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(512);
    encode_into(node, options, &mut out, &mut Vec::new())?;
    Ok(out)
}

/// Appends the blob of a grain to `out`, which is unchanged after an error.
///
/// # Errors
/// As [`encode`].
pub fn encode_into<N: Node>(
    node: &N,
    options: &Options,
    out: &mut Vec<u8>,
    warnings: &mut Vec<String>,
) -> Result<()> {
    let (start, warned) = (out.len(), warnings.len());
    let written = append(node, options, out, warnings);
    if written.is_err() {
        out.truncate(start);
        warnings.truncate(warned);
    }
    written
}

fn append<N: Node>(node: &N, options: &Options, out: &mut Vec<u8>, warnings: &mut Vec<String>) -> Result<()> {
    if options.type_byte == Some(0) {
        return Err(Error::new(Code::UnknownType, "type byte 0 is not a type").expected("1 to 255"));
    }
    let mut fields = gather(node, options.type_byte)?;
    let facts = validate::validate(&mut fields, options.profile, warnings)?;
    let mut header = facts.header(fields.type_byte, options.encoding, options.sensitivity);
    let start = out.len();
    out.extend_from_slice(&header.to_bytes());
    match options.encoding {
        Encoding::Msgpack => payload::<Msgpack, N>(&fields, options, start, out)?,
        Encoding::Cbor => payload::<Cbor, N>(&fields, options, start, out)?,
    }
    check_size(out.len() - start, options.profile)?;
    if options.compress {
        header.flags |= COMPRESSED;
        let frame = compress::compress(&out[start + LEN..])?;
        out.truncate(start);
        out.extend_from_slice(&header.to_bytes());
        out.extend_from_slice(&frame);
        check_size(out.len() - start, options.profile)?;
    }
    Ok(())
}

fn check_size(size: usize, profile: Profile) -> Result<()> {
    if size <= profile.max_size {
        return Ok(());
    }
    Err(Error::new(Code::TooLarge, "the grain is too large")
        .expected(format!("at most {} bytes", profile.max_size))
        .found(format!("{size} or more")))
}

fn payload<W: Wire, N: Node>(
    fields: &Fields<N::Key, N>,
    options: &Options,
    start: usize,
    out: &mut Vec<u8>,
) -> Result<()> {
    let entries = &fields.entries;
    W::map(out, entries.len());
    let mut ranks: SmallVec<[(u64, u32); 24]> =
        entries.iter().zip(0..).map(|(e, i)| (W::rank(e.key.as_str().as_bytes()), i)).collect();
    codec::sort_keys::<W>(&mut ranks, &|i| entries[i as usize].key.as_str())?;
    for (_, i) in &ranks {
        let entry = &entries[*i as usize];
        W::str(out, entry.key.as_str());
        let Entry { id, field, negate, .. } = *entry;
        let what = What { id, field, negate, grain_type: fields.grain_type };
        value::<W, N>(what, &entry.node, options, out).map_err(|e| entry.place(e))?;
        // A blob that is too large is refused before all of it is written.
        check_size(out.len() - start, options.profile)?;
    }
    Ok(())
}

/// The facts that the writer has about a value.
#[derive(Clone, Copy)]
pub(crate) struct What {
    pub id: u8,
    pub field: Option<&'static Field>,
    pub negate: bool,
    pub grain_type: Option<&'static GrainType>,
}

pub(crate) fn value<W: Wire, N: Node>(
    what: What,
    node: &N,
    options: &Options,
    out: &mut Vec<u8>,
) -> Result<()> {
    let limits = Limits { depth: options.profile.max_depth, end: out.len() + options.profile.max_size };
    let Some(field) = what.field else { return codec::write::<W, N>(out, node, 2, limits) };
    match (field.kind, node.view()?) {
        (_, View::Bool(b)) if what.negate => W::bool(out, !b),
        (_, View::Instant(ms)) if field.kind == Kind::Datetime => W::int(out, ms),
        (_, View::List) if field.nested.is_some() => {
            let coerce = what.grain_type.is_some();
            let nesting = field.nested.map(|table| Nesting { table, coerce });
            codec::write_list::<W, N>(out, node, 2, limits, nesting)?;
        }
        // An opaque grain has no schema: only an instant is converted.
        _ if what.grain_type.is_none() => codec::write::<W, N>(out, node, 2, limits)?,
        (Kind::Float64, View::Int(i)) => W::float(out, i as f64),
        (Kind::Float64, View::UInt(u)) => W::float(out, u as f64),
        (Kind::Datetime, view) => W::int(out, check::millis(&view)?),
        (_, View::Str(name)) if what.id == id::TYPE => {
            W::str(
                out,
                match what.grain_type {
                    Some(t) if !options.keep_type_name => t.name,
                    _ => name,
                },
            );
        }
        _ => codec::write::<W, N>(out, node, 2, limits)?,
    }
    Ok(())
}
