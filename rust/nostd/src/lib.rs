// SPDX-License-Identifier: Apache-2.0
//! The interface for C: see omsgrain.h.
//!
//! Pointers from C are the reason for `unsafe` here. Each function checks them for null and
//! alignment, copies what they point to, and looks at no texts that overlap the output. That they
//! point to as many bytes as the caller says is the caller's promise.
#![no_std]

use core::ffi::{CStr, c_char, c_int};
use core::ops::Range;
use core::{ptr, slice, str};

use omsgrain_core::codec::Encoding;
use omsgrain_core::{Belief, Code, Object, Observation, Refusal, address, write_mg};
use subtle::ConstantTimeEq as _;

/// `struct omsgrain_text`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Text {
    pub data: *const c_char,
    pub length: usize,
}

/// `struct omsgrain_observation`: its observer, then the fields of a belief.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct ObservationFields {
    pub observer_id: Text,
    pub observer_type: Text,
    pub statement: BeliefFields,
}

/// `struct omsgrain_belief`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct BeliefFields {
    pub subject: Text,
    pub relation: Text,
    pub object: Text,
    pub value: *const f64,
    pub unit: Text,
    pub confidence: *const f64,
    pub namespace: Text,
    pub created_at: i64,
}

/// `struct omsgrain_blob`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Blob {
    pub data: *const u8,
    pub length: usize,
}

/// A code and the name of the field, ended by a zero byte.
type Refused = (Code, Option<&'static CStr>);

/// The names of fields for C.
const FIELDS: [&CStr; 8] = [
    c"observer_id",
    c"observer_type",
    c"subject",
    c"relation",
    c"object",
    c"confidence",
    c"namespace",
    c"created_at",
];

/// The codes that a function can return. Numbers are the exit codes of omsgrain.errors.
const CODES: [(c_int, Code, &CStr); 12] = [
    (11, Code::TooShort, c"ERR_TOO_SHORT"),
    (12, Code::TooLarge, c"ERR_TOO_LARGE"),
    (13, Code::Version, c"ERR_VERSION"),
    (14, Code::Corrupt, c"ERR_CORRUPT"),
    (16, Code::FloatInvalid, c"ERR_FLOAT_INVALID"),
    (20, Code::Schema, c"ERR_SCHEMA"),
    (23, Code::Empty, c"ERR_EMPTY"),
    (24, Code::Range, c"ERR_RANGE"),
    (31, Code::HashFormat, c"ERR_HASH_FORMAT"),
    (32, Code::HashLength, c"ERR_HASH_LENGTH"),
    (33, Code::Integrity, c"ERR_INTEGRITY"),
    (71, Code::Unsupported, c"ERR_UNSUPPORTED"),
];

fn number(code: Code) -> c_int {
    // No other code is returned.
    CODES.iter().find(|(_, known, _)| *known == code).map_or(71, |(number, ..)| *number)
}

fn for_c(refusal: Refusal) -> Refused {
    let name =
        refusal.field().and_then(|field| FIELDS.iter().find(|name| name.to_bytes() == field.as_bytes()));
    (refusal.kind(), name.copied())
}

/// A buffer of the caller, which the inputs must not overlap.
#[derive(Clone, Copy)]
struct Output {
    data: *mut u8,
    room: usize,
}

impl Output {
    fn new(data: *mut u8, room: usize) -> Result<Output, Refused> {
        if data.is_null() {
            return Err((Code::Schema, None));
        }
        // No buffer can be longer; a false length is not trusted.
        Ok(Output { data, room: room.min(isize::MAX as usize) })
    }

    fn overlaps(&self, data: *const u8, length: usize) -> bool {
        let range = |start: usize, length: usize| -> Range<usize> { start..start.saturating_add(length) };
        let (own, other) = (range(self.data.addr(), self.room), range(data.addr(), length));
        own.start < other.end && other.start < own.end
    }

    /// # Safety
    /// The buffer has `room` bytes, and nothing else refers to them.
    unsafe fn bytes<'b>(self) -> &'b mut [u8] {
        // SAFETY: not null by `new`, and at most isize::MAX; the rest is the caller's promise.
        unsafe { slice::from_raw_parts_mut(self.data, self.room) }
    }
}

/// # Safety
/// A pointer that is not null points to `length` bytes, which do not change meanwhile.
unsafe fn bytes<'a>(data: *const u8, length: usize, out: &Output) -> Result<&'a [u8], Refused> {
    if data.is_null() || out.overlaps(data, length) {
        return Err((Code::Schema, None));
    }
    if length > isize::MAX as usize {
        return Err((Code::TooLarge, None));
    }
    // SAFETY: not null, not too long, apart from the output; the rest is the caller's promise.
    Ok(unsafe { slice::from_raw_parts(data, length) })
}

/// # Safety
/// As [`bytes`].
unsafe fn text<'a>(given: Text, name: &'static CStr, out: &Output) -> Result<Option<&'a str>, Refused> {
    if given.data.is_null() && given.length == 0 {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    let found = unsafe { bytes(given.data.cast(), given.length, out) };
    let found = found.map_err(|(code, _)| (code, Some(name)))?;
    str::from_utf8(found).map(Some).map_err(|_| (Code::Corrupt, Some(name)))
}

