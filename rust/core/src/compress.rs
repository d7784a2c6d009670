// SPDX-License-Identifier: Apache-2.0
//! Compressed payloads: one zstd frame that states its content size. Spec: OMS §3.2, bit 2

use alloc::borrow::Cow;
use alloc::vec::Vec;

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

/// The same, with a checksum of the content.
///
/// # Errors
/// As [`compress`].
#[cfg(feature = "zstd")]
pub fn compress_checked(bytes: &[u8]) -> Result<Vec<u8>> {
    let pack = || {
        let mut compressor = zstd::bulk::Compressor::new(LEVEL)?;
        compressor.include_checksum(true)?;
        compressor.compress(bytes)
    };
    pack().map_err(|e| Error::new(Code::Unsupported, format!("zstd cannot compress this: {e}")))
}

/// Whether a zstd frame begins here.
#[cfg(feature = "zstd")]
pub fn is_frame(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// The length of the zstd frame at the start of `bytes`.
///
/// # Errors
/// `ERR_CORRUPT` if there is none, or it is cut.
#[cfg(feature = "zstd")]
pub fn frame_len(bytes: &[u8]) -> Result<usize> {
    if !is_frame(bytes) {
        return Err(Error::new(Code::Corrupt, "no zstd frame begins here").at(0));
    }
    zstd::zstd_safe::find_frame_compressed_size(bytes)
        .map_err(|_| Error::new(Code::Corrupt, "the zstd frame is broken").at(0))
}

/// The size that a zstd frame says it unpacks to.
///
/// # Errors
/// `ERR_CORRUPT` if it does not say.
#[cfg(feature = "zstd")]
pub fn content_size(frame: &[u8]) -> Result<usize> {
    match zstd::zstd_safe::get_frame_content_size(frame) {
        Ok(Some(size)) => Ok(usize::try_from(size).unwrap_or(usize::MAX)),
        _ => Err(Error::new(Code::Corrupt, "the zstd frame does not state its content size").at(0)),
    }
}

/// The payload in a zstd frame. The size that the frame states is checked before anything is
/// unpacked, so a bomb costs nothing.
///
/// # Errors
/// `ERR_CORRUPT`; `ERR_TOO_LARGE` if it would be larger than `max`.
#[cfg(feature = "zstd")]
pub fn decompress(frame: &[u8], max: usize) -> Result<Cow<'_, [u8]>> {
    if !is_frame(frame) {
        return Err(Error::new(Code::Corrupt, "the compressed payload is not a zstd frame").at(0));
    }
    let size = content_size(frame)?;
    if size > max {
        return Err(Error::new(Code::TooLarge, "the payload unpacks to more than a grain may have")
            .expected(format!("at most {max} bytes"))
            .found(size.to_string())
            .at(0));
    }
    let len = frame_len(frame)?;
    if len != frame.len() {
        return Err(Error::new(Code::Corrupt, "bytes follow the zstd frame").at(len));
    }
    match zstd::bulk::decompress(frame, size) {
        Ok(payload) if payload.len() == size => Ok(Cow::Owned(payload)),
        _ => Err(Error::new(Code::Corrupt, "the zstd frame is broken").at(0)),
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

/// Built without zstd.
///
/// # Errors
/// Always `ERR_UNSUPPORTED`.
#[cfg(not(feature = "zstd"))]
pub fn frame_len(_: &[u8]) -> Result<usize> {
    Err(Error::new(Code::Unsupported, "this build has no zstd"))
}
