// SPDX-License-Identifier: Apache-2.0
//! Range-based set reconciliation: negentropy version 1.
//!
//! Two sides have items in one order, by time and then by id. A message is a list of adjacent
//! ranges of that order. Each range has a fingerprint of its items, or lists their ids. Where
//! fingerprints differ, the other side splits the range in sixteen, or lists it if it is short.
//!
//! Spec: <https://github.com/hoytech/negentropy>, docs/negentropy-protocol-v1.md. The messages are
//! those of the crate `negentropy`, which the tests compare. This module exists beside it to refuse
//! messages that no writer writes, to keep the order of ids, and to have the sums of ranges ready.

use std::collections::{HashMap, HashSet};

use crate::address::sha256;
use crate::{Code, Error, Result};

/// An id of 32 bytes.
pub type Id = [u8; ID];
/// A digest of something about an item.
pub type Part = [u8; 8];
type Fingerprint = [u8; 16];
type Sum = [u64; 4];

const ID: usize = 32;
/// Bytes of a key in an id; parts follow.
pub const KEY: usize = 16;
const VERSION: u8 = 0x61;
const INFINITY: u64 = u64::MAX;
/// The number of parts of a range that is split.
const PARTS: usize = 16;
/// A shorter range is listed.
const LISTED: usize = 2 * PARTS;
/// The number of items between two stored sums.
const BLOCK: usize = 64;
/// Bytes that may follow in a message once its limit is reached.
const SPARE: usize = 200;
/// The least limit of a message.
pub const LEAST: usize = 4096;

const SKIP: u64 = 0;
const FINGERPRINT: u64 = 1;
const LIST: u64 = 2;

/// One item of a side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Item {
    /// The first part of the order; less than `u64::MAX`.
    pub time: u64,
    /// The second part.
    pub id: Id,
    /// The number by which the caller knows it.
    pub seq: u64,
}

impl Item {
    /// The item of a key, without parts.
    pub fn new(time: u64, key: &Id, seq: u64) -> Item {
        let mut id = *key;
        id[KEY..].fill(0);
        Item { time, id, seq }
    }

    /// Sets eight bytes of the id to a hash of its key and a digest; zeros stay zeros.
    ///
    /// A digest alone would not do: two grains that have exchanged their digests would have the
    /// same sum.
    pub fn set_part(&mut self, at: usize, part: &Part) {
        let mut input = [0; KEY + size_of::<Part>()];
        input[..KEY].copy_from_slice(&self.id[..KEY]);
        input[KEY..].copy_from_slice(part);
        let hash = if *part == Part::default() { [0; ID] } else { sha256(&input) };
        if let Some(place) = self.id.get_mut(at..at + part.len()) {
            place.copy_from_slice(&hash[..part.len()]);
        }
    }
}

/// The items of a side. After a change call `settle`, which brings them into order.
#[derive(Default)]
pub struct Items {
    items: Vec<Item>,
    /// The sum of all ids before each block.
    sums: Vec<Sum>,
    changed: bool,
}

/// The response to a message.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The next message; one byte if nothing is left to ask.
    pub message: Vec<u8>,
    /// For an initiator: ids that only this side has.
    pub have: Vec<Id>,
    /// For an initiator: ids that only the other side has.
    pub need: Vec<Id>,
}

impl Items {
    /// The number of items.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Adds items. Of two items with one time and one id, the first stays.
    pub fn add(&mut self, more: impl IntoIterator<Item = Item>) {
        self.items.extend(more);
        self.changed = true;
    }

    /// Sets a part of the ids of some items, by their numbers.
    pub fn set_parts(&mut self, at: usize, parts: &HashMap<u64, Part>) {
        for item in &mut self.items {
            if let Some(part) = parts.get(&item.seq) {
                item.set_part(at, part);
            }
        }
        self.changed = true;
    }

    /// Sorts the items and sums their ids, if any changed.
    pub fn settle(&mut self) {
        if !std::mem::take(&mut self.changed) {
            return;
        }
        self.items.sort(); // stable sorting is fast where long parts are in order
        self.items.dedup_by_key(|item| (item.time, item.id));
        self.sums.clear();
        let mut sum = Sum::default();
        for (i, item) in self.items.iter().enumerate() {
            if i.is_multiple_of(BLOCK) {
                self.sums.push(sum);
            }
            sum = plus(sum, of_id(&item.id));
        }
        self.sums.push(sum);
    }

