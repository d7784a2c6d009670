// SPDX-License-Identifier: Apache-2.0
//! The frames of a compressed container: one of any size, or many of about 1 MiB, so that reading
//! one grain decompresses one frame. Small frames are decompressed whole, others piece by piece.
//! Spec: OMS §11

use std::hash::Hasher as _;
use std::io::{self, BufRead, Read, Write as _};

use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
use twox_hash::XxHash32;

use crate::{Code, Error, Result, compress};

/// The codec of a container's grains; the numbers are those of its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Codec {
    Zstd = 1,
    Lz4 = 2,
}

/// The most that a frame may decompress to if it is decompressed whole: a reader must have room
/// for it.
pub const MAX_FRAME: usize = 8 << 20;

/// The largest window of a zstd frame that is read piece by piece: the limit of zstd's own reader.
pub const MAX_WINDOW: u64 = 1 << MAX_WINDOW_LOG;
const MAX_WINDOW_LOG: u32 = 27;

const LZ4_MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];

/// Packs one frame, which states its content size and a checksum, so that damage is found in its
/// frame.
///
/// # Errors
/// `ERR_UNSUPPORTED` if the library refuses.
pub fn pack(codec: Codec, bytes: &[u8]) -> Result<Vec<u8>> {
    let mut packing = Packing::new(codec, bytes.len() as u64)?;
    let mut frame = packing.add(bytes)?;
    frame.append(&mut packing.finish()?);
    Ok(frame)
}

/// An unfinished frame: content goes in piece by piece, and its bytes come out piece by piece.
pub struct Packing(Packer);

enum Packer {
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
    Lz4(Box<FrameEncoder<Vec<u8>>>),
}

impl Packing {
    /// Begins a frame that states its content size, which must be known, and a checksum.
    ///
    /// # Errors
    /// `ERR_UNSUPPORTED` if the library refuses.
    pub fn new(codec: Codec, size: u64) -> Result<Packing> {
        Ok(Packing(match codec {
            Codec::Zstd => Packer::Zstd(zstd_packer(size).map_err(refused)?),
            Codec::Lz4 => {
                let info = FrameInfo::new()
                    .content_size(Some(size))
                    .block_mode(BlockMode::Linked)
                    .block_size(BlockSize::Max1MB)
                    .content_checksum(true);
                Packer::Lz4(Box::new(FrameEncoder::with_frame_info(info, Vec::new())))
            }
        }))
    }

    /// Adds content. Returns the bytes of the frame that are ready.
    ///
    /// # Errors `ERR_UNSUPPORTED` if the library refuses: the content is longer than the stated
    /// size.
    pub fn add(&mut self, bytes: &[u8]) -> Result<Vec<u8>> {
        match &mut self.0 {
            Packer::Zstd(packer) => {
                packer.write_all(bytes).map_err(refused)?;
                Ok(std::mem::take(packer.get_mut()))
            }
            Packer::Lz4(packer) => {
                packer.write_all(bytes).map_err(refused)?;
                Ok(std::mem::take(packer.get_mut()))
            }
        }
    }

    /// Ends the frame. Returns its last bytes.
    ///
    /// # Errors `ERR_UNSUPPORTED` if the library refuses: the content does not have the stated
    /// size.
    pub fn finish(self) -> Result<Vec<u8>> {
        match self.0 {
            Packer::Zstd(packer) => packer.finish().map_err(refused),
            Packer::Lz4(packer) => packer.finish().map_err(|e| refused(e.into())),
        }
    }
}

fn zstd_packer(size: u64) -> io::Result<zstd::stream::write::Encoder<'static, Vec<u8>>> {
    let mut packer = zstd::stream::write::Encoder::new(Vec::new(), compress::LEVEL)?;
    packer.include_checksum(true)?;
    packer.set_pledged_src_size(Some(size))?;
    Ok(packer)
}

fn refused(error: io::Error) -> Error {
    Error::new(Code::Unsupported, format!("the codec cannot pack this: {error}"))
}

