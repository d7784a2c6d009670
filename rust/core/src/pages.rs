// SPDX-License-Identifier: Apache-2.0
//! A walk over the pages of an LMDB file: whether they fit together, and the sums of its tables.
//!
//! LMDB trusts its pages. Its answers show most damage, but not that of the list of free pages or
//! of a page's own number: these say where the next commit writes. So all trees are walked from
//! their roots. No page may be met twice, and the keys must be in the order that look-ups rely on.
//! Then a table's rows are those that look-ups find, and their sum tells whether they are the
//! expected ones, without a look-up for each.
//!
//! ```text
//! tree    u32 size of values or of pages ++ u16 flags ++ u16 depth ++ u64 branch, leaf and
//!         overflow pages, entries, root
//! page    header (own number, u64; u16 size of values; u16 flags; u16 lower; u16 upper) ++ u16
//!         place of each node; an overflow page has a u32 number of pages for lower and upper
//! node    u16 low, u16 high, u16 flags, u16 size of the key ++ key ++ data
//! ```

use std::cmp::Ordering;
use std::collections::HashSet;

use crate::Result;
use crate::address::Digest;
use crate::addresses;
use crate::batch::on_all_cores;
use crate::index_rows::{Key, bucket, rows};
use crate::indexed_paths::IndexedPaths;
use crate::memtable::in_range;

const HEADER: usize = 16;
const TREE: usize = 48;
const NODE: usize = 8;
/// Flags of a page.
const BRANCH: u16 = 0x01;
const LEAF: u16 = 0x02;
const OVERFLOW: u16 = 0x04;
const FIXED: u16 = 0x20;
/// Flags of a page inside a node; LMDB leaves the first in the file.
const DIRTY: u16 = 0x10;
const INSIDE: u16 = 0x40;
/// Flags of a node: what its data are.
const BIG: u16 = 0x01;
const TREE_HERE: u16 = 0x02;
const PAGE_HERE: u16 = 0x04;
/// The flags of the tree of free pages: its keys are integers.
const INTEGER_KEYS: u16 = 0x08;
const NO_PAGE: u64 = u64::MAX;
const DEEPEST: u16 = 32;

/// A message about pages that do not fit.
pub type Broken = String;
type Found<T> = core::result::Result<T, Broken>;

/// Reads the file of a store.
pub trait Source {
    /// Returns bytes from an offset; fewer at the end of the file.
    fn read(&mut self, at: u64, size: usize) -> Vec<u8>;

    /// Returns how many bytes there are.
    fn size(&mut self) -> u64;
}

/// The rows of a table, whatever their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// The number of rows.
    pub rows: u64,
    /// The sum of their hashes, modulo 2^128.
    pub sum: u128,
}

impl Sum {
    /// Adds a row. The hash finds damage; it does not withstand an attacker, who could change the
    /// grains as well.
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        self.rows += 1;
        self.sum = self.sum.wrapping_add(hash(key, value));
    }

    fn join(&mut self, other: &Self) {
        self.rows += other.rows;
        self.sum = self.sum.wrapping_add(other.sum);
    }
}

fn hash(key: &[u8], value: &[u8]) -> u128 {
    let (mut one, mut other) = (0x9e37_79b9_7f4a_7c15, 0xd1b5_4a32_d192_ed03 ^ key.len() as u64);
    for part in key.chunks(8).chain(value.chunks(8)) {
        let mut bytes = [0; 8];
        bytes[..part.len()].copy_from_slice(part);
        let word = u64::from_le_bytes(bytes);
        one = folded(one ^ word, 0xa076_1d64_78bd_642f);
        other = folded(other ^ word.rotate_left(32), 0xe703_7ed1_a0b4_28db);
    }
    let last = value.len() as u64;
    u128::from(folded(one ^ last, 0x8ebc_6af0_9c88_c6e3)) << 64 | u128::from(folded(other, !last))
}

fn folded(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    // Adding `a` keeps a factor of zero from wiping out what came before.
    ((product as u64) ^ ((product >> 64) as u64)).wrapping_add(a.rotate_left(17))
}

/// The expected rows of the index tables of some grains.
#[derive(Clone, Copy, Debug, Default)]
pub struct Expected {
    /// The terms of current grains.
    pub current: Sum,
    /// The terms of past grains.
    pub past: Sum,
    /// The addresses.
    pub addresses: Sum,
}