/// # Safety
/// A pointer that is not null points to a double.
unsafe fn optional(number: *const f64) -> Option<f64> {
    // SAFETY: not null, and the rest is the caller's promise; it need not be aligned.
    (!number.is_null()).then(|| unsafe { number.read_unaligned() })
}

/// # Safety
/// As [`bytes`] and [`optional`].
unsafe fn object<'a>(
    given: Text,
    value: *const f64,
    unit: Text,
    out: &Output,
) -> Result<Option<Object<'a>>, Refused> {
    // SAFETY: the caller's promise, three times.
    let (given, value, unit) =
        unsafe { (text(given, c"object", out)?, optional(value), text(unit, c"object", out)?) };
    match (given, value, unit) {
        (None, None, None) => Ok(None),
        (Some(given), None, None) => Ok(Some(Object::Text(given))),
        (None, Some(value), unit) => Ok(Some(Object::Reading { value, unit })),
        _ => Err((Code::Schema, Some(c"object"))),
    }
}

/// # Safety
/// As [`object`].
unsafe fn belief<'a>(given: BeliefFields, out: &Output) -> Result<Belief<'a>, Refused> {
    // SAFETY: the caller's promise, for each pointer.
    unsafe {
        Ok(Belief {
            subject: text(given.subject, c"subject", out)?,
            relation: text(given.relation, c"relation", out)?,
            object: object(given.object, given.value, given.unit, out)?,
            confidence: optional(given.confidence),
            namespace: text(given.namespace, c"namespace", out)?,
            created_at: given.created_at,
        })
    }
}

fn encoding(number: c_int) -> Result<Encoding, Refused> {
    match number {
        0 => Ok(Encoding::Msgpack),
        1 => Ok(Encoding::Cbor),
        _ => Err((Code::Schema, None)),
    }
}

/// Tells C the result.
///
/// # Safety
/// Pointers that are not null can be written.
unsafe fn tell(result: Result<usize, Refused>, length: *mut usize, field: *mut *const c_char) -> c_int {
    let (code, written, name) = match result {
        Ok(written) => (0, written, None),
        Err((code, name)) => (number(code), 0, name),
    };
    if !length.is_null() {
        // SAFETY: not null, and the rest is the caller's promise.
        unsafe { length.write_unaligned(written) };
    }
    if !field.is_null() {
        // SAFETY: as above.
        unsafe { field.write_unaligned(name.map_or(ptr::null(), CStr::as_ptr)) };
    }
    if length.is_null() && code == 0 { number(Code::Schema) } else { code }
}

