// SPDX-License-Identifier: Apache-2.0
//! Sorted runs of blind rows: entries of one size, in chunks that fill a page.
//!
//! Blind rows are HMACs, so each row alone would be on a random page. The rows that one commit
//! writes for a user are a run instead, and runs of about one size are merged.
//!
//! ```text
//! entry    token, 16 bytes ++ place, 16 bytes
//! chunk    entries in order, each once; every chunk of a run but the last is full
//! ```

use std::collections::HashSet;
use std::ops::Range;

use crate::index_rows::{Place, VALUE};
use crate::{Code, Error, Result};

/// Bytes of an entry.
pub const ENTRY: usize = 32;
/// A row of a run.
pub type Entry = [u8; ENTRY];

/// Entries of a full chunk: with LMDB's header they fill a page of 4,096 bytes.
pub const FULL: usize = 127;

/// The entries of some chunks, in order and each once.
///
/// # Errors
/// `ERR_CORRUPT` for a chunk that ends within an entry.
pub fn merged(chunks: &[&[u8]]) -> Result<Vec<Entry>> {
    let mut entries = Vec::with_capacity(chunks.iter().map(|chunk| chunk.len()).sum::<usize>() / ENTRY);
    for chunk in chunks {
        entries.extend_from_slice(whole(chunk)?);
    }
    entries.sort(); // stable, which finds the runs that are in order already
    entries.dedup();
    Ok(entries)
}

/// Which entries of a chunk begin with a prefix.
///
/// # Errors
/// `ERR_CORRUPT` for a chunk that ends within an entry.
pub fn under(chunk: &[u8], prefix: &[u8]) -> Result<Range<usize>> {
    let entries = whole(chunk)?;
    let start = entries.partition_point(|entry| entry[..] < *prefix);
    let more = entries[start..].partition_point(|entry| entry.starts_with(prefix));
    Ok(start..start + more)
}

/// The entries of a chunk without some, which are in order, and those of them that it lacks. None
/// if it has none of them.
///
/// # Errors
/// `ERR_CORRUPT` for a chunk that ends within an entry.
pub fn without(chunk: &[u8], removed: &[Entry]) -> Result<(Option<Vec<Entry>>, Vec<Entry>)> {
    let entries = whole(chunk)?;
    let lacks = |some: &[Entry], entry: &Entry| some.binary_search(entry).is_err();
    let kept: Vec<Entry> = entries.iter().filter(|entry| lacks(removed, entry)).copied().collect();
    let missing = removed.iter().filter(|entry| lacks(entries, entry)).copied().collect();
    Ok(((kept.len() < entries.len()).then_some(kept), missing))
}

/// Places that are in all lists, which may be in any order.
///
/// # Errors
/// `ERR_CORRUPT` for a list that ends within a place.
pub fn common(lists: &[&[u8]]) -> Result<Vec<Place>> {
    let mut lists: Vec<&[Place]> = lists.iter().map(|list| split(list)).collect::<Result<_>>()?;
    lists.sort_by_key(|list| list.len());
    let Some((first, others)) = lists.split_first() else { return Ok(Vec::new()) };
    let mut kept: HashSet<Place> = first.iter().copied().collect();
    for other in others {
        // Most places of a long list are in no short one: two bytes of the number tell that.
        let mut ends = vec![false; 1 << 16];
        kept.iter().for_each(|place| ends[end(place)] = true);
        let there = |place: &&Place| ends[end(place)] && kept.contains(*place);
        kept = other.iter().filter(there).copied().collect();
    }
    Ok(kept.into_iter().collect())
}

fn end(place: &Place) -> usize {
    usize::from(place[VALUE - 2]) << 8 | usize::from(place[VALUE - 1])
}

/// Bytes as entries.
///
/// # Errors
/// `ERR_CORRUPT` if they end within an entry.
pub fn whole(chunk: &[u8]) -> Result<&[Entry]> {
    split(chunk)
}

fn split<const N: usize>(bytes: &[u8]) -> Result<&[[u8; N]]> {
    match bytes.as_chunks() {
        (entries, []) => Ok(entries),
        _ => Err(Error::new(Code::Corrupt, "the rows of encrypted grains are damaged")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(n: u8) -> Entry {
        let mut entry = [n / 2; ENTRY];
        entry[ENTRY - 1] = n;
        entry
    }

    fn chunk(numbers: &[u8]) -> Vec<u8> {
        numbers.iter().flat_map(|n| entry(*n)).collect()
    }

    #[test]
    fn merged_runs_are_in_order() {
        let (a, b, c) = (chunk(&[1, 4, 9]), chunk(&[2, 4, 200]), chunk(&[]));
        let entries = merged(&[&a, &b, &c]).unwrap();
        assert_eq!(entries.concat(), chunk(&[1, 2, 4, 9, 200]));
    }

    #[test]
    fn a_prefix_has_its_entries() {
        let whole = chunk(&[1, 4, 5, 9]);
        assert_eq!(under(&whole, &[2; 16]).unwrap(), 1..3);
        assert_eq!(under(&whole, &entry(5)).unwrap(), 2..3);
        assert_eq!(under(&whole, &[3; 16]).unwrap(), 3..3);
        assert_eq!(under(&whole, &[]).unwrap(), 0..4);
        assert_eq!(under(&whole, &[9; 16]).unwrap(), 4..4);
        assert_eq!(under(&[], &[1]).unwrap(), 0..0);
    }

    #[test]
    fn removed_entries_are_gone() {
        let whole = chunk(&[1, 4, 5, 9]);
        let none = [entry(3), entry(6)];
        assert_eq!(without(&whole, &none).unwrap(), (None, none.to_vec()));
        let (kept, missing) = without(&whole, &[entry(1), entry(2), entry(9)]).unwrap();
        assert_eq!((kept.unwrap().concat(), missing), (chunk(&[4, 5]), vec![entry(2)]));
    }

    #[test]
    fn common_values_are_in_all_lists() {
        let list = |numbers: &[u8]| numbers.iter().flat_map(|n| [*n; VALUE]).collect::<Vec<u8>>();
        let lists = [list(&[1, 3, 4, 2]), list(&[2, 9, 4, 1]), list(&[4, 2, 7, 7, 7])];
        let lists: Vec<&[u8]> = lists.iter().map(|list| &list[..]).collect();
        let mut found = common(&lists).unwrap();
        found.sort_unstable();
        assert_eq!(found, [[2; VALUE], [4; VALUE]]);
        assert!(common(&[]).unwrap().is_empty());
        assert_eq!(common(&[&lists[0][1..]]).unwrap_err().kind(), Code::Corrupt);
    }

    #[test]
    fn damaged_chunks_are_refused() {
        let cut = &chunk(&[1, 4])[..40];
        for code in [
            merged(&[cut]).unwrap_err().kind(),
            under(cut, &[]).unwrap_err().kind(),
            without(cut, &[]).unwrap_err().kind(),
        ] {
            assert_eq!(code, Code::Corrupt);
        }
    }
}