impl Expected {
    /// Adds grains with their sequence numbers, and whether they are past. As in a rebuild, a
    /// damaged blob has no terms.
    ///
    /// # Errors
    /// `ERR_RANGE` for a number beyond 32 bits.
    pub fn add(&mut self, grains: &[(u64, &Digest, &[u8], bool)], paths: &IndexedPaths) -> Result<()> {
        in_range(grains.iter().map(|(sequence, ..)| *sequence).max().unwrap_or_default())?;
        let size = grains.iter().map(|(_, _, blob, _)| blob.len()).sum();
        let sums = on_all_cores(size, grains.len(), |i| {
            let (sequence, digest, blob, _) = grains[i];
            let mut keys: Vec<Key> = Vec::with_capacity(12);
            let mut sum = Sum::default();
            if let Ok(place) = rows(blob, digest, sequence as u32, paths, |key| keys.push(key)) {
                for key in &keys {
                    match bucket(key, &place) {
                        Some((key, place)) => sum.add(&key, &place),
                        None => sum.add(key, &place),
                    }
                }
            }
            sum
        });
        for (sum, (sequence, digest, _, past)) in sums.iter().zip(grains) {
            let terms = if *past { &mut self.past } else { &mut self.current };
            terms.join(sum);
            let (key, value) = addresses::row(digest, *sequence)?;
            self.addresses.add(&key, &value);
        }
        Ok(())
    }
}

/// A table of the main tree.
#[derive(Debug)]
pub struct Table {
    /// Its name.
    pub name: Vec<u8>,
    /// Its flags, as LMDB was asked to make it.
    pub flags: u16,
    /// Its rows; the sum is zero unless it was wanted.
    pub sum: Sum,
}

/// How many pages of a list of free pages have at least some number.
///
/// # Errors
/// A message about the pages that do not fit.
pub fn free_pages(source: &mut dyn Source, size: usize, last: u64, free: &[u8], from: u64) -> Found<usize> {
    let listed = Walk::new(source, size, last)?.free(free)?;
    Ok(listed.iter().filter(|page| **page >= from).count())
}

/// Walks all pages of a commit, given by the trees of free pages and of tables. Returns the tables,
/// with the sums of those that are named.
///
/// # Errors
/// A message about the pages that do not fit.
pub fn walk(
    source: &mut dyn Source,
    size: usize,
    last: u64,
    trees: (&[u8], &[u8]),
    summed: &[Vec<u8>],
) -> Found<Vec<Table>> {
    let (free, main) = trees;
    if Tree::read(free)?.flags != INTEGER_KEYS || Tree::read(main)?.flags != 0 {
        return Err("the flags of a root are damaged".to_owned());
    }
    let mut walk = Walk::new(source, size, last)?;
    walk.free(free)?;
    let mut tables = Vec::new();
    walk.tree(main, false, &mut |walk, row| {
        if let Data::Tree(record) = row.data {
            let mut table =
                Table { name: row.key.to_vec(), flags: Tree::read(record)?.flags, sum: Sum::default() };
            let wanted = summed.iter().any(|name| name == row.key);
            walk.tree(record, false, &mut |walk, row| walk.rows(row, wanted, &mut table.sum))?;
            tables.push(table);
        }
        Ok(())
    })?;
    Ok(tables)
}

struct Tree {
    fixed: u32,
    flags: u16,
    depth: u16,
    entries: u64,
    root: u64,
}

impl Tree {
    fn read(record: &[u8]) -> Found<Self> {
        if record.len() < TREE {
            return Err("the record of a tree is cut off".to_owned());
        }
        Ok(Tree {
            fixed: u32_at(record, 0)?,
            flags: u16_at(record, 4)?,
            depth: u16_at(record, 6)?,
            entries: u64_at(record, 32)?,
            root: u64_at(record, 40)?,
        })
    }
}