/// Writes a grain of the fields that C gives, and tells C the result.
///
/// # Safety
/// Pointers that are not null point to what the header says, and `out` to `room` bytes.
unsafe fn write_grain<Fields: Copy>(
    given: *const Fields,
    encoding: c_int,
    (out, room): (*mut u8, usize),
    length: *mut usize,
    field: *mut *const c_char,
    encode: unsafe fn(Fields, Encoding, Output) -> Result<usize, Refused>,
) -> c_int {
    let result = self::encoding(encoding).and_then(|encoding| {
        let out = Output::new(out, room)?;
        if given.is_null() {
            return Err((Code::Schema, None));
        }
        // SAFETY: not null, and the rest is the caller's promise; it need not be aligned.
        unsafe { encode(given.read_unaligned(), encoding, out) }
    });
    // SAFETY: the caller's promise.
    unsafe { tell(result, length, field) }
}

/// See omsgrain.h.
///
/// # Safety
/// As [`write_grain`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omsgrain_write_observation(
    observation: *const ObservationFields,
    encoding: c_int,
    out: *mut u8,
    room: usize,
    length: *mut usize,
    field: *mut *const c_char,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { write_grain(observation, encoding, (out, room), length, field, encode_observation) }
}

/// # Safety
/// As [`write_grain`].
unsafe fn encode_observation(
    given: ObservationFields,
    encoding: Encoding,
    out: Output,
) -> Result<usize, Refused> {
    // SAFETY: the caller's promise, for each pointer.
    let observation = unsafe {
        Observation {
            observer_id: text(given.observer_id, c"observer_id", &out)?,
            observer_type: text(given.observer_type, c"observer_type", &out)?,
            ..Observation::from(belief(given.statement, &out)?)
        }
    };
    // SAFETY: the caller's promise; no text overlaps the buffer.
    let out = unsafe { out.bytes() };
    observation.encoded(encoding, out).map(<[u8]>::len).map_err(for_c)
}

/// See omsgrain.h.
///
/// # Safety
/// As [`write_grain`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omsgrain_write_belief(
    belief: *const BeliefFields,
    encoding: c_int,
    out: *mut u8,
    room: usize,
    length: *mut usize,
    field: *mut *const c_char,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { write_grain(belief, encoding, (out, room), length, field, encode_belief) }
}

/// # Safety
/// As [`write_grain`].
unsafe fn encode_belief(given: BeliefFields, encoding: Encoding, out: Output) -> Result<usize, Refused> {
    // SAFETY: the caller's promise; no text overlaps the buffer.
    let (belief, out) = unsafe { (belief(given, &out)?, out.bytes()) };
    belief.encoded(encoding, out).map(<[u8]>::len).map_err(for_c)
}

const DIGITS: usize = 64;

/// # Safety
/// A pointer that is not null points to `length` bytes.
unsafe fn hex_address(blob: *const u8, length: usize) -> Result<[u8; DIGITS], Refused> {
    let apart = Output { data: ptr::null_mut(), room: 0 };
    // SAFETY: the caller's promise.
    let blob = unsafe { bytes(blob, length, &apart) }?;
    let mut digits = [0; DIGITS];
    address::write_hex(&address::sha256(blob), &mut digits);
    Ok(digits)
}

/// See omsgrain.h.
///
/// # Safety
/// `blob` points to `length` bytes, and `out` to 65, unless they are null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omsgrain_address(blob: *const u8, length: usize, out: *mut c_char) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { hex_address(blob, length) } {
        Ok(_) if out.is_null() => number(Code::Schema),
        Ok(digits) => {
            // SAFETY: the caller's promise: room for 64 digits and a zero byte.
            unsafe {
                out.cast::<u8>().copy_from(digits.as_ptr(), DIGITS);
                out.add(DIGITS).write(0);
            }
            0
        }
        Err((code, _)) => number(code),
    }
}