/// A frame of any size, decompressed piece by piece. It may omit its content size; a stated size
/// must be right.
pub struct Unpacking<R: BufRead>(Unpacker<R>);

enum Unpacker<R: BufRead> {
    Zstd(Box<zstd::stream::read::Decoder<'static, Counted<R>>>),
    Lz4(Box<Lz4<Counted<R>>>),
}

impl<R: BufRead> Unpacking<R> {
    /// Begins with the frame at the start of the input. It reads nothing after the end of that
    /// frame.
    ///
    /// # Errors Those of the input; `InvalidData` if no frame begins there, `OutOfMemory` if its
    /// window is larger than [`MAX_WINDOW`].
    pub fn new(codec: Codec, input: R) -> io::Result<Self> {
        let mut input = Counted { input, taken: 0 };
        let head = input.fill_buf()?;
        Ok(Unpacking(match codec {
            Codec::Zstd => {
                if !compress::is_frame(head) {
                    return Err(invalid("no zstd frame begins here"));
                }
                if zstd_window(head).is_none_or(|window| window > MAX_WINDOW) {
                    return Err(io::Error::new(io::ErrorKind::OutOfMemory, "the window of a zstd frame"));
                }
                let mut decoder = zstd::stream::read::Decoder::with_buffer(input)?.single_frame();
                decoder.window_log_max(MAX_WINDOW_LOG)?;
                Unpacker::Zstd(Box::new(decoder))
            }
            Codec::Lz4 => Unpacker::Lz4(Box::new(Lz4::new(input)?)),
        }))
    }

    /// The length of the frame, as far as it was read.
    pub fn taken(&self) -> u64 {
        match &self.0 {
            Unpacker::Zstd(decoder) => decoder.get_ref().taken,
            Unpacker::Lz4(decoder) => decoder.input.taken,
        }
    }
}

/// At the end of the frame it returns no bytes. Broken frames are `InvalidData` or
/// `UnexpectedEof`.
impl<R: BufRead> Read for Unpacking<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            Unpacker::Zstd(decoder) => decoder.read(out),
            Unpacker::Lz4(decoder) => decoder.read(out),
        }
    }
}

/// The window size of a zstd frame; None if its head is cut short. Spec: RFC 8878 §3.1.1.1
fn zstd_window(head: &[u8]) -> Option<u64> {
    let descriptor = *head.get(4)?;
    if descriptor & 0x20 != 0 {
        // One segment: the window is the content.
        return zstd::zstd_safe::get_frame_content_size(head).ok()?;
    }
    let byte = u64::from(*head.get(5)?);
    let base = 1u64 << (10 + (byte >> 3));
    Some(base + base / 8 * (byte & 7))
}

fn invalid(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

/// Counts the bytes that are consumed.
struct Counted<R> {
    input: R,
    taken: u64,
}

impl<R: BufRead> Read for Counted<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let size = self.input.read(out)?;
        self.taken += size as u64;
        Ok(size)
    }
}

impl<R: BufRead> BufRead for Counted<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.input.fill_buf()
    }

    fn consume(&mut self, size: usize) {
        self.input.consume(size);
        self.taken += size as u64;
    }
}

/// The frame descriptor of an lz4 frame. Spec: LZ4 frame format 1.6, "Frame Descriptor"
struct Lz4Head {
    linked: bool,
    block_sums: bool,
    content_sum: bool,
    content_size: Option<u64>,
    max_block: usize,
    len: usize,
}

impl Lz4Head {
    /// None if no supported head is here; a head with a dictionary is not supported.
    fn parse(bytes: &[u8]) -> Option<Lz4Head> {
        let &[flags, sizes, ..] = bytes.strip_prefix(&LZ4_MAGIC)? else { return None };
        let has_size = flags & 0x08 != 0;
        if flags & 0xc3 != 0x40 || sizes & 0x8f != 0 || sizes >> 4 < 4 {
            return None;
        }
        let len = if has_size { 15 } else { 7 };
        bytes.get(len - 1)?;
        let content_size =
            if has_size { Some(u64::from_le_bytes(bytes[6..14].try_into().ok()?)) } else { None };
        Some(Lz4Head {
            linked: flags & 0x20 == 0,
            block_sums: flags & 0x10 != 0,
            content_sum: flags & 0x04 != 0,
            content_size,
            max_block: 1 << (8 + 2 * u32::from(sizes >> 4)),
            len,
        })
    }
}