/// The data of a node in a leaf.
#[derive(Clone, Copy)]
enum Data<'p> {
    Bytes(&'p [u8]),
    Big {
        page: u64,
        size: usize,
    },
    Tree(&'p [u8]),
    /// The values of one key, all of one size.
    Values(&'p [u8], usize),
}

struct Row<'p> {
    key: &'p [u8],
    data: Data<'p>,
}

type Visit<'v, 's> = &'v mut dyn FnMut(&mut Walk<'s>, &Row<'_>) -> Found<()>;

struct Walk<'s> {
    source: &'s mut dyn Source,
    size: usize,
    last: u64,
    met: Vec<bool>,
    /// Pages met beyond the end of the file, where free ones may be: their number is what the list
    /// of them says, while a damaged number of the last page would take any memory.
    met_beyond: HashSet<u64>,
}

impl<'s> Walk<'s> {
    fn new(source: &'s mut dyn Source, size: usize, last: u64) -> Found<Self> {
        if size < 256 || last >= 1 << 40 {
            return Err("the number of pages is damaged".to_owned());
        }
        let pages = (source.size() / size as u64).min(last + 1);
        let mut met = vec![false; pages as usize];
        met.iter_mut().take(2).for_each(|page| *page = true);
        Ok(Walk { source, size, last, met, met_beyond: HashSet::new() })
    }