/// See omsgrain.h.
///
/// # Safety
/// `blob` points to `length` bytes, unless it is null; so does the address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omsgrain_check_address(blob: *const u8, length: usize, address: Text) -> c_int {
    let apart = Output { data: ptr::null_mut(), room: 0 };
    // SAFETY: the caller's promise, twice.
    let both = unsafe {
        bytes(address.data.cast(), address.length, &apart)
            .and_then(|expected| Ok((expected, hex_address(blob, length)?)))
    };
    let (expected, digits) = match both {
        Ok(both) => both,
        Err((code, _)) => return number(code),
    };
    if expected.len() != DIGITS {
        return number(Code::HashLength);
    }
    if !expected.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return number(Code::HashFormat);
    }
    if bool::from(expected.ct_eq(&digits[..])) { 0 } else { number(Code::Integrity) }
}

/// See omsgrain.h.
///
/// # Safety
/// `blobs` points to `count` blobs, each of them to its bytes, and `out` to `room` bytes, unless
/// they are null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omsgrain_write_mg(
    blobs: *const Blob,
    count: usize,
    out: *mut u8,
    room: usize,
    length: *mut usize,
) -> c_int {
    // SAFETY: the caller's promise.
    let result = unsafe { write_file(blobs, count, out, room) };
    // SAFETY: the caller's promise.
    unsafe { tell(result, length, ptr::null_mut()) }
}

/// # Safety
/// As [`omsgrain_write_mg`].
unsafe fn write_file(given: *const Blob, count: usize, out: *mut u8, room: usize) -> Result<usize, Refused> {
    let out = Output::new(out, room)?;
    let listed = if count == 0 {
        &[][..]
    } else {
        let size = count.checked_mul(size_of::<Blob>()).ok_or((Code::TooLarge, None))?;
        if given.is_null() || !given.is_aligned() || out.overlaps(given.cast(), size) {
            return Err((Code::Schema, None));
        }
        if size > isize::MAX as usize {
            return Err((Code::TooLarge, None));
        }
        // SAFETY: not null, aligned, not too long, apart from the output; the rest is the caller's
        // promise.
        unsafe { slice::from_raw_parts(given, count) }
    };
    for blob in listed {
        // SAFETY: the caller's promise.
        unsafe { bytes(blob.data, blob.length, &out) }?;
    }
    // SAFETY: the loop has checked each blob.
    let blobs = listed.iter().map(|blob| unsafe { slice::from_raw_parts(blob.data, blob.length) });
    // SAFETY: the caller's promise; no blob overlaps the buffer.
    let out = unsafe { out.bytes() };
    write_mg(blobs, out).map(<[u8]>::len).map_err(for_c)
}

/// See omsgrain.h.
#[unsafe(no_mangle)]
pub extern "C" fn omsgrain_code_name(code: c_int) -> *const c_char {
    if code == 0 {
        return c"OK".as_ptr();
    }
    CODES.iter().find(|(number, ..)| *number == code).map_or(ptr::null(), |(_, _, name)| name.as_ptr())
}

/// A program without std must have a panic handler and an allocator. The linker drops the allocator;
/// run.sh checks that.
#[cfg(not(feature = "std"))]
mod bare {
    use core::alloc::{GlobalAlloc, Layout};
    use core::ptr::null_mut;

    struct NoHeap;

    #[global_allocator]
    static NO_HEAP: NoHeap = NoHeap;

    // SAFETY: it allocates nothing.
    unsafe impl GlobalAlloc for NoHeap {
        unsafe fn alloc(&self, _: Layout) -> *mut u8 {
            null_mut()
        }

        unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
    }

    /// Code of `alloc` names it, and a linker without `--gc-sections` looks for it.
    #[unsafe(no_mangle)]
    extern "C" fn rust_eh_personality() {}

    #[panic_handler]
    fn stop(_: &core::panic::PanicInfo<'_>) -> ! {
        loop {
            core::hint::spin_loop();
        }
    }
}
