// SPDX-License-Identifier: Apache-2.0
//! Reading many blobs for one thread that takes them in order, while other threads read ahead of it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::batch::{PARALLEL_FROM, pool_if, total};
use crate::decode::{self, Opened, Parsed};
use crate::lane::Reader;

/// Blobs that a thread reads before it looks for others.
const PART: usize = 256;
/// Blobs that are read, at most, before they are taken: so that the trees and unpacked payloads of
/// a large batch do not all stand in memory at once.
const AHEAD: usize = 2048;

/// A blob that was read, and what was made ready of it.
type Read<'o, T> = (crate::Result<Parsed<'o>>, T);
/// What makes something ready of a blob that was read.
type Prepare<'w, T> = &'w (dyn Fn(&Parsed<'_>, &[u8]) -> T + Sync);

/// Reads blobs and hands each over, with its position, in order and on this thread.
///
/// What is read on this thread, and waiting for others, is done inside of `free`, which lets go of
/// what this thread holds. What `prepare` makes of a blob goes along; whichever thread reads the blob
/// makes it. The first error of `take` ends all.
///
/// # Errors
/// That of `take`.
pub fn read_each<'p, T: Default + Send, E>(
    blobs: &[&'p [u8]],
    prepare: impl Fn(&Parsed<'_>, &[u8]) -> T + Sync,
    free: impl Fn(&(dyn Fn() + Sync)),
    mut take: impl FnMut(usize, crate::Result<Parsed<'_>>, T) -> Result<(), E>,
) -> Result<(), E> {
    let pool = pool_if(total(blobs) >= PARALLEL_FROM && blobs.len() > PART);
    let threads = pool.as_ref().map_or(1, |pool| pool.current_num_threads());
    let readers: Vec<Mutex<Reader<'p>>> = (0..threads).map(|_| Mutex::default()).collect();
    for (i, blobs) in blobs.chunks(AHEAD).enumerate() {
        let parts: Vec<_> = blobs.chunks(PART).collect();
        let opened: Vec<OnceLock<Vec<crate::Result<Opened<'p>>>>> =
            parts.iter().map(|_| OnceLock::new()).collect();
        let wave = Wave {
            read: Mutex::new(parts.iter().map(|_| None).collect()),
            parts,
            prepare: &prepare,
            opened: &opened,
            next: AtomicUsize::new(0),
            ready: Condvar::new(),
        };
        let mut take_all = || {
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
        match &pool {
            Some(pool) if threads > 1 && wave.parts.len() > 1 => pool.in_place_scope(|scope| {
                for reader in &readers[1..] {
                    let wave = &wave;
                    scope.spawn(move |_| while wave.read_one(reader) {});
                }
                take_all()
            })?,
            _ => take_all()?,
        }
    }
    Ok(())
}

/// Parts of a batch, each read by whichever thread comes first.
struct Wave<'o, 'p, T> {
    parts: Vec<&'o [&'p [u8]]>,
    prepare: Prepare<'o, T>,
    opened: &'o [OnceLock<Vec<crate::Result<Opened<'p>>>>],
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

/// A part that is being read. It is put in its place in any case, since who takes it waits for it.
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
