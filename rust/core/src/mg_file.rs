// SPDX-License-Identifier: Apache-2.0
//! A .mg file in a caller's buffer: header, index, grains, SHA-256. Spec: OMS §11
//!
//! For machines without a file system of their own; `omsgrain.container` in Python packs, splits and
//! reads files of any size.

use crate::codec::Sink as _;
use crate::header::{AT_CREATED, LEN, MIN_BLOB, VERSION};
use crate::lightweight::{Refusal, Room};
use crate::{Code, address};

const HEADER: usize = 16;
const ENTRY: usize = 4;
const FOOTER: usize = 32;
/// Flag bit: the grains are in the order of their headers' times.
const SORTED: u8 = 1;

/// The size of a .mg file of so many grains with so many bytes together.
pub const fn mg_size(count: usize, bytes: usize) -> Option<usize> {
    let Some(index) = count.checked_mul(ENTRY) else { return None };
    let Some(size) = index.checked_add(bytes) else { return None };
    size.checked_add(HEADER + FOOTER)
}

/// Writes a .mg file of the blobs, in their order, and returns it.
///
/// ```
/// use omsgrain_core::{Object, Observation, write_mg};
///
/// let mut buffers = [[0; 512]; 2];
/// let mut blobs: [&[u8]; 2] = [&[]; 2];
/// for ((second, buffer), blob) in (0..).zip(&mut buffers).zip(&mut blobs) {
///     *blob = Observation {
///         observer_id: Some("thermometer 4"),
///         observer_type: Some("temperature"),
///         object: Some(Object::Reading { value: 22.5, unit: Some("Cel") }),
///         created_at: 1_768_471_200_000 + 1000 * second,
///         ..Observation::default()
///     }
///     .write(buffer)?;
/// }
/// let mut file = [0; 1024];
/// let file = write_mg(blobs.iter().copied(), &mut file)?;
/// assert_eq!(&file[..2], b"MG");
/// # Ok::<(), omsgrain_core::Refusal>(())
/// ```
///
/// # Errors
/// `ERR_TOO_SHORT` and `ERR_VERSION` for bytes that are not a blob; `ERR_TOO_LARGE` if the file has
/// more than 4 GiB, or is larger than the buffer.
pub fn write_mg<'g, 'b>(
    blobs: impl Iterator<Item = &'g [u8]> + Clone,
    out: &'b mut [u8],
) -> Result<&'b [u8], Refusal> {
    let refused = |code| Err(Refusal::of(code, None));
    let (mut count, mut bytes, mut sorted, mut last) = (0usize, 0usize, true, &[][..]);
    for blob in blobs.clone() {
        if blob.len() < MIN_BLOB {
            return refused(Code::TooShort);
        }
        if blob.first() != Some(&VERSION) {
            return refused(Code::Version);
        }
        let created_at = blob.get(AT_CREATED..LEN).unwrap_or_default();
        sorted &= last <= created_at;
        last = created_at;
        count = count.saturating_add(1);
        bytes = bytes.saturating_add(blob.len());
    }
    // Every offset is less than the size, and so fits an entry of the index.
    let fits = |size: &usize| *size <= out.len() && u32::try_from(*size).is_ok();
    if !mg_size(count, bytes).is_some_and(|size| fits(&size)) {
        return refused(Code::TooLarge);
    }
    let mut room = Room::new(out);
    room.extend_from_slice(&[b'M', b'G', 1, if sorted { SORTED } else { 0 }]);
    room.extend_from_slice(&(count as u32).to_be_bytes());
    // The version of the field map. Codec, manifest and the reserved bytes are absent.
    room.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0]);
    let mut at = (HEADER + ENTRY * count) as u32;
    for blob in blobs.clone() {
        room.extend_from_slice(&at.to_be_bytes());
        at = at.wrapping_add(blob.len() as u32);
    }
    for blob in blobs {
        room.extend_from_slice(blob);
    }
    let digest = address::sha256(room.written());
    room.extend_from_slice(&digest);
    room.finish()
}
