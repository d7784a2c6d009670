// SPDX-License-Identifier: Apache-2.0
//! Many grains at once, on all cores, in input order. A bad grain is reported by its position and
//! does not affect the others.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use crate::address::{Digest, parse};
use crate::decode::{Opened, Parsed};
use crate::index_rows::Place;
use crate::shape_cache::Reader;
use crate::{Error, Header, Result, address, decode, sha256_lanes};

/// A thread takes as long to start as a few KiB of work, so each gets at least this many bytes.
pub(crate) const LEAST: usize = 32 << 10;
/// Messages that a thread hashes side by side before it takes others.
const PART: usize = 512;
/// Items of other work that a thread takes at once.
const FEW: usize = 64;

/// A refused item.
#[derive(Clone, Debug)]
pub struct Refused {
    /// Its position in the input.
    pub index: usize,
    /// Its line, from 1, if the input has lines.
    pub line: Option<usize>,
    /// The error.
    pub error: Error,
}

/// A warning about one item.
#[derive(Clone, Debug)]
pub struct Warned {
    /// Its position in the input.
    pub index: usize,
    /// Its line, from 1, if the input has lines.
    pub line: Option<usize>,
    /// The message.
    pub message: String,
}

/// The good grains of a batch, concatenated, and the refused items.
#[derive(Debug, Default)]
pub struct Batch {
    /// The concatenated blobs.
    pub bytes: Vec<u8>,
    /// The end of each blob.
    pub ends: Vec<usize>,
    /// The address of each, after [`Batch::hash`].
    pub digests: Vec<Digest>,
    /// The input position of each blob.
    pub indices: Vec<usize>,
    /// The refused items, in order.
    pub refused: Vec<Refused>,
    /// The warnings, in order.
    pub warned: Vec<Warned>,
}

impl Batch {
    /// The number of good grains.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no good grain.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// One blob.
    pub fn blob(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.bytes[start..self.ends[i]]
    }

    /// Adds one item that `encode` appends to the bytes it is given.
    pub fn add(
        &mut self,
        index: usize,
        line: Option<usize>,
        encode: impl FnOnce(&mut Vec<u8>, &mut Vec<String>) -> Result<()>,
    ) {
        let mut messages = Vec::new();
        let written = encode(&mut self.bytes, &mut messages);
        self.took(index, line, written, messages);
    }

    /// Records an item that was appended to the bytes, or refused.
    pub(crate) fn took(
        &mut self,
        index: usize,
        line: Option<usize>,
        written: Result<()>,
        messages: Vec<String>,
    ) {
        match written {
            Ok(()) => {
                self.ends.push(self.bytes.len());
                self.indices.push(index);
            }
            Err(error) => self.refused.push(Refused { index, line, error }),
        }
        self.warned.extend(messages.into_iter().map(|message| Warned { index, line, message }));
    }

    /// Adds one item that the shape cache appends to the given bytes, unless it declines.
    #[inline]
    pub fn put(&mut self, index: usize, encode: impl FnOnce(&mut Vec<u8>) -> bool) -> bool {
        let accepted = encode(&mut self.bytes);
        if accepted {
            self.ends.push(self.bytes.len());
            self.indices.push(index);
        }
        accepted
    }

    /// Computes the addresses.
    pub fn hash(&mut self) {
        let this = &*self;
        let digests = digests_on_all_cores(this.bytes.len(), this.len(), |i| this.blob(i));
        self.digests = digests;
    }

    /// Computes the missing addresses, on this thread alone.
    pub(crate) fn hash_here(&mut self) {
        let known = self.digests.len();
        let digests = sha256_lanes::digests(self.len() - known, |i| self.blob(known + i));
        self.digests.extend(digests);
    }

