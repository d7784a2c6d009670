// SPDX-License-Identifier: Apache-2.0
//! Functions for one grain or a list of grains. They release the GIL if the work is long enough.

use std::borrow::Cow;
use std::fs::{File, Metadata};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use omsgrain_core::byte_search::ByteSearch;
use omsgrain_core::codec::{EXTENDED, Encoding, LIGHTWEIGHT, STANDARD};
use omsgrain_core::decode::Parsed;
use omsgrain_core::encode::{Options, encode_into};
use omsgrain_core::header::{COMPRESSED, ENCRYPTED, SIGNED};
use omsgrain_core::vectors::Query;
use omsgrain_core::{
    Code, Error, Header, address as hash, batch, datetime, decode as read, fingerprint as semantic, registry,
    vectors,
};
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyFloat, PyList, PyMappingProxy, PyString, PyTuple};

use crate::convert::Object;
use crate::error::{exception, raise};
use crate::shape_cache::Maker;
use crate::{convert, shape_cache};

/// Below this many bytes, releasing the GIL costs more than it gains. CPython's hashlib has the
/// same bound.
const RELEASE_FROM: usize = 2048;

/// (version, flags, type byte, ns_hash, created_at)
pub type HeaderTuple = (u8, u8, u8, u16, u32);

fn header_tuple(header: Header) -> HeaderTuple {
    (omsgrain_core::header::VERSION, header.flags, header.type_byte, header.ns_hash, header.created_at)
}

/// The options of a call, in Python's order: (encoding, compress, sensitivity, keep_type_name,
/// type_byte, profile).
#[derive(FromPyObject)]
pub struct PyOptions(String, bool, u8, bool, Option<u8>, String);

impl PyOptions {
    pub fn options(&self) -> PyResult<Options> {
        let encoding = match self.0.as_str() {
            "msgpack" => Encoding::Msgpack,
            "cbor" => Encoding::Cbor,
            _ => return Err(PyValueError::new_err("encoding is \"msgpack\" or \"cbor\"")),
        };
        let profile = match self.5.as_str() {
            "extended" => EXTENDED,
            "standard" => STANDARD,
            "lightweight" => LIGHTWEIGHT,
            _ => {
                return Err(PyValueError::new_err(
                    "profile is \"extended\", \"standard\" or \"lightweight\"",
                ));
            }
        };
        Ok(Options {
            encoding,
            compress: self.1,
            sensitivity: self.2,
            keep_type_name: self.3,
            type_byte: self.4,
            profile,
        })
    }
}

/// The blob of some fields, and warnings.
#[pyfunction]
pub fn encode<'py>(
    py: Python<'py>,
    fields: Bound<'py, PyAny>,
    options: PyOptions,
) -> PyResult<(Bound<'py, PyBytes>, Vec<String>)> {
    let (mut out, mut warnings) = (Vec::with_capacity(512), Vec::new());
    encode_into(&Object(fields), &options.options()?, &mut out, &mut warnings).map_err(|e| raise(py, &e))?;
    Ok((PyBytes::new(py, &out), warnings))
}

/// The blob of some fields, with no options; None if the shape cache declines them.
#[pyfunction]
pub fn encode_plain<'py>(fields: &Bound<'py, PyAny>) -> Option<Bound<'py, PyBytes>> {
    shape_cache::encode_one(fields)
}

/// Checks a blob: its header, the type's 1.2 name (None if opaque), and warnings.
#[pyfunction]
pub fn check<'py>(
    py: Python<'py>,
    blob: &Bound<'py, PyBytes>,
) -> PyResult<(HeaderTuple, Option<&'static str>, Vec<String>)> {
    let mut payload = Cow::default();
    let (header, name, warnings) =
        match read::read_one(blob.as_bytes(), &mut payload).map_err(|e| raise(py, &e))? {
            Parsed::Plain(header, plan) => (header, Some(plan.grain_type.name), Vec::new()),
            Parsed::Other(grain) => (grain.header, grain.grain_type.map(|t| t.name), grain.warnings),
        };
    Ok((header_tuple(header), name, warnings))
}

/// The fields of a blob, by full name.
#[pyfunction]
pub fn decode<'py>(py: Python<'py>, blob: &Bound<'py, PyBytes>) -> PyResult<Bound<'py, PyDict>> {
    let mut payload = Cow::default();
    match read::read_one(blob.as_bytes(), &mut payload).map_err(|e| raise(py, &e))? {
        Parsed::Plain(header, plan) => shape_cache::fields(py, &plan, header, blob.as_bytes()),
        Parsed::Other(grain) => convert::fields(py, &grain),
    }
}

