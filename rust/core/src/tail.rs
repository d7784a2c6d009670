// SPDX-License-Identifier: Apache-2.0
//! The index rows of the grains that came last, in memory: what stands beyond the watermark of a
//! store's index. Queries merge it with the rows on disk; a flush writes it out in sorted order.

use std::collections::BTreeMap;
use std::ops::Bound;

use smallvec::SmallVec;

use crate::address::Digest;
use crate::batch::on_all_cores;
use crate::fingerprint::Fingerprint;
use crate::index_rows::{Key, Kind, Place, of_fingerprint, rows};
use crate::{Code, Error, Result};

/// Rows by key. The places of a key are sorted when they are first asked for.
#[derive(Debug, Default)]
pub struct Tail {
    terms: BTreeMap<Key, Places>,
    /// The fingerprints stand apart. Nearly every grain brings one of its own, at a random place,
    /// and in the small nodes of short keys that takes a quarter of the time.
    prints: BTreeMap<Fingerprint, Places>,
    rows: usize,
}

#[derive(Debug, Default)]
struct Places {
    list: SmallVec<[Place; 1]>,
    sorted: bool,
}

impl Places {
    fn sorted(&mut self) -> &[Place] {
        if !self.sorted {
            self.list.sort_unstable();
            self.sorted = true;
        }
        &self.list
    }
}

impl Tail {
    /// Adds grains whose sequence numbers are those beside them. A blob that is damaged gets no
    /// rows: it must not keep the others from being found, and a check of the store names it.
    ///
    /// # Errors
    /// `ERR_RANGE` for a number beyond 32 bits; nothing is added then.
    pub fn add(&mut self, grains: &[(u64, &Digest, &[u8])]) -> Result<()> {
        let size = grains.iter().map(|(_, _, blob)| blob.len()).sum();
        if grains.last().is_some_and(|(sequence, ..)| u32::try_from(*sequence).is_err()) {
            return Err(Error::new(Code::Range, "a store holds at most 2^32 - 1 grains"));
        }
        let made = on_all_cores(size, grains.len(), |i| {
            let (sequence, digest, blob) = grains[i];
            let mut keys = Vec::with_capacity(12);
            rows(blob, digest, sequence as u32, |key| keys.push(key)).map(|place| (keys, place))
        });
        for (keys, place) in made.into_iter().flatten() {
            self.rows += keys.len();
            for key in keys {
                let places = match fingerprint_of(&key) {
                    Some(print) => self.prints.entry(*print).or_default(),
                    None => self.terms.entry(key).or_default(),
                };
                places.sorted = places.list.is_empty() || places.sorted && places.list.last() < Some(&place);
                places.list.push(place);
            }
        }
        Ok(())
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How many grains are under a key.
    pub fn count(&self, key: &[u8]) -> usize {
        let places = match fingerprint_of(key) {
            Some(print) => self.prints.get(print),
            None => self.terms.get(key),
        };
        places.map_or(0, |places| places.list.len())
    }

    fn sorted(&mut self, key: &[u8]) -> Option<&[Place]> {
        let places = match fingerprint_of(key) {
            Some(print) => self.prints.get_mut(print),
            None => self.terms.get_mut(key),
        };
        places.map(Places::sorted)
    }

    /// Whether a place is under a key.
    pub fn has(&mut self, key: &[u8], place: &Place) -> bool {
        self.sorted(key).is_some_and(|list| list.binary_search(place).is_ok())
    }

    /// The next places under a key: after `after`, downwards if `newest` comes first.
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

    /// The rows of the keys after `key`, whole keys at a time, about `limit` rows.
    pub fn rows_after(&mut self, key: Option<&[u8]>, limit: usize) -> Vec<(Key, &[Place])> {
        let after = key.unwrap_or_default();
        let mut terms =
            self.terms.range_mut::<[u8], _>((Bound::Excluded(after), Bound::Unbounded)).peekable();
        let mut prints = self.prints.range_mut((first_print(after), Bound::Unbounded));
        let (mut out, mut taken) = (Vec::new(), 0);
        while taken < limit {
            let next = match terms.next_if(|(key, _)| key[0] < Kind::Fingerprint as u8) {
                Some((key, places)) => Some((key.clone(), places)),
                None => match prints.next() {
                    Some((print, places)) => Some((of_fingerprint(print), places)),
                    None => terms.next().map(|(key, places)| (key.clone(), places)),
                },
            };
            let Some((key, places)) = next else { break };
            taken += places.list.len();
            out.push((key, places.sorted()));
        }
        out
    }
}

fn fingerprint_of(key: &[u8]) -> Option<&Fingerprint> {
    let (kind, print) = key.split_first()?;
    if *kind == Kind::Fingerprint as u8 { print.try_into().ok() } else { None }
}

/// Where the fingerprints begin whose keys come after a key, which need not be one of theirs.
fn first_print(after: &[u8]) -> Bound<Fingerprint> {
    let mut first = Fingerprint::default();
    let Some((kind, print)) = after.split_first() else { return Bound::Included(first) };
    if *kind == Kind::Fingerprint as u8 {
        let len = print.len().min(first.len());
        first[..len].copy_from_slice(&print[..len]);
        return if print.len() < first.len() { Bound::Included(first) } else { Bound::Excluded(first) };
    }
    if *kind < Kind::Fingerprint as u8 { Bound::Included(first) } else { Bound::Excluded([0xff; 16]) }
}
