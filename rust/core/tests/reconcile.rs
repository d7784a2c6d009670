// SPDX-License-Identifier: Apache-2.0
//! Messages equal those of the crate `negentropy`, and find every difference.

use std::collections::BTreeSet;

use negentropy::{Id, Negentropy, NegentropyStorageVector};
use omsgrain_core::reconcile::{Item, Items, cut};

/// A small generator: the same seed gives the same sets.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// An item among few times; some ids share all bytes but the last ones.
    fn item(&mut self, times: u64) -> (u64, [u8; 32]) {
        let mut id = [7; 32];
        let random = if self.below(4) == 0 { 30 } else { 0 };
        for byte in &mut id[random..] {
            *byte = self.next() as u8;
        }
        (self.below(times), id)
    }
}

type Pairs = BTreeSet<(u64, [u8; 32])>;

fn ours(pairs: &Pairs) -> Items {
    let mut items = Items::default();
    items.add(pairs.iter().enumerate().map(|(seq, &(time, id))| Item { time, id, seq: seq as u64 }));
    items.settle();
    items
}

fn theirs(pairs: &Pairs) -> NegentropyStorageVector {
    let mut storage = NegentropyStorageVector::new();
    for &(time, id) in pairs {
        storage.insert(time, Id::from_byte_array(id)).unwrap();
    }
    storage.seal().unwrap();
    storage
}

fn ids<'p>(pairs: impl Iterator<Item = &'p (u64, [u8; 32])>) -> BTreeSet<[u8; 32]> {
    pairs.map(|(_, id)| *id).collect()
}

fn see_equal(left: &Pairs, right: &Pairs, limit: usize) {
    let (mine, other) = (ours(left), ours(right));
    let (vector, beside) = (theirs(left), theirs(right));
    let mut client = Negentropy::borrowed(&vector, limit as u64).unwrap();
    let mut server = Negentropy::borrowed(&beside, limit as u64).unwrap();
    let mut message = mine.initiate();
    assert_eq!(message, client.initiate().unwrap());
    let (mut have, mut need) = (BTreeSet::new(), BTreeSet::new());
    for round in 0.. {
        assert!(round < 2_000, "no end");
        let said = other.answer(&message, false, limit).unwrap();
        assert!(said.have.is_empty() && said.need.is_empty());
        assert_eq!(said.message, server.reconcile(&message).unwrap());
        assert!(said.message.len() <= limit);
        let next = mine.answer(&said.message, true, limit).unwrap();
        let (mut has, mut lacks) = (Vec::new(), Vec::new());
        let expected = client.reconcile_with_ids(&said.message, &mut has, &mut lacks).unwrap();
        assert_eq!(next.message, expected.unwrap_or_else(|| vec![0x61]));
        assert_eq!(next.have, has.iter().map(|id| id.to_bytes()).collect::<Vec<_>>());
        let lacks: BTreeSet<_> = lacks.iter().map(|id| id.to_bytes()).collect();
        assert_eq!(next.need.iter().copied().collect::<BTreeSet<_>>(), lacks);
        have.extend(next.have);
        need.extend(next.need);
        message = next.message;
        if message.len() == 1 {
            break;
        }
    }
    assert_eq!(have, ids(left.difference(right)));
    assert_eq!(need, ids(right.difference(left)));
}

#[test]
fn messages_are_those_of_the_crate() {
    for seed in 0..60 {
        let mut random = Random(seed);
        let times = [1, 3, 50, 100_000][seed as usize % 4];
        let common = random.below([5, 40, 900, 3_000][seed as usize / 4 % 4]);
        let (mut left, mut right) = (Pairs::new(), Pairs::new());
        for _ in 0..common {
            let item = random.item(times);
            left.insert(item);
            right.insert(item);
        }
        for side in [&mut left, &mut right] {
            for _ in 0..random.below(400) {
                side.insert(random.item(times));
            }
        }
        // An id has one time: the difference is one of ids.
        let mut known = BTreeSet::new();
        left.retain(|(_, id)| known.insert(*id));
        right.retain(|pair| left.contains(pair) || known.insert(pair.1));
        for limit in [4_096, 1 << 20] {
            see_equal(&left, &right, limit);
            see_equal(&right, &left, limit);
        }
    }
}

