// SPDX-License-Identifier: Apache-2.0
//! Index rows and the memtable, compared with the simplest implementation.

use std::collections::HashSet;

use omsgrain_core::encode::{Options, encode};
use omsgrain_core::fingerprint::fingerprint;
use omsgrain_core::index_rows::{Kind, bucket, of_all, of_fingerprint, of_type, pair, place};
use omsgrain_core::memtable::{Memtable, Only};
use omsgrain_core::{address, json};

fn belief(i: u64) -> Vec<u8> {
    let text = format!(
        r#"{{"type":"belief","subject":"s{}","relation":"r{}","object":"{}","confidence":1,
        "created_at":{},"namespace":"n","structural_tags":["a","a","b"]}}"#,
        i % 3,
        i % 2,
        "long ".repeat(i as usize % 20),
        5_000_000 - 1000 * (i % 7),
    );
    encode(&&json::parse(text.as_bytes()).unwrap(), &Options::default()).unwrap()
}

#[test]
fn the_tail_finds_what_was_added() {
    let blobs: Vec<Vec<u8>> = (1..=200).map(belief).collect();
    let digests: Vec<_> = blobs.iter().map(|b| address::sha256(b)).collect();
    let grains: Vec<_> = (1u64..).zip(&digests).zip(&blobs).map(|((n, d), b)| (n, d, &b[..])).collect();
    let mut tail = Memtable::default();
    for part in grains.chunks(33) {
        tail.add(part).unwrap();
    }
    let mut expected: Vec<_> = (1..=200u64)
        .filter(|i| i % 3 == 1 && i % 2 == 0)
        .map(|i| place(5_000_000 - 1000 * (i as i64 % 7), &digests[i as usize - 1], i as u32))
        .collect();
    expected.sort_unstable();
    let key = pair("s1", "r0");
    assert_eq!(tail.page(&key, None, false, 1000), expected);
    expected.reverse();
    assert_eq!(tail.page(&key, None, true, 1000), expected);
    assert_eq!(tail.page(&key, Some(&expected[4]), true, 3), expected[5..8]);
    assert_eq!(tail.count(&key), expected.len());
    assert!(expected.iter().all(|p| tail.has(&Kind::Subject.of_str("s1"), p)));
    assert!(!expected.iter().any(|p| tail.has(&Kind::Subject.of_str("s2"), p)));
    for key in [of_all(), of_type(1), Kind::Tag.of_str("a"), Kind::Namespace.of_str("n")] {
        assert_eq!(tail.count(&key), 200, "{key:?}");
    }
    // A walk in pieces returns every row once, in order.
    let none = HashSet::new();
    let all = Only::Others(&none);
    let (mut seen, mut after, mut rows) = (Vec::new(), None, 0);
    loop {
        let part = tail.rows_after(after.as_deref(), 50, &all);
        if part.keys.is_empty() {
            break;
        }
        let mut start = 0;
        for (key, end) in part.keys {
            seen.push(key.to_vec());
            rows += end - start;
            assert!(part.places[start..end].is_sorted());
            start = end;
        }
        after = seen.last().cloned();
    }
    assert!(seen.is_sorted());
    assert_eq!(rows, tail.rows());
    let prints = seen.iter().filter(|key| key[0] == b'f').count();
    assert_eq!(prints, 60, "after so many the subject, relation and object repeat");
    // The same from any key on, present or not.
    for key in &seen {
        for after in [&key[..], &key[..key.len() - 1], &[key, &b"x"[..]].concat()] {
            let expected = seen.iter().find(|key| key[..] > *after);
            let found = tail.rows_after(Some(after), 1, &all).keys;
            assert_eq!(found.first().map(|(key, _)| &key[..]), expected.map(|key| &key[..]));
        }
    }
    // The selected rows and the others together are all rows.
    let apart = HashSet::from([3, 4, 200]);
    let some = tail.rows_after(None, usize::MAX, &Only::These(&apart)).places;
    let others = tail.rows_after(None, usize::MAX, &Only::Others(&apart)).places;
    assert!(some.iter().all(|place| [3, 4, 200].contains(&place[15])));
    assert!(!others.iter().any(|place| [3, 4, 200].contains(&place[15])));
    assert_eq!(some.len() + others.len(), rows);
}

#[test]
fn equal_times_go_by_address() {
    let (low, high) = ([1u8; 32], [2u8; 32]);
    assert!(place(5, &low, 9) > place(5, &high, 1), "newest first, read backwards, is by address");
    assert!(place(5, &low, 1) < place(6, &high, 1));
    assert_eq!(place(-1, &low, 1)[..6], [0; 6]);
}

#[test]
fn fingerprints_share_buckets() {
    let blobs: Vec<Vec<u8>> = (1..=9).map(belief).collect();
    let digests: Vec<_> = blobs.iter().map(|b| address::sha256(b)).collect();
    let grains: Vec<_> = (1u64..).zip(&digests).zip(&blobs).map(|((n, d), b)| (n, d, &b[..])).collect();
    let (mut whole, mut tail) = (Memtable::default(), Memtable::with_buckets());
    whole.add(&grains).unwrap();
    tail.add(&grains).unwrap();
    assert_eq!(tail.rows(), whole.rows());
    for (number, (digest, blob)) in (1u32..).zip(digests.iter().zip(&blobs)) {
        let print = fingerprint(blob).unwrap().unwrap();
        let at = place(5_000_000 - 1000 * (i64::from(number) % 7), digest, number);
        assert!(whole.has(&of_fingerprint(&print), &at));
        let (key, in_bucket) = bucket(&of_fingerprint(&print), &at).unwrap();
        assert_eq!(key[..], [b'f', print[0], print[1] & 0xc0]);
        assert_eq!(in_bucket, [&at[..6], &print[2..8], &at[12..]].concat()[..]);
        assert!(tail.has(&key, &in_bucket));
        assert_eq!(tail.count(&of_fingerprint(&print)), 0);
    }
    assert_eq!(bucket(&of_all(), &[0; 16]), None);
}

#[test]
fn a_damaged_blob_gets_no_rows() {
    let (good, digest) = (belief(1), [0u8; 32]);
    let mut tail = Memtable::default();
    tail.add(&[(1, &digest, b"junk"), (2, &digest, &good)]).unwrap();
    assert_eq!(tail.count(&of_all()), 1);
}