/// The fields of a grain's blob, read-only; empty for a sealed grain.
#[pyfunction]
pub fn fields<'py>(py: Python<'py>, blob: &Bound<'py, PyBytes>) -> PyResult<Bound<'py, PyMappingProxy>> {
    let flags = blob.as_bytes().get(1).copied().unwrap_or_default();
    let fields = if flags & ENCRYPTED != 0 {
        PyDict::new(py)
    } else if flags & SIGNED != 0 {
        // The signed bit refers to an envelope, which is stored separately.
        let mut bare = blob.as_bytes().to_vec();
        bare[1] = flags & !SIGNED;
        decode(py, &PyBytes::new(py, &bare))?
    } else {
        decode(py, blob)?
    };
    Ok(PyMappingProxy::new(py, fields.as_mapping()))
}

/// The refused items of a list: position and exception.
type Wrong = Vec<(usize, Py<PyAny>)>;
/// The fields of each blob, read-only; its type's 1.2 name (None if opaque) and warnings; and the
/// refused blobs, for which the others are None.
type Read<'py> = (Bound<'py, PyList>, Bound<'py, PyList>, Wrong);

/// Reads blobs, by columns.
#[pyfunction]
pub fn decode_many<'py>(py: Python<'py>, blobs: &Bound<'py, PyList>) -> PyResult<Read<'py>> {
    let blobs = all_bytes(blobs)?;
    let views: Vec<&[u8]> = blobs.iter().map(|blob| blob.as_bytes()).collect();
    let (all, known, mut wrong) = (PyList::empty(py), PyList::empty(py), Vec::new());
    let types = registry::TYPES.iter().map(|t| (t.name, PyTuple::empty(py)).into_pyobject(py));
    let types = types.collect::<PyResult<Vec<_>>>()?;
    let mut maker = Maker::new(py);
    let take = |at: usize, one: omsgrain_core::Result<Parsed<'_>>, long: shape_cache::Long| {
        if at.is_multiple_of(HASHED) {
            py.check_signals()?;
        }
        let (fields, said) = match one {
            Ok(Parsed::Plain(header, plan)) => {
                let said = types.get(usize::from(plan.grain_type.byte) - 1);
                (maker.fields(&plan, header, views[at], &long)?, said.cloned())
            }
            Ok(Parsed::Other(grain)) => {
                let name = grain.grain_type.map(|t| t.name);
                let said = (name, PyTuple::new(py, &grain.warnings)?).into_pyobject(py)?;
                (convert::fields(py, &grain)?, Some(said))
            }
            Err(refused) => {
                wrong.push((at, exception(py, &refused, None)?));
                all.append(py.None())?;
                return known.append(py.None());
            }
        };
        all.append(PyMappingProxy::new(py, fields.as_mapping()))?;
        known.append(said)
    };
    let prepare = |grain: &Parsed<'_>, blob: &[u8]| match grain {
        Parsed::Plain(header, plan) => shape_cache::long_texts(plan, *header, blob),
        Parsed::Other(_) => Vec::new(),
    };
    batch::read_each(&views, prepare, |work| py.detach(work), take)?;
    Ok((all, known, wrong))
}

/// The blobs of a list, which stay alive while the GIL is released.
fn all_bytes<'py>(blobs: &Bound<'py, PyList>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
    blobs.iter().map(|blob| Ok(blob.cast_into()?)).collect()
}

/// The semantic fingerprint of a verified blob; None if it is sealed.
#[pyfunction]
pub fn fingerprint<'py>(
    py: Python<'py>,
    blob: &Bound<'py, PyBytes>,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let found = semantic::fingerprint(blob.as_bytes()).map_err(|e| raise(py, &e))?;
    Ok(found.map(|bytes| PyBytes::new(py, &bytes)))
}

/// The header of a blob, without its payload.
#[pyfunction]
pub fn header(py: Python<'_>, blob: &Bound<'_, PyBytes>) -> PyResult<HeaderTuple> {
    Header::read(blob.as_bytes()).map(header_tuple).map_err(|e| raise(py, &e))
}

/// The address of a blob, or the hash of any bytes.
#[pyfunction]
pub fn address<'py>(py: Python<'py>, blob: &Bound<'py, PyBytes>) -> Bound<'py, PyString> {
    hex(py, &digest(py, blob.as_bytes()))
}

/// The hash of some bytes; other threads run while it hashes many.
pub fn digest(py: Python<'_>, bytes: &[u8]) -> hash::Digest {
    if bytes.len() < RELEASE_FROM { hash::sha256(bytes) } else { py.detach(|| hash::sha256(bytes)) }
}

/// An address as a Python string, without a Rust string in between.
pub fn hex<'py>(py: Python<'py>, digest: &hash::Digest) -> Bound<'py, PyString> {
    let mut text = [0u8; 64];
    hash::write_hex(digest, &mut text);
    PyString::new(py, std::str::from_utf8(&text).unwrap_or_default())
}

