// SPDX-License-Identifier: Apache-2.0
//! The frames of a compressed container: each stands alone and holds about 1 MiB of grains, so
//! that reading one grain unpacks one frame. Spec: OMS §11

use std::io::{Read as _, Write as _};

use lz4_flex::frame::{BlockMode, BlockSize, FrameDecoder, FrameEncoder, FrameInfo};

use crate::{Code, Error, Result, compress};

/// How the grains of a container are packed; the numbers are those of its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Codec {
    Zstd = 1,
    Lz4 = 2,
}

/// The most that one frame may unpack to: what a reader must be ready to hold.
pub const MAX_FRAME: usize = 8 << 20;

const LZ4_MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];

/// Packs one frame, which states its content size and a checksum of it: so that damage is found in
/// the frame it is in.
///
/// # Errors
/// `ERR_UNSUPPORTED` in a build without the codec.
pub fn pack(codec: Codec, bytes: &[u8]) -> Result<Vec<u8>> {
    match codec {
        Codec::Zstd => compress::compress_checked(bytes),
        Codec::Lz4 => lz4(bytes).map_err(|e| Error::new(Code::Unsupported, format!("lz4: {e}"))),
    }
}

fn lz4(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let info = FrameInfo::new()
        .content_size(Some(bytes.len() as u64))
        .block_mode(BlockMode::Linked)
        .block_size(BlockSize::Max1MB)
        .content_checksum(true);
    let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

/// The length of the frame at the start of `bytes`, and of what it unpacks to; none if no frame
/// begins here (a manifest does).
///
/// # Errors
/// `ERR_CORRUPT` for a frame that is cut or does not state its content size; `ERR_TOO_LARGE` for
/// one that would unpack to more than [`MAX_FRAME`].
pub fn measure(codec: Codec, bytes: &[u8]) -> Result<Option<(usize, usize)>> {
    let found = match codec {
        Codec::Zstd if !compress::is_frame(bytes) => return Ok(None),
        Codec::Lz4 if !bytes.starts_with(&LZ4_MAGIC) => return Ok(None),
        Codec::Zstd => (compress::frame_len(bytes)?, compress::content_size(bytes)?),
        Codec::Lz4 => lz4_measure(bytes).ok_or_else(|| Error::new(Code::Corrupt, "a broken lz4 frame"))?,
    };
    if found.1 > MAX_FRAME {
        return Err(Error::new(Code::TooLarge, "a frame unpacks to more than a reader holds")
            .expected(format!("at most {MAX_FRAME} bytes"))
            .found(found.1.to_string()));
    }
    Ok(Some(found))
}

/// Spec: LZ4 frame format 1.6, "General structure of LZ4 frame format"
fn lz4_measure(bytes: &[u8]) -> Option<(usize, usize)> {
    let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let flags = *bytes.get(4)?;
    let (has_size, has_dictionary) = (flags & 0x08 != 0, flags & 0x01 != 0);
    let (block_sums, content_sum) = (flags & 0x10 != 0, flags & 0x04 != 0);
    if flags >> 6 != 1 || !has_size || has_dictionary {
        return None;
    }
    let size = u64::from_le_bytes(bytes.get(6..14)?.try_into().ok()?);
    let mut at = 15;
    loop {
        let len = word(at)? & 0x7fff_ffff;
        at += 4;
        if len == 0 {
            break;
        }
        at = at.checked_add(len as usize)?.checked_add(if block_sums { 4 } else { 0 })?;
    }
    at += if content_sum { 4 } else { 0 };
    (at <= bytes.len()).then_some((at, usize::try_from(size).unwrap_or(usize::MAX)))
}

/// Unpacks one whole frame.
///
/// # Errors
/// As [`measure`]; `ERR_CORRUPT` if it is broken, or bytes follow it.
pub fn unpack(codec: Codec, frame: &[u8]) -> Result<Vec<u8>> {
    let corrupt = || Error::new(Code::Corrupt, "a broken frame");
    let (len, size) = measure(codec, frame)?.ok_or_else(corrupt)?;
    if len != frame.len() {
        return Err(corrupt());
    }
    match codec {
        Codec::Zstd => compress::decompress(frame, MAX_FRAME).map(|payload| payload.into_owned()),
        Codec::Lz4 => {
            let mut out = Vec::with_capacity(size);
            let read = FrameDecoder::new(frame).take(size as u64 + 1).read_to_end(&mut out);
            if read.is_err() || out.len() != size { Err(corrupt()) } else { Ok(out) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_and_say_where_they_end() {
        let bytes: Vec<u8> = (0..300_000u32).flat_map(|i| (i % 251).to_le_bytes()).collect();
        for codec in [Codec::Zstd, Codec::Lz4] {
            let frame = pack(codec, &bytes).unwrap();
            let followed = [&frame[..], b"\x80"].concat();
            assert_eq!(measure(codec, &followed).unwrap(), Some((frame.len(), bytes.len())));
            assert_eq!(unpack(codec, &frame).unwrap(), bytes);
            assert!(unpack(codec, &followed).is_err() && unpack(codec, &frame[..frame.len() - 1]).is_err());
            assert_eq!(measure(codec, b"\x80").unwrap(), None);
            for at in (0..frame.len()).step_by(frame.len() / 50) {
                let mut bad = frame.clone();
                bad[at] ^= 0x10;
                assert!(unpack(codec, &bad).is_err() || unpack(codec, &bad).unwrap().len() == bytes.len());
            }
        }
    }
}