#[test]
fn messages_that_nobody_writes() {
    let mut random = Random(1);
    let items = ours(&(0..100).map(|_| random.item(9)).collect());
    let fingerprint = [5; 16];
    let wrong: Vec<Vec<u8>> = vec![
        vec![],
        vec![0x62],
        vec![0x61, 0, 0],
        vec![0x61, 0, 0, 3],
        [&[0x61, 0, 33, 0][..], &[0; 40]].concat(),
        [&[0x61, 0, 0, 1][..], &fingerprint[..15]].concat(),
        [&[0x61, 0x80, 0, 0, 1][..], &fingerprint].concat(),
        [&[0x61, 0x82, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0, 1][..], &fingerprint]
            .concat(),
        [&[0x61][..], &[0xff; 9], &[0x7f, 0, 1], &fingerprint, &[1, 0, 0]].concat(),
        [&[0x61, 0, 0, 1][..], &fingerprint, &[0, 0, 0]].concat(),
        [&[0x61, 3, 1, 9, 1][..], &fingerprint, &[1, 1, 8, 0]].concat(),
        vec![0x61, 0, 0, 2, 0xc0, 0x80, 0x80, 0x80, 0],
        [&[0x61, 0, 0, 2, 2][..], &[9; 32]].concat(),
    ];
    for message in wrong {
        for initiator in [false, true] {
            let refused = items.answer(&message, initiator, 1 << 16).unwrap_err();
            assert_eq!(refused.code(), "ERR_CORRUPT", "{message:?}");
        }
    }
    assert_eq!(items.answer(&[0x61], false, 4_095).unwrap_err().code(), "ERR_RANGE");
    assert_eq!(items.answer(&[0x61], false, 4_096).unwrap().message, [0x61]);
}

#[test]
fn ends_of_ids_keys_and_samples() {
    let mut items = Items::default();
    assert!(items.sample(3).next().is_none() && items.is_empty());
    let id = |n: u64| {
        let mut id = [0; 32];
        id[..8].copy_from_slice(&(n * 0x0101_0101_0101).to_be_bytes());
        id
    };
    items.add((0..100).map(|n| Item { time: 100 - n, id: id(n), seq: n }));
    items.settle();
    let before = items.whole();
    items.set_parts(16, &[(7, [1; 8])].into());
    items.settle();
    assert_ne!(items.whole(), before);
    items.set_parts(16, &[(7, [0; 8])].into());
    items.set_parts(30, &[(7, [1; 8])].into());
    let whole = |first: [u8; 8], second: [u8; 8]| {
        let mut two = Items::default();
        two.add([1, 2].map(|n| Item::new(n, &id(n), n)));
        two.set_parts(24, &[(1, first), (2, second)].into());
        two.settle();
        two.whole()
    };
    assert_ne!(whole([3; 8], [4; 8]), whole([4; 8], [3; 8]));
    items.settle();
    assert_eq!(items.whole(), before);
    items.add([Item { time: 93, id: id(7), seq: 500 }]);
    items.settle();
    assert_eq!((items.whole(), items.len()), (before, 100));
    let keys = [&id(9)[..8], &id(3)[..32], &id(3)[..7], b"\xff\xff\xff", b"x", b""];
    let mut found = items.find(&keys);
    found.sort_unstable();
    assert_eq!(found, [(0, 9), (1, 3), (2, 3)]);
    assert_eq!(items.sample(4).map(|item| item.seq).collect::<Vec<_>>(), [87, 62, 37, 12]);
    assert_eq!(items.sample(400).count(), 100);
}

#[test]
fn a_message_that_is_cut_loses_nothing() {
    let mut random = Random(5);
    let (mut left, mut right) = (Pairs::new(), Pairs::new());
    for n in 0..6_000 {
        let item = random.item(1 << 20);
        for (of, side) in [&mut left, &mut right].into_iter().enumerate() {
            if n % 40 != of {
                side.insert(item);
            }
        }
    }
    let (mine, other) = (ours(&left), ours(&right));
    let (mut have, mut need, mut cuts) = (BTreeSet::new(), BTreeSet::new(), 0);
    let mut message = mine.initiate();
    while message.len() > 1 {
        let sent = cut(&message, 4_096).unwrap();
        assert!(sent.len() <= 4_096);
        cuts += usize::from(sent.len() < message.len());
        let said = other.answer(&sent, false, 1 << 20).unwrap().message;
        let next = mine.answer(&said, true, 1 << 20).unwrap();
        have.extend(next.have);
        need.extend(next.need);
        message = next.message;
    }
    assert!(cuts > 2);
    assert_eq!(have, ids(left.difference(&right)));
    assert_eq!(need, ids(right.difference(&left)));
    assert!(cut(&[0x62; 5_000], 4_096).is_err());
    assert_eq!(cut(&[0x62], 4_096).unwrap(), [0x62]);
}