    /// Reserves room for the good grains of these batches.
    pub(crate) fn reserve<'b>(&mut self, parts: impl Iterator<Item = &'b Batch> + Clone) {
        self.bytes.reserve(parts.clone().map(|part| part.bytes.len()).sum());
        let count = parts.map(Batch::len).sum();
        self.ends.reserve(count);
        self.indices.reserve(count);
        self.digests.reserve(count);
    }

    /// Appends a batch whose items follow those of this one.
    pub fn append(&mut self, other: Batch, items_before: usize, lines_before: usize) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes);
        self.ends.extend(other.ends.iter().map(|end| start + end));
        self.digests.extend_from_slice(&other.digests);
        self.indices.extend(other.indices.iter().map(|i| items_before + i));
        let line = |line: Option<usize>| line.map(|line| lines_before + line);
        self.refused.extend(other.refused.into_iter().map(|r| Refused {
            index: items_before + r.index,
            line: line(r.line),
            error: r.error,
        }));
        self.warned.extend(other.warned.into_iter().map(|w| Warned {
            index: items_before + w.index,
            line: line(w.line),
            message: w.message,
        }));
    }
}

/// The address of each blob.
pub fn address_many(blobs: &[&[u8]]) -> Vec<Digest> {
    digests_on_all_cores(total(blobs), blobs.len(), |i| blobs[i])
}

/// The digest of each message; those of one part are hashed side by side.
fn digests_on_all_cores<'m>(
    bytes: usize,
    count: usize,
    message: impl Fn(usize) -> &'m [u8] + Sync,
) -> Vec<Digest> {
    in_parts(bytes, count, PART, |part| sha256_lanes::digests(part.len(), |i| message(part.start + i)))
}

/// Checks each blob in full, with its address.
pub fn verify_many(pairs: &[(&[u8], Digest)]) -> Vec<Result<Header>> {
    let size = pairs.iter().map(|(blob, _)| blob.len()).sum();
    in_parts(size, pairs.len(), PART, |part| {
        let part = &pairs[part];
        let digests = sha256_lanes::digests(part.len(), |i| part[i].0);
        let mut reader = Reader::default();
        let each = part.iter().zip(&digests).map(|((blob, expected), digest)| {
            address::same(digest, expected)?;
            decode::verify_by(&mut reader, blob)
        });
        each.collect()
    })
}

/// The address of each blob, and whether it is good.
pub fn check_many(blobs: &[&[u8]]) -> Vec<(Digest, Result<Header>)> {
    in_parts(total(blobs), blobs.len(), PART, |part| {
        let part = &blobs[part];
        let digests = sha256_lanes::digests(part.len(), |i| part[i]);
        let mut reader = Reader::default();
        let verdicts = part.iter().map(|blob| decode::verify_by(&mut reader, blob));
        digests.into_iter().zip(verdicts).collect()
    })
}

/// The total number of bytes.
pub fn total(blobs: &[&[u8]]) -> usize {
    blobs.iter().map(|blob| blob.len()).sum()
}

/// Calls `work` for 0..count, in parallel if there are enough bytes to share.
pub fn on_all_cores<T: Send>(bytes: usize, count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    in_parts(bytes, count, FEW, |part| part.map(&work).collect())
}

/// Calls `work` for 0..count, or for parts of it in parallel if there are enough bytes to share, and
/// concatenates what it returns.
pub(crate) fn in_parts<T: Send>(
    bytes: usize,
    count: usize,
    part: usize,
    work: impl Fn(Range<usize>) -> Vec<T> + Sync,
) -> Vec<T> {
    let threads = threads(bytes).min(count.div_ceil(part));
    if threads < 2 {
        return work(0..count);
    }
    let parts: Vec<Mutex<Vec<T>>> = (0..count.div_ceil(part)).map(|_| Mutex::default()).collect();
    on_threads(threads, parts.len(), &|i| {
        let made = work(i * part..count.min((i + 1) * part));
        *parts[i].lock().unwrap_or_else(PoisonError::into_inner) = made;
    });
    let made = parts.into_iter().map(|part| part.into_inner().unwrap_or_else(PoisonError::into_inner));
    made.flatten().collect()
}

/// Calls `work` for 0..count on this many threads. It is compiled once, whatever the work is.
fn on_threads(threads: usize, count: usize, work: &(dyn Fn(usize) + Sync)) {
    let next = AtomicUsize::new(0);
    let run = || {
        while let Some(i) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|i| *i < count) {
            work(i);
        }
    };
    beside(threads - 1, &run, run);
}