    /// The fingerprint of all items.
    pub fn whole(&self) -> Fingerprint {
        self.fingerprint(0, self.len())
    }

    /// Some items, evenly spread.
    pub fn sample(&self, count: usize) -> impl Iterator<Item = &Item> {
        let count = count.min(self.len());
        (0..count).map(move |i| &self.items[(2 * i + 1) * self.len() / (2 * count)])
    }

    /// The position of the key and the number of each item whose id begins with one of the keys.
    pub fn find(&self, keys: &[&[u8]]) -> Vec<(usize, u64)> {
        let mut begins = HashMap::<&[u8], Vec<usize>>::new();
        let mut sizes: Vec<usize> = Vec::new();
        let mut first = [false; 256 * 256]; // most items are passed over by their first two bytes
        for (at, key) in keys.iter().enumerate() {
            if let [high, low, ..] = key {
                first[usize::from(*high) << 8 | usize::from(*low)] = true;
                begins.entry(key).or_default().push(at);
                sizes.push(key.len().min(ID));
            }
        }
        sizes.sort_unstable();
        sizes.dedup();
        let mut found = Vec::new();
        for item in &self.items {
            if first[usize::from(item.id[0]) << 8 | usize::from(item.id[1])] {
                for at in sizes.iter().filter_map(|size| begins.get(&item.id[..*size])) {
                    found.extend(at.iter().map(|at| (*at, item.seq)));
                }
            }
        }
        found
    }

    /// The first message.
    pub fn initiate(&self) -> Vec<u8> {
        let mut out = Writer::new();
        self.split(0, self.len(), &Bound::END, &mut out);
        out.bytes
    }

    /// The response to a message, of at most about `limit` bytes.
    ///
    /// All that did not fit becomes one range with a fingerprint. The other side asks about it
    /// again.
    ///
    /// # Errors
    /// `ERR_CORRUPT` for a message that no side writes; `ERR_RANGE` for a limit that is too small.
    pub fn answer(&self, message: &[u8], initiator: bool, limit: usize) -> Result<Answer> {
        if limit < LEAST {
            return Err(Error::new(Code::Range, "the limit of a message is too small")
                .expected(format!("at least {LEAST}"))
                .found(limit.to_string()));
        }
        let room = limit - SPARE;
        let mut ranges = Reader::new(message)?;
        let mut out = Writer::new();
        let (mut have, mut need) = (Vec::new(), Vec::new());
        let (mut begin, mut before, mut skipped) = (0, Bound::START, false);
        let mut sent = 0; // items below the last bound of the response
        while let Some((end, payload)) = ranges.next()? {
            let size = out.bytes.len();
            let mut stop = begin + self.items[begin..].partition_point(|item| end.is_after(item));
            let differs = match payload {
                Payload::Skip => false,
                Payload::Fingerprint(theirs) => theirs != self.fingerprint(begin, stop),
                Payload::List(_) => !initiator,
            };
            if differs && skipped {
                out.bound(&before);
                out.number(SKIP);
            }
            skipped = !differs;
            match payload {
                Payload::List(ids) if initiator => {
                    compare(&self.items[begin..stop], ids, &mut have, &mut need);
                }
                Payload::List(_) => {
                    let most = room.checked_sub(size).map_or(0, |left| left / ID + 1);
                    let whole = stop - begin <= most;
                    stop = stop.min(begin + most);
                    let end = if whole { end } else { Bound::at(&self.items[stop]) };
                    self.list(begin, stop, &end, &mut out);
                    sent = stop;
                }
                Payload::Fingerprint(_) if differs => self.split(begin, stop, &end, &mut out),
                _ => {}
            }
            if out.bytes.len() > room {
                if !matches!(payload, Payload::List(_)) {
                    out.bytes.truncate(size);
                }
                out.fingerprint(&Bound::END, &self.fingerprint(sent, self.len()));
                break;
            }
            if differs {
                sent = stop;
            }
            (begin, before) = (stop, end);
        }
        Ok(Answer { message: out.bytes, have, need })
    }