/// How far back an lz4 block may refer.
const LZ4_WINDOW: usize = 64 << 10;

/// The blocks of an lz4 frame, in order.
struct Lz4<R> {
    input: R,
    head: Lz4Head,
    packed: Vec<u8>,
    /// The end of the earlier blocks, then this block.
    plain: Vec<u8>,
    /// Where this block begins there, and how much of it was returned.
    start: usize,
    given: usize,
    size: u64,
    sum: XxHash32,
    ended: bool,
}

impl<R: BufRead> Lz4<R> {
    fn new(mut input: R) -> io::Result<Self> {
        let bytes = input.fill_buf()?;
        let head = Lz4Head::parse(bytes).ok_or_else(|| invalid("no lz4 frame begins here"))?;
        let said = XxHash32::oneshot(0, &bytes[4..head.len - 1]) >> 8;
        if said as u8 != bytes[head.len - 1] {
            return Err(invalid("the checksum of the head of an lz4 frame"));
        }
        input.consume(head.len);
        Ok(Lz4 {
            input,
            head,
            packed: Vec::new(),
            plain: Vec::new(),
            start: 0,
            given: 0,
            size: 0,
            sum: XxHash32::with_seed(0),
            ended: false,
        })
    }

    fn word(&mut self) -> io::Result<u32> {
        let mut word = [0; 4];
        self.input.read_exact(&mut word)?;
        Ok(u32::from_le_bytes(word))
    }

    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.given == self.plain.len() && !self.ended {
            self.next_block()?;
        }
        let rest = &self.plain[self.given..];
        let size = rest.len().min(out.len());
        out[..size].copy_from_slice(&rest[..size]);
        self.given += size;
        Ok(size)
    }

    fn next_block(&mut self) -> io::Result<()> {
        let word = self.word()?;
        if word == 0 {
            return self.end();
        }
        let (len, stored) = ((word & 0x7fff_ffff) as usize, word >> 31 == 1);
        if len > self.head.max_block {
            return Err(invalid("an lz4 block is larger than its frame says"));
        }
        self.packed.resize(len, 0);
        self.input.read_exact(&mut self.packed)?;
        if self.head.block_sums && self.word()? != XxHash32::oneshot(0, &self.packed) {
            return Err(invalid("the checksum of an lz4 block"));
        }
        let kept = if self.head.linked { self.plain.len().min(LZ4_WINDOW) } else { 0 };
        self.plain.drain(..self.plain.len() - kept);
        self.start = kept;
        if stored {
            self.plain.extend_from_slice(&self.packed);
        } else {
            self.plain.resize(kept + self.head.max_block, 0);
            let (before, room) = self.plain.split_at_mut(kept);
            let size = lz4_flex::block::decompress_into_with_dict(&self.packed, room, before)
                .map_err(|_| invalid("a broken lz4 block"))?;
            self.plain.truncate(kept + size);
        }
        self.given = kept;
        let block = &self.plain[kept..];
        self.size += block.len() as u64;
        if self.head.content_sum {
            self.sum.write(block);
        }
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        self.ended = true;
        if self.head.content_size.is_some_and(|size| size != self.size) {
            return Err(invalid("the content size of an lz4 frame"));
        }
        if self.head.content_sum && self.word()? != self.sum.finish_32() {
            return Err(invalid("the checksum of an lz4 frame"));
        }
        Ok(())
    }
}

/// Whether the frame that begins here must be decompressed piece by piece: it states no content
/// size, or one above [`MAX_FRAME`]. Its first 18 bytes show it. False for bytes that are not a
/// frame.
pub fn is_long(codec: Codec, head: &[u8]) -> bool {
    let stated = match codec {
        Codec::Zstd if !compress::is_frame(head) => return false,
        Codec::Zstd => compress::content_size(head).map(|size| size.map(|size| size as u64)),
        Codec::Lz4 => match Lz4Head::parse(head) {
            Some(head) => Ok(head.content_size),
            None => return false,
        },
    };
    stated.is_ok_and(|size| size.is_none_or(|size| size > MAX_FRAME as u64))
}