/// The 32 bytes of an address.
#[pyfunction]
pub fn parse_address<'py>(py: Python<'py>, text: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyBytes>> {
    // Text that is not valid Unicode is not an address, like any other text.
    hash::parse(&text.to_string_lossy()).map(|digest| PyBytes::new(py, &digest)).map_err(|e| raise(py, &e))
}

/// The number of blobs in one step: they stay in the processor's cache until they are done.
const HASHED: usize = 4096;

/// The addresses of many blobs.
#[pyfunction]
pub fn address_many<'py>(py: Python<'py>, blobs: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyList>> {
    let count = blobs.len();
    let mut digests = Vec::with_capacity(count);
    let mut held: Vec<Bound<'py, PyBytes>> = Vec::with_capacity(HASHED.min(count));
    for start in (0..count).step_by(HASHED) {
        held.clear();
        for i in start..count.min(start + HASHED) {
            held.push(blobs.get_item(i)?.cast_into()?);
        }
        let views: Vec<&[u8]> = held.iter().map(|blob| blob.as_bytes()).collect();
        digests.extend(py.detach(|| batch::address_many(&views)));
    }
    PyList::new(py, digests.iter().map(|digest| hex(py, digest)))
}

/// Checks a blob in full, and its address if one is given.
#[pyfunction]
#[pyo3(signature = (blob, address = None))]
pub fn verify(py: Python<'_>, blob: &Bound<'_, PyBytes>, address: Option<&str>) -> PyResult<HeaderTuple> {
    let bytes = blob.as_bytes();
    let work = || {
        if let Some(text) = address {
            hash::verify(bytes, &hash::parse(text)?)?;
        }
        read::verify(bytes)
    };
    work().map(header_tuple).map_err(|e| raise(py, &e))
}

/// Checks blobs and their addresses; returns (position, exception) for each invalid one.
#[pyfunction]
pub fn verify_many<'py>(
    py: Python<'py>,
    blobs: &Bound<'py, PyList>,
    addresses: &Bound<'py, PyList>,
) -> PyResult<Wrong> {
    let blobs = all_bytes(blobs)?;
    let mut refused: Vec<(usize, Error)> = Vec::new();
    let mut views: Vec<(&[u8], hash::Digest)> = Vec::with_capacity(blobs.len());
    let mut places = Vec::with_capacity(blobs.len());
    for (i, (blob, text)) in blobs.iter().zip(addresses.iter()).enumerate() {
        match hash::parse(text.cast::<PyString>()?.to_str()?) {
            Ok(digest) => {
                views.push((blob.as_bytes(), digest));
                places.push(i);
            }
            Err(error) => refused.push((i, error)),
        }
    }
    let verdicts = py.detach(|| batch::verify_many(&views));
    let bad = places.iter().zip(verdicts).filter_map(|(i, v)| v.err().map(|error| (*i, error)));
    refused.extend(bad);
    refused.sort_by_key(|(i, _)| *i);
    refused.iter().map(|(i, error)| Ok((*i, exception(py, error, None)?))).collect()
}

/// The address of each blob, as 32 bytes, and (position, exception) for each invalid one.
#[pyfunction]
pub fn check_many<'py>(py: Python<'py>, blobs: &Bound<'py, PyList>) -> PyResult<(Bound<'py, PyList>, Wrong)> {
    let blobs = all_bytes(blobs)?;
    let views: Vec<&[u8]> = blobs.iter().map(|blob| blob.as_bytes()).collect();
    let checked = py.detach(|| batch::check_many(&views));
    let digests = PyList::new(py, checked.iter().map(|(digest, _)| PyBytes::new(py, digest)))?;
    let refused = checked.iter().enumerate().filter_map(|(i, (_, v))| v.as_ref().err().map(|e| (i, e)));
    let wrong: PyResult<Wrong> = refused.map(|(i, error)| Ok((i, exception(py, error, None)?))).collect();
    Ok((digests, wrong?))
}

/// The registry, as JSON with the keys of registry.toml.
#[pyfunction]
pub fn registry_json() -> &'static str {
    registry::JSON
}

// Times in the most common spelling.

/// Seconds since 1970 of a time such as `2026-01-15T10:00:00Z`; None for any other spelling, for
/// the year 0 and for a leap second.
#[pyfunction]
pub fn usual_seconds(text: &Bound<'_, PyString>) -> Option<i64> {
    let text = text.to_str().ok()?;
    let usual = text.len() == 20 && text.as_bytes()[10] == b'T' && text.ends_with('Z');
    if !usual || text.starts_with("0000") || text.as_bytes()[17] == b'6' {
        return None;
    }
    datetime::parse_rfc3339(text).map(|ms| ms.div_euclid(1000))
}

