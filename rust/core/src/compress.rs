// SPDX-License-Identifier: Apache-2.0
//! Compressed payloads: one zstd frame that states its content size. Spec: OMS §3.2, bit 2

use std::borrow::Cow;

use crate::{Code, Error, Result};

#[cfg(feature = "zstd")]
const LEVEL: i32 = 3;
#[cfg(feature = "zstd")]
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// One zstd frame of a payload.
///
/// # Errors
/// `ERR_UNSUPPORTED` in a build without zstd.
#[cfg(feature = "zstd")]
pub fn compress(payload: &[u8]) -> Result<Vec<u8>> {
    zstd::bulk::compress(payload, LEVEL)
        .map_err(|e| Error::new(Code::Unsupported, format!("zstd cannot compress this: {e}")))
}

/// The payload in a zstd frame. The size that the frame states is checked before anything is
/// unpacked, so a bomb costs nothing.
///
/// # Errors
/// `ERR_CORRUPT`; `ERR_TOO_LARGE` if it would be larger than `max`.
#[cfg(feature = "zstd")]
pub fn decompress(frame: &[u8], max: usize) -> Result<Cow<'_, [u8]>> {
    use zstd::zstd_safe;
    let corrupt = |message: &'static str| Error::new(Code::Corrupt, message).at(0);
    if !frame.starts_with(&MAGIC) {
        return Err(corrupt("the compressed payload is not a zstd frame"));
    }
    let Ok(Some(size)) = zstd_safe::get_frame_content_size(frame) else {
        return Err(corrupt("the zstd frame does not state its content size"));
    };
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    if size > max {
        return Err(Error::new(Code::TooLarge, "the payload unpacks to more than a grain may have")
            .expected(format!("at most {max} bytes"))
            .found(size.to_string())
            .at(0));
    }
    match zstd_safe::find_frame_compressed_size(frame) {
        Ok(len) if len == frame.len() => {}
        Ok(len) => {
            return Err(Error::new(Code::Corrupt, "bytes follow the zstd frame").at(len));
        }
        Err(_) => return Err(corrupt("the zstd frame is broken")),
    }
    match zstd::bulk::decompress(frame, size) {
        Ok(payload) if payload.len() == size => Ok(Cow::Owned(payload)),
        _ => Err(corrupt("the zstd frame is broken")),
    }
}

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