/// The length of the frame at the start of `bytes`, and its decompressed length; None if no frame
/// begins here (a manifest does).
///
/// # Errors `ERR_CORRUPT` for a frame that is cut short or does not state its content size;
/// `ERR_TOO_LARGE` for one above [`MAX_FRAME`].
pub fn measure(codec: Codec, bytes: &[u8]) -> Result<Option<(usize, usize)>> {
    let broken = |reason| Error::new(Code::Corrupt, reason).at(0);
    let (length, size) = match codec {
        Codec::Zstd if !compress::is_frame(bytes) => return Ok(None),
        Codec::Lz4 if !bytes.starts_with(&LZ4_MAGIC) => return Ok(None),
        Codec::Zstd => (compress::frame_len(bytes)?, compress::content_size(bytes)?),
        Codec::Lz4 => lz4_measure(bytes).ok_or_else(|| broken("a broken lz4 frame"))?,
    };
    let size = size.ok_or_else(|| broken("the frame does not state its content size"))?;
    if size > MAX_FRAME {
        return Err(Error::new(Code::TooLarge, "the frame unpacks to more than the limit")
            .expected(format!("at most {MAX_FRAME} bytes"))
            .found(size.to_string()));
    }
    Ok(Some((length, size)))
}

/// Spec: LZ4 frame format 1.6, "General structure of LZ4 frame format"
fn lz4_measure(bytes: &[u8]) -> Option<(usize, Option<usize>)> {
    let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let head = Lz4Head::parse(bytes)?;
    let mut at = head.len;
    loop {
        let len = word(at)? & 0x7fff_ffff;
        at += 4;
        if len == 0 {
            break;
        }
        at = at.checked_add(len as usize)?.checked_add(if head.block_sums { 4 } else { 0 })?;
    }
    at += if head.content_sum { 4 } else { 0 };
    let size = head.content_size.map(|size| usize::try_from(size).unwrap_or(usize::MAX));
    (at <= bytes.len()).then_some((at, size))
}

/// Decompresses one whole frame.
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
            let unpacking = Unpacking::new(codec, frame).map_err(|_| corrupt())?;
            let read = unpacking.take(size as u64 + 1).read_to_end(&mut out);
            if read.is_err() || out.len() != size { Err(corrupt()) } else { Ok(out) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpacked(codec: Codec, frame: &[u8]) -> io::Result<(Vec<u8>, u64)> {
        let mut unpacking = Unpacking::new(codec, frame)?;
        let mut out = Vec::new();
        unpacking.read_to_end(&mut out)?;
        Ok((out, unpacking.taken()))
    }

    #[test]
    fn long_frames_come_back_in_pieces() {
        let bytes: Vec<u8> = (0..3_000_000u32).flat_map(|i| (i / 7 % 65_521).to_le_bytes()).collect();
        for codec in [Codec::Zstd, Codec::Lz4] {
            let mut packing = Packing::new(codec, bytes.len() as u64).unwrap();
            let mut frame = Vec::new();
            for piece in bytes.chunks(100_000) {
                frame.append(&mut packing.add(piece).unwrap());
            }
            frame.append(&mut packing.finish().unwrap());
            assert!(is_long(codec, &frame[..18]) && !is_long(codec, &pack(codec, b"short").unwrap()));
            let followed = [&frame[..], b"\x80"].concat();
            assert_eq!(unpacked(codec, &followed).unwrap(), (bytes.clone(), frame.len() as u64));
            assert!(unpacked(codec, &frame[..frame.len() - 1]).is_err() && unpacked(codec, b"\x80").is_err());
            let mut short = Packing::new(codec, 10).unwrap();
            assert!(short.add(b"nine char").is_err() || short.finish().is_err());
        }
    }

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