/// Calls `others` on this many threads, and `this` on the calling one. They end with the call: none
/// is left for a fork to lose. A thread that the system refuses is done without.
fn beside<T>(threads: usize, others: &(dyn Fn() + Sync), this: impl FnOnce() -> T) -> T {
    thread::scope(|scope| {
        for _ in 0..threads {
            if thread::Builder::new().spawn_scoped(scope, others).is_err() {
                break;
            }
        }
        this()
    })
}

/// How many threads share this many bytes of work: at most one a core, or `OMSGRAIN_THREADS`.
pub(crate) fn threads(bytes: usize) -> usize {
    static MOST: OnceLock<usize> = OnceLock::new();
    let shares = bytes / LEAST;
    if shares < 2 {
        return 1;
    }
    let most = MOST.get_or_init(|| {
        let told = std::env::var("OMSGRAIN_THREADS").ok().and_then(|told| told.parse().ok());
        told.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from))
    });
    shares.min(*most).max(1)
}

// Reads many blobs for one thread that takes them in order, while other threads read ahead.

/// Blobs that a thread reads before it takes others.
const AHEAD_PART: usize = 256;
/// The most blobs that are read ahead: the trees and decompressed payloads of a large batch must
/// not all be in memory at once.
const AHEAD: usize = 2048;

/// A blob that was read, and the result of `prepare`.
type Read<'o, T> = (Result<Parsed<'o>>, T);
/// Prepares a result from a blob that was read.
type Prepare<'w, T> = &'w (dyn Fn(&Parsed<'_>, &[u8]) -> T + Sync);

/// Reads blobs and passes each on with its position, in order and on this thread.
///
/// Reading on this thread, and waiting for others, happens inside `free`, which releases what this
/// thread holds. The thread that reads a blob also calls `prepare` for it. The first error of
/// `take` ends the call.
///
/// # Errors
/// That of `take`.
pub fn read_each<'p, T: Default + Send, E>(
    blobs: &[&'p [u8]],
    prepare: impl Fn(&Parsed<'_>, &[u8]) -> T + Sync,
    free: impl Fn(&(dyn Fn() + Sync)),
    mut take: impl FnMut(usize, Result<Parsed<'_>>, T) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let threads = threads(total(blobs)).min(blobs.len().div_ceil(AHEAD_PART));
    let readers: Vec<Mutex<Reader<'p>>> = (0..threads).map(|_| Mutex::default()).collect();
    for (i, blobs) in blobs.chunks(AHEAD).enumerate() {
        let parts: Vec<_> = blobs.chunks(AHEAD_PART).collect();
        let opened: Vec<OnceLock<Vec<Result<Opened<'p>>>>> = parts.iter().map(|_| OnceLock::new()).collect();
        let wave = Wave {
            read: Mutex::new(parts.iter().map(|_| None).collect()),
            parts,
            prepare: &prepare,
            opened: &opened,
            next: AtomicUsize::new(0),
            ready: Condvar::new(),
        };
        let take_all = || {
            let mut at = i * AHEAD;
            for part in 0..wave.parts.len() {
                if wave.lock()[part].is_none() {
                    free(&|| wave.until(part, &readers[0]));
                }
                // Not in the head of the loop, which would hold the lock to its end.
                let read = wave.lock()[part].take().unwrap_or_default();
                for (one, ready) in read {
                    take(at, one, ready)?;
                    at += 1;
                }
            }
            Ok(())
        };
        let reader = AtomicUsize::new(1);
        let read_ahead = || {
            let reader = &readers[reader.fetch_add(1, Ordering::Relaxed)];
            while wave.read_one(reader) {}
        };
        beside(threads.min(wave.parts.len()).saturating_sub(1), &read_ahead, take_all)?;
    }
    Ok(())
}

/// Parts of a batch, each read by the first free thread.
struct Wave<'o, 'p, T> {
    parts: Vec<&'o [&'p [u8]]>,
    prepare: Prepare<'o, T>,
    opened: &'o [OnceLock<Vec<Result<Opened<'p>>>>],
    next: AtomicUsize,
    read: Mutex<Vec<Option<Vec<Read<'o, T>>>>>,
    ready: Condvar,
}

impl<'o, 'p: 'o, T: Default> Wave<'o, 'p, T> {
    fn lock(&self) -> MutexGuard<'_, Vec<Option<Vec<Read<'o, T>>>>> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads until this part has been read.
    fn until(&self, part: usize, reader: &Mutex<Reader<'p>>) {
        while self.lock()[part].is_none() && self.read_one(reader) {}
        let still = |read: &mut Vec<Option<_>>| read[part].is_none();
        drop(self.ready.wait_while(self.lock(), still).unwrap_or_else(PoisonError::into_inner));
    }

    /// Reads the next part that no thread has begun; false if there is none.
    fn read_one(&self, reader: &Mutex<Reader<'p>>) -> bool {
        let part = self.next.fetch_add(1, Ordering::Relaxed);
        let Some(blobs) = self.parts.get(part) else { return false };
        let mut put = Put { wave: self, part, read: Vec::with_capacity(blobs.len()) };
        let opened = self.opened[part].get_or_init(|| blobs.iter().map(|blob| decode::open(blob)).collect());
        let mut reader = reader.lock().unwrap_or_else(PoisonError::into_inner);
        put.read.extend(blobs.iter().zip(opened).map(|(blob, opened)| match opened {
            Ok((header, payload)) => {
                let one = decode::read_by(&mut reader, *header, blob, payload);
                let ready = one.as_ref().map(|grain| (self.prepare)(grain, blob)).unwrap_or_default();
                (one, ready)
            }
            Err(refused) => (Err(refused.clone()), T::default()),
        }));
        true
    }
}

/// A part that is being read. It is stored in any case, since a thread may wait for it.
struct Put<'w, 'o, 'p, T> {
    wave: &'w Wave<'o, 'p, T>,
    part: usize,
    read: Vec<Read<'o, T>>,
}

