// SPDX-License-Identifier: Apache-2.0
//! The memtable: the index rows of the newest grains, after the watermark of a store's index.
//! Queries merge it with the rows on disk; a flush writes it to disk in sorted order.

use std::collections::{BTreeMap, HashMap, HashSet};

use smallvec::SmallVec;

use crate::address::Digest;
use crate::batch::on_all_cores;
use crate::index_rows::{Key, Place, bucket, rows};
use crate::indexed_paths::IndexedPaths;
use crate::{Code, Error, Result};

/// Rows by key. Keys are sorted at the first walk, and the places of a key at its first look-up.
/// Nearly every grain brings new keys, and a tree that is always sorted would cost a search for
/// each.
#[derive(Debug, Default)]
pub struct Memtable {
    /// The rows by the first byte of the key.
    kinds: BTreeMap<u8, Terms>,
    rows: usize,
    /// Whether fingerprints are in buckets.
    buckets: bool,
}

#[derive(Debug, Default)]
struct Terms {
    places: HashMap<Key, Places>,
    /// The same keys; those added since the last walk are at the end, unsorted.
    keys: Vec<Key>,
    sorted: bool,
}

#[derive(Debug, Default)]
struct Places {
    list: SmallVec<[Place; 1]>,
    sorted: bool,
}

impl Places {
    fn push(&mut self, place: Place) {
        self.sorted = self.list.is_empty() || self.sorted && self.list.last() < Some(&place);
        self.list.push(place);
    }

    fn sorted(&mut self) -> &[Place] {
        if !self.sorted {
            self.list.sort_unstable();
            self.sorted = true;
        }
        &self.list
    }
}

impl Terms {
    fn push(&mut self, key: &Key, place: Place) {
        if let Some(places) = self.places.get_mut(key) {
            return places.push(place);
        }
        self.sorted = self.keys.is_empty() || self.sorted && self.keys.last() < Some(key);
        self.keys.push(key.clone());
        self.places.entry(key.clone()).or_default().push(place);
    }

    /// The keys after this key, in order.
    fn after(&mut self, key: &[u8]) -> &[Key] {
        if !self.sorted {
            self.keys.sort(); // the front is in order, which this sort makes use of
            self.sorted = true;
        }
        &self.keys[self.keys.partition_point(|one| &one[..] <= key)..]
    }
}

/// The index rows of some grains, not yet in the memtable.
#[derive(Debug)]
pub struct Made(Vec<(Vec<Key>, Place)>);

/// Makes the rows of grains with their sequence numbers. A damaged blob gets no rows: it must not
/// hide the other grains, and a check of the store reports it.
///
/// # Errors
/// `ERR_RANGE` for a number beyond 32 bits.
pub fn make(grains: &[(u64, &Digest, &[u8])], paths: &IndexedPaths) -> Result<Made> {
    let size = grains.iter().map(|(_, _, blob)| blob.len()).sum();
    in_range(grains.last().map_or(0, |(sequence, ..)| *sequence))?;
    let made = on_all_cores(size, grains.len(), |i| {
        let (sequence, digest, blob) = grains[i];
        let mut keys = Vec::with_capacity(12);
        rows(blob, digest, sequence as u32, paths, |key| keys.push(key)).map(|place| (keys, place))
    });
    Ok(Made(made.into_iter().flatten().collect()))
}

/// Whether a sequence number fits into a place.
///
/// # Errors
/// `ERR_RANGE` if not.
pub fn in_range(sequence: u64) -> Result<()> {
    match u32::try_from(sequence) {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::new(Code::Range, "a store holds at most 2^32 - 1 grains")),
    }
}

/// Sorted rows for a table: whole keys, and the values of each.
#[derive(Debug, Default)]
pub struct Part {
    /// Each key with the end of its values.
    pub keys: Vec<(Key, usize)>,
    /// The concatenated values.
    pub places: Vec<Place>,
}