/// Ms since 1970 as text, with a fraction if it is not a whole second.
#[pyfunction]
pub fn spell_time(millis: i64) -> PyResult<String> {
    datetime::spell(millis)
        .ok_or_else(|| PyOverflowError::new_err("the year of the time is not from 1 to 9999"))
}

// An open file, to see whether it still has a name. Python's `os.fstat` makes an object of
// everything that the system returns, which costs as much as the rest of a snapshot.

/// An open file.
#[pyclass(frozen, module = "omsgrain._core")]
pub struct HeldFile(Mutex<Option<File>>);

#[pymethods]
impl HeldFile {
    #[new]
    fn new(path: PathBuf) -> PyResult<Self> {
        Ok(HeldFile(Mutex::new(Some(File::open(path)?))))
    }

    /// Whether the file is still in a directory, neither replaced nor removed. False if it is
    /// closed.
    pub fn has_name(&self) -> PyResult<bool> {
        self.file().as_ref().map_or(Ok(false), |file| Ok(is_linked(&file.metadata()?)))
    }

    /// Closes it; a second call does nothing.
    fn close(&self) {
        drop(self.file().take());
    }
}

impl HeldFile {
    fn file(&self) -> MutexGuard<'_, Option<File>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(unix)]
fn is_linked(metadata: &Metadata) -> bool {
    std::os::unix::fs::MetadataExt::nlink(metadata) > 0
}

/// On other systems an open file cannot be removed.
#[cfg(not(unix))]
fn is_linked(_: &Metadata) -> bool {
    true
}

// Embeddings from arrays of numbers.

/// The bytes of a list of floats, little-endian, and whether they are float32. They are float32 if
/// each number is the shortest text of one, else float64. None if the list has anything but floats.
#[pyfunction]
pub fn pack_floats<'py>(values: &Bound<'py, PyList>) -> Option<(Bound<'py, PyBytes>, bool)> {
    let mut wide = Vec::with_capacity(values.len());
    for item in values {
        wide.push(item.cast_exact::<PyFloat>().ok()?.value());
    }
    let narrow = vectors::narrowed(&wide);
    let bytes: Vec<u8> = match &narrow {
        Some(narrow) => narrow.iter().flat_map(|value| value.to_le_bytes()).collect(),
        None => wide.iter().flat_map(|value| value.to_le_bytes()).collect(),
    };
    Some((PyBytes::new(values.py(), &bytes), narrow.is_some()))
}

/// The floats of float32 bytes, little-endian, each with the value of its shortest text.
#[pyfunction]
pub fn unpack_floats(data: &[u8]) -> Vec<f64> {
    let values = data.chunks_exact(4).filter_map(|four| Some(f32::from_le_bytes(four.try_into().ok()?)));
    vectors::widened(values).collect()
}

// Comparing a store's vectors with one vector.

/// Rows of a table: a key that ends in a sequence number, and a vector.
type Rows<'py> = Vec<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)>;

/// (cosine, sequence number) of the rows whose cosine is not below a floor, nearest first.
#[pyfunction]
pub fn nearest(
    py: Python<'_>,
    query: &Bound<'_, PyBytes>,
    rows: Rows<'_>,
    floor: f64,
) -> PyResult<Vec<(f64, u64)>> {
    let numbered: Option<Vec<(u64, &[u8])>> = rows
        .iter()
        .map(|(key, row)| Some((u64::from_be_bytes(*key.as_bytes().last_chunk()?), row.as_bytes())))
        .collect();
    let work = || {
        let wrong = || Error::new(Code::Schema, "a row whose key has no sequence number");
        let query = Query::new(query.as_bytes())?;
        Ok((query, numbered.ok_or_else(wrong)?))
    };
    let (query, numbered) = work().map_err(|e| raise(py, &e))?;
    Ok(py.detach(|| vectors::nearest(&query, &numbered, floor)))
}

// Searching many blobs for byte strings.

/// The byte strings to find, each of two bytes or more.
#[pyclass(frozen, module = "omsgrain._core")]
pub struct Marks(ByteSearch);

#[pymethods]
impl Marks {
    #[new]
    fn new(marks: Vec<Vec<u8>>) -> Self {
        Marks(ByteSearch::new(marks))
    }

    /// The positions of the blobs that contain one of them, or that are compressed and may hide
    /// one.
    fn find(&self, blobs: Vec<Bound<'_, PyBytes>>) -> Vec<usize> {
        let hides = |blob: &[u8]| blob.get(1).is_some_and(|flags| flags & COMPRESSED != 0);
        let has = |blob: &Bound<'_, PyBytes>| hides(blob.as_bytes()) || self.0.are_in(blob.as_bytes());
        blobs.iter().enumerate().filter(|(_, blob)| has(blob)).map(|(i, _)| i).collect()
    }
}