    fn split(&self, begin: usize, stop: usize, end: &Bound, out: &mut Writer) {
        let count = stop - begin;
        if count < LISTED {
            return self.list(begin, stop, end, out);
        }
        let mut at = begin;
        for part in 0..PARTS {
            let next = at + count / PARTS + usize::from(part < count % PARTS);
            let bound =
                if next == stop { *end } else { Bound::between(&self.items[next - 1], &self.items[next]) };
            out.fingerprint(&bound, &self.fingerprint(at, next));
            at = next;
        }
    }

    fn list(&self, begin: usize, stop: usize, end: &Bound, out: &mut Writer) {
        out.bound(end);
        out.number(LIST);
        out.number((stop - begin) as u64);
        for item in &self.items[begin..stop] {
            out.bytes.extend_from_slice(&item.id);
        }
    }

    fn fingerprint(&self, begin: usize, stop: usize) -> Fingerprint {
        let sum = minus(self.sum_before(stop), self.sum_before(begin));
        let mut input = Writer { bytes: Vec::with_capacity(ID + 10), time: 0 };
        for limb in sum {
            input.bytes.extend_from_slice(&limb.to_le_bytes());
        }
        input.number((stop - begin) as u64);
        let digest = sha256(&input.bytes);
        std::array::from_fn(|i| digest[i])
    }

    fn sum_before(&self, at: usize) -> Sum {
        let block = at / BLOCK;
        let first = self.sums.get(block).copied().unwrap_or_default();
        self.items[block * BLOCK..at].iter().fold(first, |sum, item| plus(sum, of_id(&item.id)))
    }
}

/// The first ranges of a message, for a connection that does not carry all of it.
///
/// A fingerprint that nothing has takes the place of the others: so the other side splits them
/// again.
///
/// # Errors
/// `ERR_CORRUPT` for a message that no side writes.
pub fn cut(message: &[u8], limit: usize) -> Result<Vec<u8>> {
    if message.len() <= limit {
        return Ok(message.to_vec());
    }
    let mut ranges = Reader::new(message)?;
    let mut fits = ranges.at;
    while ranges.next()?.is_some() && ranges.at + SPARE <= limit {
        fits = ranges.at;
    }
    let mut out = Writer { bytes: message[..fits].to_vec(), time: 0 };
    out.fingerprint(&Bound::END, &Fingerprint::default());
    Ok(out.bytes)
}

/// Adds to `have` the ids of the items that are not listed, and to `need` the others, in order.
fn compare(items: &[Item], ids: &[Id], have: &mut Vec<Id>, need: &mut Vec<Id>) {
    let mut theirs: HashSet<&Id> = ids.iter().collect();
    for item in items {
        if !theirs.remove(&item.id) {
            have.push(item.id);
        }
    }
    need.extend(ids.iter().filter(|id| theirs.remove(id)));
}

fn of_id(id: &Id) -> Sum {
    let mut limbs = id.chunks_exact(8);
    std::array::from_fn(|_| {
        let limb = limbs.next().and_then(|limb| limb.try_into().ok());
        limb.map_or(0, u64::from_le_bytes)
    })
}

fn plus(left: Sum, right: Sum) -> Sum {
    let mut carry = false;
    std::array::from_fn(|i| {
        let (sum, over) = left[i].overflowing_add(right[i]);
        let (sum, more) = sum.overflowing_add(u64::from(carry));
        carry = over || more;
        sum
    })
}

fn minus(left: Sum, right: Sum) -> Sum {
    let mut borrow = false;
    std::array::from_fn(|i| {
        let (rest, under) = left[i].overflowing_sub(right[i]);
        let (rest, more) = rest.overflowing_sub(u64::from(borrow));
        borrow = under || more;
        rest
    })
}

/// The end of a range: the item at which the next one begins, or a prefix of its id.
#[derive(Clone, Copy)]
struct Bound {
    time: u64,
    id: Id,
    len: usize,
}

impl Bound {
    const START: Bound = Bound { time: 0, id: [0; ID], len: 0 };
    const END: Bound = Bound { time: INFINITY, id: [0; ID], len: 0 };

    fn at(item: &Item) -> Bound {
        Bound { time: item.time, id: item.id, len: ID }
    }

    /// The shortest bound between two neighbours.
    fn between(before: &Item, next: &Item) -> Bound {
        if before.time != next.time {
            return Bound { time: next.time, ..Bound::START };
        }
        let same = before.id.iter().zip(&next.id).take_while(|(a, b)| a == b).count();
        let len = ID.min(same + 1);
        let mut id = [0; ID];
        id[..len].copy_from_slice(&next.id[..len]);
        Bound { time: next.time, id, len }
    }