/// The grains whose rows a walk returns, by the sequence numbers in a place.
#[derive(Debug)]
pub enum Only<'s> {
    /// The rows of these grains.
    These(&'s HashSet<u32>),
    /// The rows of all other grains.
    Others(&'s HashSet<u32>),
}

impl Only<'_> {
    fn takes(&self, place: &Place) -> bool {
        let [.., a, b, c, d] = *place;
        let number = u32::from_be_bytes([a, b, c, d]);
        match self {
            Only::These(set) => set.contains(&number),
            Only::Others(set) => set.is_empty() || !set.contains(&number),
        }
    }
}

impl Memtable {
    /// A memtable with fingerprints in buckets; else each one is a key of its own.
    #[must_use]
    pub fn with_buckets() -> Memtable {
        Memtable { buckets: true, ..Memtable::default() }
    }

    /// Makes rows and adds them, without indexed paths.
    ///
    /// # Errors
    /// Those of [`make`]; then nothing is added.
    pub fn add(&mut self, grains: &[(u64, &Digest, &[u8])]) -> Result<()> {
        self.take(&make(grains, &IndexedPaths::default())?);
        Ok(())
    }

    /// Adds rows.
    pub fn take(&mut self, made: &Made) {
        for (keys, place) in &made.0 {
            self.rows += keys.len();
            for key in keys {
                let kind = key.first().copied().unwrap_or_default();
                let terms = self.kinds.entry(kind).or_default();
                match bucket(key, place).filter(|_| self.buckets) {
                    Some((key, place)) => terms.push(&key, place),
                    None => terms.push(key, *place),
                }
            }
        }
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of grains under a key.
    pub fn count(&self, key: &[u8]) -> usize {
        let terms = key.first().and_then(|kind| self.kinds.get(kind));
        terms.and_then(|terms| terms.places.get(key)).map_or(0, |places| places.list.len())
    }

    fn sorted(&mut self, key: &[u8]) -> Option<&[Place]> {
        let terms = key.first().and_then(|kind| self.kinds.get_mut(kind));
        terms.and_then(|terms| terms.places.get_mut(key)).map(Places::sorted)
    }

    /// Whether a place is under a key.
    pub fn has(&mut self, key: &[u8], place: &Place) -> bool {
        self.sorted(key).is_some_and(|list| list.binary_search(place).is_ok())
    }

    /// The next places under a key after `after`, in descending order if `newest` comes first.
    pub fn page(&mut self, key: &[u8], after: Option<&[u8]>, newest: bool, limit: usize) -> Vec<Place> {
        let Some(list) = self.sorted(key) else { return Vec::new() };
        if newest {
            let end = after.map_or(list.len(), |after| list.partition_point(|place| &place[..] < after));
            list[..end].iter().rev().take(limit).copied().collect()
        } else {
            let start = after.map_or(0, |after| list.partition_point(|place| &place[..] <= after));
            list[start..].iter().take(limit).copied().collect()
        }
    }

    /// The rows of the keys after `after`: whole keys, about `limit` rows. Empty at the end. A key
    /// without a wanted row has no places.
    pub fn rows_after(&mut self, after: Option<&[u8]>, limit: usize, only: &Only<'_>) -> Part {
        let after = after.unwrap_or_default();
        let first = after.first().copied().unwrap_or_default();
        let (mut part, mut taken) = (Part::default(), 0);
        for (_, terms) in self.kinds.range_mut(first..) {
            let mut keys: Vec<Key> = Vec::new();
            for key in terms.after(after) {
                if taken + keys.len() >= limit {
                    break;
                }
                keys.push(key.clone());
            }
            for key in keys {
                if taken >= limit {
                    return part;
                }
                let places = terms.places.get_mut(&key).map_or(&[][..], Places::sorted);
                taken += places.len();
                part.places.extend(places.iter().filter(|place| only.takes(place)));
                part.keys.push((key, part.places.len()));
            }
        }
        part
    }
}