impl<T> Drop for Put<'_, '_, '_, T> {
    fn drop(&mut self) {
        let read = std::mem::take(&mut self.read);
        self.wave.read.lock().unwrap_or_else(PoisonError::into_inner)[self.part] = Some(read);
        self.wave.ready.notify_all();
    }
}

// Grains in a query: places of the index, with blobs that are hashed together.

/// The address of each blob. Its row begins with `skip` other bytes.
pub fn addresses(rows: &[&[u8]], skip: usize) -> Vec<Digest> {
    let blobs: Vec<&[u8]> = rows.iter().map(|row| row.get(skip..).unwrap_or_default()).collect();
    address_many(&blobs)
}

/// Whether a grain with this address belongs at a place: the place contains six bytes of it.
pub fn is_at(place: &Place, digest: &Digest) -> bool {
    place[6..12].iter().zip(digest).all(|(a, b)| *a == !*b)
}

/// The same for an address in hex.
pub fn fits(place: &Place, address: &str) -> bool {
    parse(address).is_ok_and(|digest| is_at(place, &digest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::sha256;
    use crate::index_rows::place;

    #[test]
    fn threads_share_a_batch_in_order() {
        for (threads, count) in [(1, 5), (2, 0), (3, 1), (8, 1000)] {
            let calls = Mutex::new(vec![0; count]);
            on_threads(threads, count, &|i| calls.lock().unwrap()[i] += 1);
            assert!(calls.into_inner().unwrap().iter().all(|calls| *calls == 1));
        }
        let blobs: Vec<Vec<u8>> = (0..1000).map(|i: u32| [i.to_be_bytes(); 50].concat()).collect();
        let blobs: Vec<&[u8]> = blobs.iter().map(Vec::as_slice).collect();
        let expected: Vec<_> = blobs.iter().map(|blob| address::sha256(blob)).collect();
        assert_eq!(address_many(&blobs), expected);
    }

    #[test]
    fn a_grain_is_told_from_its_neighbour() {
        let rows: [&[u8]; 3] = [b"mark-one", b"mark-two and more", b"no"];
        let found = addresses(&rows, 5);
        assert_eq!(found, [sha256(b"one"), sha256(b"two and more"), sha256(b"")]);
        let hex = |digest: &Digest| digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let here = place(1_700_000_000_000, &found[0], 9);
        assert!(fits(&here, &hex(&found[0])));
        assert!(!fits(&here, &hex(&found[1])));
        assert!(!fits(&here, "no address"));
    }
}