    fn is_after(&self, item: &Item) -> bool {
        (item.time, &item.id) < (self.time, &self.id)
    }
}

struct Writer {
    bytes: Vec<u8>,
    time: u64,
}

impl Writer {
    fn new() -> Writer {
        Writer { bytes: vec![VERSION], time: 0 }
    }

    /// Seven bits in a byte, the highest first.
    fn number(&mut self, number: u64) {
        let digits = (u64::BITS - number.leading_zeros()).div_ceil(7).max(1);
        for digit in (0..digits).rev() {
            let more = if digit > 0 { 0x80 } else { 0 };
            self.bytes.push((number >> (7 * digit)) as u8 & 0x7f | more);
        }
    }

    fn bound(&mut self, bound: &Bound) {
        match bound.time {
            INFINITY => self.number(0),
            time => self.number(time - self.time + 1),
        }
        self.time = bound.time;
        self.number(bound.len as u64);
        self.bytes.extend_from_slice(&bound.id[..bound.len]);
    }

    fn fingerprint(&mut self, end: &Bound, fingerprint: &Fingerprint) {
        self.bound(end);
        self.number(FINGERPRINT);
        self.bytes.extend_from_slice(fingerprint);
    }
}

enum Payload<'m> {
    Skip,
    Fingerprint(Fingerprint),
    List(&'m [Id]),
}

/// Reads the ranges of a message.
struct Reader<'m> {
    bytes: &'m [u8],
    at: usize,
    end: Bound,
}

impl<'m> Reader<'m> {
    fn new(bytes: &'m [u8]) -> Result<Self> {
        match bytes.first() {
            Some(&VERSION) => Ok(Reader { bytes, at: 1, end: Bound::START }),
            _ => Err(Error::new(Code::Corrupt, "not a message of negentropy version 1").at(0)),
        }
    }

    fn next(&mut self) -> Result<Option<(Bound, Payload<'m>)>> {
        let start = self.at;
        if start == self.bytes.len() {
            return Ok(None);
        }
        if self.end.time == INFINITY {
            return Err(broken("a range follows the last one", start));
        }
        let time = match self.number()? {
            0 => INFINITY,
            offset => self.end.time.checked_add(offset - 1).unwrap_or(INFINITY),
        };
        let len = self.size(ID)?;
        let mut id = [0; ID];
        id[..len].copy_from_slice(self.take(len)?);
        if (time, id) < (self.end.time, self.end.id) {
            return Err(broken("the ranges are not in order", start));
        }
        self.end = Bound { time, id, len };
        let payload = match self.number()? {
            SKIP => Payload::Skip,
            FINGERPRINT => {
                let mut theirs = Fingerprint::default();
                theirs.copy_from_slice(self.take(16)?);
                Payload::Fingerprint(theirs)
            }
            LIST => {
                let count = self.size((self.bytes.len() - self.at) / ID)?;
                Payload::List(self.take(count * ID)?.as_chunks().0)
            }
            _ => return Err(broken("no such kind of range", start)),
        };
        Ok(Some((self.end, payload)))
    }

    fn take(&mut self, size: usize) -> Result<&'m [u8]> {
        let taken = self.bytes.get(self.at..self.at + size);
        self.at += size;
        taken.ok_or_else(|| broken("the message ends too early", self.bytes.len()))
    }

    fn number(&mut self) -> Result<u64> {
        let start = self.at;
        let mut number = 0_u64;
        loop {
            let digit = self.take(1)?[0];
            if number > u64::MAX >> 7 || (digit == 0x80 && self.at == start + 1) {
                return Err(broken("a number is too long", start));
            }
            number = number << 7 | u64::from(digit & 0x7f);
            if digit < 0x80 {
                return Ok(number);
            }
        }
    }

    fn size(&mut self, most: usize) -> Result<usize> {
        let start = self.at;
        let size = usize::try_from(self.number()?).unwrap_or(usize::MAX);
        if size > most { Err(broken("a length is too large", start)) } else { Ok(size) }
    }
}

fn broken(what: &'static str, at: usize) -> Error {
    Error::new(Code::Corrupt, what).at(at)
}
