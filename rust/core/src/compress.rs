// SPDX-License-Identifier: Apache-2.0
//! Compressed payloads: one zstd frame. Our frames state their content size; others may not. Spec:
//! OMS §3.2, bit 2

use alloc::borrow::Cow;
use alloc::vec::Vec;

use crate::{Code, Error, Result};

#[cfg(feature = "zstd")]
pub(crate) const LEVEL: i32 = 3;
#[cfg(feature = "zstd")]
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Compresses a payload into one zstd frame.
///
/// # Errors
/// `ERR_UNSUPPORTED` in a build without zstd.
#[cfg(feature = "zstd")]
pub fn compress(payload: &[u8]) -> Result<Vec<u8>> {
    zstd::bulk::compress(payload, LEVEL)
        .map_err(|e| Error::new(Code::Unsupported, format!("zstd cannot compress this: {e}")))
}

/// Whether a zstd frame begins here.
#[cfg(feature = "zstd")]
pub fn is_frame(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// The length of the zstd frame at the start of `bytes`.
///
/// # Errors `ERR_CORRUPT` if there is none, or it is cut short.
#[cfg(feature = "zstd")]
pub fn frame_len(bytes: &[u8]) -> Result<usize> {
    if !is_frame(bytes) {
        return Err(Error::new(Code::Corrupt, "no zstd frame begins here").at(0));
    }
    zstd::zstd_safe::find_frame_compressed_size(bytes)
        .map_err(|_| Error::new(Code::Corrupt, "the zstd frame is broken").at(0))
}

/// The decompressed size that a zstd frame states, if it does.
///
/// # Errors
/// `ERR_CORRUPT` if its header is broken.
#[cfg(feature = "zstd")]
pub fn content_size(frame: &[u8]) -> Result<Option<usize>> {
    zstd::zstd_safe::get_frame_content_size(frame)
        .map(|size| size.map(|size| usize::try_from(size).unwrap_or(usize::MAX)))
        .map_err(|_| Error::new(Code::Corrupt, "the zstd frame is broken").at(0))
}

/// The payload in a zstd frame. A stated size is checked before decompression; without one,
/// decompression stops at `max`. So a bomb costs no more than a grain.
///
/// # Errors
/// `ERR_CORRUPT`; `ERR_TOO_LARGE` if it would be larger than `max`.
#[cfg(feature = "zstd")]
pub fn decompress(frame: &[u8], max: usize) -> Result<Cow<'_, [u8]>> {
    if !is_frame(frame) {
        return Err(Error::new(Code::Corrupt, "the compressed payload is not a zstd frame").at(0));
    }
    let too_large = |found: String| {
        Error::new(Code::TooLarge, "the unpacked payload is too large for a grain")
            .expected(format!("at most {max} bytes"))
            .found(found)
            .at(0)
    };
    let stated = content_size(frame)?;
    let size = stated.unwrap_or(0);
    if size > max {
        return Err(too_large(size.to_string()));
    }
    let len = frame_len(frame)?;
    if len != frame.len() {
        return Err(Error::new(Code::Corrupt, "bytes follow the zstd frame").at(len));
    }
    let mut payload = Vec::with_capacity(stated.unwrap_or(max));
    match zstd::zstd_safe::decompress(&mut payload, frame) {
        Ok(size) if stated.is_none_or(|stated| stated == size) => {
            if stated.is_none() {
                payload.shrink_to_fit();
            }
            Ok(Cow::Owned(payload))
        }
        Err(code) if stated.is_none() && code == NO_ROOM => Err(too_large("more".into())),
        _ => Err(Error::new(Code::Corrupt, "the zstd frame is broken").at(0)),
    }
}

/// zstd's result for a full output buffer: its error numbers are negative sizes.
#[cfg(feature = "zstd")]
const NO_ROOM: usize =
    (zstd::zstd_safe::zstd_sys::ZSTD_ErrorCode::ZSTD_error_dstSize_tooSmall as usize).wrapping_neg();

/// Built without zstd.
///
/// # Errors
/// Always `ERR_UNSUPPORTED`.
#[cfg(not(feature = "zstd"))]
pub fn compress(_: &[u8]) -> Result<Vec<u8>> {
    Err(Error::new(Code::Unsupported, "this build has no zstd"))
}

/// Built without zstd.
///
/// # Errors
/// Always `ERR_UNSUPPORTED`.
#[cfg(not(feature = "zstd"))]
pub fn decompress(_: &[u8], _: usize) -> Result<Cow<'_, [u8]>> {
    Err(Error::new(Code::Unsupported, "this build has no zstd"))
}
