// SPDX-License-Identifier: Apache-2.0
//! Lightweight beliefs for C, without an operating system. See omsgrain.h.
//!
//! A bare machine has no allocator and no panic handler. This crate has both, and with C's pointers
//! they are the reason for its `unsafe`.
#![no_std]

extern crate alloc;

mod heap;

use alloc::{borrow::Cow, vec::Vec};
use core::ffi::{CStr, c_char};

use omsgrain_core::codec::{Encoding, LIGHTWEIGHT};
use omsgrain_core::encode::{Options, encode};
use omsgrain_core::Value;
use omsgrain_core::{Code, Error, address};

/// The fields of a belief from C.
#[repr(C)]
pub struct Belief {
    subject: *const c_char,
    relation: *const c_char,
    object: *const c_char,
    namespace: *const c_char,
    confidence: f64,
    created_at: i64,
    cbor: i32,
}

/// See omsgrain.h.
///
/// # Safety
/// The texts end with a zero byte, or are null; `out` has `room` bytes, and `error` 32.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omsgrain_belief(
    belief: &Belief,
    out: *mut u8,
    room: usize,
    error: *mut [u8; 32],
) -> usize {
    // SAFETY: the caller's promise.
    match unsafe { blob(belief) } {
        Ok(blob) if blob.len() <= room => {
            // SAFETY: the buffers have room for them, and the new bytes do not overlap.
            unsafe { out.copy_from_nonoverlapping(blob.as_ptr(), blob.len()) };
            blob.len()
        }
        refused => {
            let code = refused.err().map_or(Code::TooLarge, |error| error.kind());
            let mut text = [0; 32];
            let name = code.as_str().as_bytes();
            let len = name.len().min(text.len() - 1);
            text[..len].copy_from_slice(&name[..len]);
            // SAFETY: the caller's promise.
            unsafe { error.write(text) };
            0
        }
    }
}

/// # Safety
/// The texts end with a zero byte, or are null.
unsafe fn blob(belief: &Belief) -> Result<Vec<u8>, Error> {
    let texts = [
        ("subject", belief.subject),
        ("relation", belief.relation),
        ("object", belief.object),
        ("namespace", belief.namespace),
    ];
    let mut fields = Vec::with_capacity(7);
    fields.push((Cow::Borrowed("type"), Value::Str("belief".into())));
    let mut left = LIGHTWEIGHT.max_size;
    for (name, text) in texts.into_iter().filter(|(_, text)| !text.is_null()) {
        // SAFETY: the caller's promise.
        let text = unsafe { CStr::from_ptr(text) }.to_str();
        let text = text.map_err(|_| Error::new(Code::Corrupt, "not UTF-8").in_key(name))?;
        // Checked before any allocation: without memory, no error would reach C.
        let too_large = || Error::new(Code::TooLarge, "more than a lightweight grain may hold").in_key(name);
        left = left.checked_sub(text.len()).ok_or_else(too_large)?;
        fields.push((name.into(), Value::Str(text.into())));
    }
    fields.push(("confidence".into(), Value::Float(belief.confidence)));
    fields.push(("created_at".into(), Value::Int(belief.created_at)));
    let encoding = if belief.cbor == 0 { Encoding::Msgpack } else { Encoding::Cbor };
    encode(&&Value::Map(fields), &Options { encoding, profile: LIGHTWEIGHT, ..Options::default() })
}

/// See omsgrain.h.
///
/// # Safety
/// `bytes` has `len` bytes, and `out` 65.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omsgrain_address(bytes: *const u8, len: usize, out: *mut [u8; 65]) {
    // SAFETY: the caller's promise.
    let digest = address::sha256(unsafe { core::slice::from_raw_parts(bytes, len) });
    let mut text = [0; 64];
    address::write_hex(&digest, &mut text);
    let mut ended = [0; 65];
    ended[..64].copy_from_slice(&text);
    // SAFETY: the caller's promise.
    unsafe { out.write(ended) };
}

/// See omsgrain.h.
#[unsafe(no_mangle)]
pub extern "C" fn omsgrain_memory() -> usize {
    heap::HEAP.most()
}

#[panic_handler]
fn stop(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