    fn free(&mut self, record: &[u8]) -> Found<Vec<u64>> {
        let mut found = Vec::new();
        self.tree(record, true, &mut |walk, row| {
            let held;
            let bytes = match row.data {
                Data::Bytes(bytes) => bytes,
                Data::Big { page, size } => {
                    let at = page * walk.size as u64 + HEADER as u64;
                    held = walk.source.read(at, size);
                    &held[..]
                }
                _ => return Err("the list of free pages is damaged".to_owned()),
            };
            let numbers: Vec<u64> =
                bytes.chunks_exact(8).map(|part| u64_at(part, 0)).collect::<Found<_>>()?;
            let count = numbers.first().and_then(|count| usize::try_from(*count).ok());
            let Some(listed) = count.and_then(|count| numbers.get(1..)?.get(..count)) else {
                return Err("the list of free pages is damaged".to_owned());
            };
            for number in listed {
                walk.meet(*number, 1)?;
                found.push(*number);
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Counts the rows of a node, and adds them up.
    fn rows(&mut self, row: &Row<'_>, wanted: bool, sum: &mut Sum) -> Found<()> {
        match row.data {
            Data::Bytes(value) if wanted => sum.add(row.key, value),
            Data::Bytes(_) | Data::Big { .. } => sum.rows += 1,
            Data::Values(values, size) => {
                for value in values.chunks_exact(size) {
                    if wanted { sum.add(row.key, value) } else { sum.rows += 1 }
                }
            }
            Data::Tree(record) => {
                let key = row.key;
                self.tree(record, false, &mut |_, row| {
                    if wanted {
                        sum.add(key, row.key)
                    } else {
                        sum.rows += 1
                    }
                    Ok(())
                })?;
            }
        }
        Ok(())
    }

    fn meet(&mut self, number: u64, pages: u64) -> Found<()> {
        let end = number.checked_add(pages).filter(|end| *end <= self.last + 1);
        let place = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let range = end.map(|end| place(number)..place(end));
        let fresh = match range.map(|range| self.met.get_mut(range)) {
            Some(Some(met)) => {
                let fresh = !met.contains(&true);
                met.fill(true);
                fresh
            }
            Some(None) => pages == 1 && self.met_beyond.insert(number),
            None => false,
        };
        if fresh { Ok(()) } else { Err(format!("page {number} is in use twice, or beyond the end")) }
    }

    fn page(&mut self, number: u64, size: usize) -> Found<Vec<u8>> {
        let page = self.source.read(number * self.size as u64, size);
        if page.len() != size {
            return Err(format!("page {number} is beyond the end"));
        }
        if u64_at(&page, 0)? != number {
            return Err(format!("page {number} says that it is another one"));
        }
        Ok(page)
    }

    /// Walks a tree, and visits the nodes of its leaves. The values of one key are a tree of fixed
    /// pages, whose keys they are.
    fn tree(&mut self, record: &[u8], integers: bool, visit: Visit<'_, 's>) -> Found<()> {
        let tree = Tree::read(record)?;
        if tree.root == NO_PAGE && tree.depth == 0 && tree.entries == 0 {
            return Ok(());
        }
        if !(1..=DEEPEST).contains(&tree.depth) {
            return Err(format!("a tree is {} pages deep", tree.depth));
        }
        // The keys of a page are from `low` on, and below `high`.
        let mut todo = vec![(tree.root, 1, Vec::new(), None::<Vec<u8>>)];
        while let Some((number, level, low, high)) = todo.pop() {
            self.meet(number, 1)?;
            let page = self.page(number, self.size)?;
            let (flags, leaf) = (u16_at(&page, 10)?, level == tree.depth);
            if flags & !FIXED != if leaf { LEAF } else { BRANCH } {
                return Err(format!("page {number} is of the wrong kind"));
            }
            let mut order = Order { number, integers, low: &low, high: high.as_deref(), before: None };
            if flags & FIXED != 0 {
                for key in fixed(&page, number, tree.fixed as usize)? {
                    order.next(key)?;
                    visit(self, &Row { key, data: Data::Bytes(&[]) })?;
                }
                continue;
            }
            let nodes = nodes(&page, number)?;
            let mut free = self.size - usize::from(u16_at(&page, 14)?);
            let mut children: Vec<(u64, &[u8])> = Vec::new();
            for (i, at) in nodes.iter().enumerate() {
                let (lower, upper) = (u16_at(&page, *at)?, u16_at(&page, at + 2)?);
                let (kind, key) = (u16_at(&page, at + 4)?, usize::from(u16_at(&page, at + 6)?));
                let size = usize::from(lower) | usize::from(upper) << 16;
                let start = at + NODE + key;
                let length = if !leaf {
                    0
                } else if kind & BIG != 0 {
                    8
                } else {
                    size
                };
                let used = NODE + key + length;
                let Some(rest) = free.checked_sub(used + used % 2) else {
                    return Err(format!("page {number} has nodes that overlap or lie apart"));
                };
                free = rest;
                let beyond = || format!("page {number} has a node beyond its end");
                let key = page.get(at + NODE..start).ok_or_else(beyond)?;
                if !leaf {
                    if i > 0 {
                        order.next(key)?;
                    }
                    children.push((size as u64 | u64::from(kind) << 32, key));
                    continue;
                }
                order.next(key)?;
                let data = page.get(start..start + length).ok_or_else(beyond)?;
                let data = if kind & BIG != 0 {
                    let big = u64_at(data, 0)?;
                    self.big(big, size)?;
                    Data::Big { page: big, size }
                } else if kind & TREE_HERE != 0 {
                    Data::Tree(data)
                } else if kind & PAGE_HERE != 0 {
                    let (own, flags) = (u16_at(data, 8)?, u16_at(data, 10)?);
                    if flags | DIRTY != LEAF | FIXED | INSIDE | DIRTY {
                        return Err(format!("page {number} has a page inside that is none"));
                    }
                    let size = usize::from(own);
                    let mut order = Order { number, integers: false, low: &[], high: None, before: None };
                    let values = fixed(data, number, size)?;
                    let length = values.len() * size;
                    for value in values {
                        order.next(value)?;
                    }
                    Data::Values(&data[HEADER..HEADER + length], size)
                } else {
                    Data::Bytes(data)
                };
                visit(self, &Row { key, data })?;
            }
            if free > 0 {
                return Err(format!("page {number} has nodes that overlap or lie apart"));
            }
            for (i, (child, key)) in children.iter().enumerate() {
                let from = if i == 0 { low.clone() } else { key.to_vec() };
                let to = children.get(i + 1).map(|(_, key)| key.to_vec()).or_else(|| high.clone());
                todo.push((*child, level + 1, from, to));
            }
        }
        Ok(())
    }

    /// Meets the overflow pages of a value.
    fn big(&mut self, number: u64, size: usize) -> Found<()> {
        self.meet(number, 1)?;
        let page = self.page(number, HEADER)?;
        let pages = u64::from(u32_at(&page, 12)?);
        if u16_at(&page, 10)? != OVERFLOW || pages != pages_of(size, self.size) {
            return Err(format!("page {number} is no value of that size"));
        }
        if pages > 1 { self.meet(number + 1, pages - 1) } else { Ok(()) }
    }
}

/// The pages of a value. A damaged size can be as large as the address space of 32 bits.
fn pages_of(size: usize, page: usize) -> u64 {
    (HEADER as u64 + size as u64).div_ceil(page as u64)
}

/// The order of the keys of a page.
struct Order<'p> {
    number: u64,
    integers: bool,
    low: &'p [u8],
    high: Option<&'p [u8]>,
    before: Option<&'p [u8]>,
}

impl<'p> Order<'p> {
    fn next(&mut self, key: &'p [u8]) -> Found<()> {
        let rises = self.before.is_none_or(|before| self.compare(before, key).is_lt());
        let within = self.low.is_empty() || self.compare(self.low, key).is_le();
        if !rises || !within || self.high.is_some_and(|high| self.compare(key, high).is_ge()) {
            return Err(format!("page {} has keys out of order", self.number));
        }
        self.before = Some(key);
        Ok(())
    }

    fn compare(&self, one: &[u8], other: &[u8]) -> Ordering {
        match (self.integers, <[u8; 8]>::try_from(one), <[u8; 8]>::try_from(other)) {
            (true, Ok(one), Ok(other)) => u64::from_ne_bytes(one).cmp(&u64::from_ne_bytes(other)),
            _ => one.cmp(other),
        }
    }
}

/// The values of a page, or of one inside it, all of one size.
fn fixed(page: &[u8], number: u64, size: usize) -> Found<core::slice::ChunksExact<'_, u8>> {
    let wrong = || format!("page {number} has values of another size");
    let (own, lower, upper) = (u16_at(page, 8)?, u16_at(page, 12)?, u16_at(page, 14)?);
    let count = usize::from(lower).checked_sub(HEADER).ok_or_else(wrong)? / 2;
    let room = usize::from(upper).checked_sub(usize::from(lower)).ok_or_else(wrong)?;
    let used = count.checked_mul(size).ok_or_else(wrong)?;
    if usize::from(own) != size || size == 0 || lower % 2 > 0 || room + used + HEADER != page.len() {
        return Err(wrong());
    }
    Ok(page.get(HEADER..HEADER + used).ok_or_else(wrong)?.chunks_exact(size))
}

/// Where the nodes of a page are.
fn nodes(page: &[u8], number: u64) -> Found<Vec<usize>> {
    let (lower, upper) = (usize::from(u16_at(page, 12)?), usize::from(u16_at(page, 14)?));
    if !(HEADER <= lower && lower <= upper && upper <= page.len() && lower % 2 == 0) {
        return Err(format!("page {number} is out of bounds"));
    }
    let nodes: Vec<usize> =
        (HEADER..lower).step_by(2).map(|at| u16_at(page, at).map(usize::from)).collect::<Found<_>>()?;
    if nodes.iter().any(|node| !(upper..=page.len() - NODE).contains(node)) {
        return Err(format!("page {number} has a node out of bounds"));
    }
    Ok(nodes)
}

fn part<const N: usize>(bytes: &[u8], at: usize) -> Found<[u8; N]> {
    let part = bytes.get(at..).and_then(|rest| rest.first_chunk::<N>());
    part.copied().ok_or_else(|| "a page is cut off".to_owned())
}

fn u16_at(bytes: &[u8], at: usize) -> Found<u16> {
    part(bytes, at).map(u16::from_ne_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Found<u32> {
    part(bytes, at).map(u32::from_ne_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Found<u64> {
    part(bytes, at).map(u64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_size_does_not_overflow() {
        assert_eq!(pages_of(u32::MAX as usize, 4_096), (1 << 20) + 1);
        assert_eq!([pages_of(4_080, 4_096), pages_of(4_081, 4_096)], [1, 2]);
    }

    struct NoPages;

    impl Source for NoPages {
        fn read(&mut self, _: u64, _: usize) -> Vec<u8> {
            Vec::new()
        }

        fn size(&mut self) -> u64 {
            3 * 4_096
        }
    }

    #[test]
    fn a_damaged_number_of_pages_takes_no_memory() {
        let mut source = NoPages;
        let mut walk = Walk::new(&mut source, 4_096, (1 << 40) - 1).unwrap();
        assert_eq!(walk.met.len(), 3);
        assert!(walk.meet(1, 1).is_err() && walk.meet(2, 1).is_ok() && walk.meet(2, 1).is_err());
        assert!(walk.meet(1 << 39, 1).is_ok() && walk.meet(1 << 39, 1).is_err());
        assert!(walk.meet(7, 1 << 38).is_err() && walk.meet(1 << 40, 1).is_err());
    }
}
