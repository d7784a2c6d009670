// SPDX-License-Identifier: Apache-2.0
//! Blind tokens: the terms of a sealed grain under its user's key. Only a holder of the key finds
//! the grain by them. Spec: OMS §20
//!
//! ```text
//! token    first 16 bytes of HMAC-SHA256(token key, term)
//! term     a key of the index rows that the plain grain would have; or b"w" ++ a word
//! ```
//!
//! The row of each token is the grain's place with its time masked:
//!
//! ```text
//! time, 6 bytes XOR the first 6 of AES-256-ECB(place key, block) ++ the other 10
//! block    the other 10 bytes of the place ++ 6 zeros
//! ```

use std::collections::HashMap;

use crate::batch::on_all_cores;
use crate::header::{ENCRYPTED, Header};
use crate::hmac::{Hmac, under_each};
use crate::index_rows::{Key, VALUE, rows};
use crate::indexed_paths::IndexedPaths;
use crate::sha256_lanes::{BLOCK, LANES};
use crate::{Code, Error, Result, extent};

pub use crate::hmac::{KEY, TOKEN, Token};

/// Begins the term of a word; no kind of index row has this byte.
const WORD: u8 = b'w';
/// Bytes of the time at the beginning of a place.
const TIME: usize = 6;
/// Terms that a thread takes at once.
const PART: usize = 8 * LANES;
/// About how many terms a grain has besides its words.
const TERMS: usize = 14;

/// A plain grain, in an envelope or not, its words and the keys of its user.
#[derive(Clone, Copy, Debug)]
pub struct PlainGrain<'a> {
    /// A verified blob.
    pub blob: &'a [u8],
    /// Its address.
    pub digest: &'a [u8],
    /// The words of its texts, separated by spaces, in any order.
    pub words: &'a str,
    /// The key of its terms, 32 bytes.
    pub key: &'a [u8],
    /// The key of its address, 32 bytes.
    pub address_key: &'a [u8],
}

/// The terms that find a grain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blind {
    /// Each once, in order.
    pub tokens: Vec<Token>,
    /// The token of its address.
    pub address: Token,
    /// The time of its places, in ms.
    pub created_at: u64,
}

/// The tokens of each grain.
///
/// # Errors `ERR_KEY` for a key of another length, or a grain that is already sealed;
/// `ERR_CORRUPT` for a damaged one.
pub fn blind(grains: &[PlainGrain<'_>], paths: &IndexedPaths) -> Result<Vec<Blind>> {
    // A batch has many grains of few users.
    let mut numbers = HashMap::new();
    let mut states = Vec::new();
    let mut whose = Vec::with_capacity(grains.len());
    for grain in grains {
        let keys = (grain.key, grain.address_key);
        let number = match numbers.get(&keys) {
            Some(number) => *number,
            None => {
                states.push((Hmac::new(grain.key)?, Hmac::new(grain.address_key)?));
                numbers.insert(keys, states.len() - 1);
                states.len() - 1
            }
        };
        whose.push(number);
    }
    let hashed: usize =
        grains.iter().map(|grain| grain.blob.len() + BLOCK * (grain.words.len() / 4 + 2 * TERMS)).sum();
    let one = |i: usize| of_grain(&grains[i], paths, &states[whose[i]].0, &states[whose[i]].1);
    on_all_cores(hashed, grains.len(), one).into_iter().collect()
}

fn of_grain(grain: &PlainGrain<'_>, paths: &IndexedPaths, hmac: &Hmac, address: &Hmac) -> Result<Blind> {
    if Header::read(extent::inner(grain.blob)?)?.has(ENCRYPTED) {
        return Err(Error::new(Code::Key, "the grain is encrypted, and there is no key to decrypt it").at(1));
    }
    let mut terms: Vec<Key> = Vec::with_capacity(2 * TERMS);
    let place = rows(grain.blob, &[0; 32], 0, paths, |term| terms.push(term))?;
    let words = grain.words.split(' ').filter(|word| !word.is_empty());
    terms.extend(words.map(|word| [WORD].iter().chain(word.as_bytes()).copied().collect()));
    terms.sort_unstable();
    terms.dedup(); // a text repeats words, and to hash one costs more than to compare it
    let mut tokens = hmac.tokens(&terms);
    tokens.sort_unstable();
    tokens.dedup();
    let created_at = place[..6].iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
    Ok(Blind { tokens, address: address.token(grain.digest), created_at })
}

/// The token of each term under one key.
///
/// # Errors
/// `ERR_KEY` for a key of another length.
pub fn tokens(key: &[u8], terms: &[&[u8]]) -> Result<Vec<Token>> {
    let hmac = Hmac::new(key)?;
    let hashed = terms.iter().map(|term| term.len() + 2 * BLOCK).sum();
    let parts: Vec<_> = terms.chunks(PART).collect();
    Ok(on_all_cores(hashed, parts.len(), |i| hmac.tokens(parts[i])).concat())
}

/// The token of one term under each key: a query for it does not show the user.
///
/// # Errors
/// `ERR_KEY` for a key of another length.
pub fn tokens_many(keys: &[&[u8]], term: &[u8]) -> Result<Vec<Token>> {
    let hashed = keys.len() * (term.len() + 4 * BLOCK);
    let parts: Vec<_> = keys.chunks(LANES).collect();
    let made = on_all_cores(hashed, parts.len(), |i| under_each(parts[i], term));
    made.into_iter().collect::<Result<Vec<_>>>().map(|tokens| tokens.concat())
}

/// The blocks to encrypt for masking the times of some places.
///
/// # Errors `ERR_CORRUPT` if the length is not 16 bytes a place.
pub fn place_blocks(places: &[u8]) -> Result<Vec<u8>> {
    let mut blocks = Vec::with_capacity(places.len());
    for place in whole(places)? {
        blocks.extend_from_slice(&place[TIME..]);
        blocks.extend_from_slice(&[0; TIME]);
    }
    Ok(blocks)
}

/// The places with their times masked, or shown again, by the encrypted blocks.
///
/// # Errors `ERR_CORRUPT` if the length is not 16 bytes a place, or the numbers of blocks and
/// places differ.
pub fn mask_times(places: &[u8], stream: &[u8]) -> Result<Vec<u8>> {
    let mut masked = places.to_vec();
    if stream.len() != places.len() {
        return Err(Error::new(Code::Corrupt, "the numbers of blocks and places differ"));
    }
    for (i, mask) in whole(stream)?.iter().enumerate() {
        let time = &mut masked[i * VALUE..][..TIME];
        time.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
    }
    Ok(masked)
}

fn whole(places: &[u8]) -> Result<&[[u8; VALUE]]> {
    let (places, rest) = places.as_chunks();
    if rest.is_empty() {
        return Ok(places);
    }
    Err(Error::new(Code::Corrupt, "the length is not a multiple of a place's 16 bytes")
        .expected(format!("{VALUE} bytes each")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::sha256;
    use crate::encode::{Options, encode};
    use crate::json;

    /// HMAC as RFC 2104 writes it.
    fn plain_hmac(key: &[u8], data: &[u8]) -> Token {
        let pad = |byte: u8| [key, &[0; BLOCK - KEY]].concat().iter().map(|b| b ^ byte).collect::<Vec<u8>>();
        let inner = sha256(&[&pad(0x36)[..], data].concat());
        sha256(&[&pad(0x5c)[..], &inner].concat())[..TOKEN].try_into().unwrap()
    }

    fn blob(i: usize) -> Vec<u8> {
        let text = format!(
            r#"{{"type":"belief","subject":"s{i}","relation":"r","object":"o","confidence":1,
            "created_at":{},"user_id":"u","structural_tags":["a","b"]}}"#,
            1000 * i
        );
        encode(&&json::parse(text.as_bytes()).unwrap(), &Options::default()).unwrap()
    }

    #[test]
    fn tokens_are_hmacs_of_the_rows_and_words() {
        let keys: [[u8; KEY]; 2] = [[7; KEY], [9; KEY]];
        let blobs: Vec<_> = (0..300).map(blob).collect();
        let grain = |(i, blob): (usize, _)| PlainGrain {
            blob,
            digest: &blob[..32],
            words: " one  one",
            key: &keys[i % 2],
            address_key: &keys[i % 3 % 2],
        };
        let grains: Vec<_> = blobs.iter().map(|b| &b[..]).enumerate().map(grain).collect();
        for (i, found) in blind(&grains, &IndexedPaths::default()).unwrap().into_iter().enumerate() {
            let key = &keys[i % 2];
            let mut expected = vec![plain_hmac(key, b"wone")];
            rows(&blobs[i], &[0; 32], 0, &IndexedPaths::default(), |term| {
                expected.push(plain_hmac(key, &term))
            })
            .unwrap();
            expected.sort_unstable();
            let address = plain_hmac(&keys[i % 3 % 2], &blobs[i][..32]);
            assert_eq!(found, Blind { tokens: expected, address, created_at: 1000 * i as u64 });
        }
    }

    #[test]
    fn one_key_or_one_term() {
        let keys: Vec<[u8; KEY]> = (0..=255).map(|n| [n; KEY]).collect();
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let terms: Vec<&[u8]> = vec![b"", b"uann", &[0xff; 500]];
        for term in &terms {
            let found = tokens_many(&keys, term).unwrap();
            for (key, token) in keys.iter().zip(&found) {
                assert_eq!(*token, plain_hmac(key, term));
            }
        }
        for key in &keys {
            let expected: Vec<_> = terms.iter().map(|term| plain_hmac(key, term)).collect();
            assert_eq!(tokens(key, &terms).unwrap(), expected);
        }
    }

    #[test]
    fn only_times_are_masked() {
        let places: Vec<u8> = (0..48).collect();
        let blocks = place_blocks(&places).unwrap();
        assert_eq!(blocks[16..32], [22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 0, 0, 0, 0, 0, 0]);
        let masked = mask_times(&places, &[0xff; 48]).unwrap();
        let expected: Vec<u8> = (0..48).map(|i| if i % 16 < 6 { !i } else { i }).collect();
        assert_eq!(masked, expected);
        assert_eq!(place_blocks(&masked).unwrap(), blocks);
        for wrong in
            [place_blocks(&places[1..]), mask_times(&places, &[0; 32]), mask_times(&[0; 15], &[0; 15])]
        {
            assert_eq!(wrong.unwrap_err().kind(), Code::Corrupt);
        }
    }

    #[test]
    fn what_has_no_tokens() {
        let (good, key, paths) = (blob(1), [1; KEY], IndexedPaths::default());
        let under = |blob: &[u8], key: &[u8], address_key: &[u8]| {
            blind(&[PlainGrain { blob, digest: &[], words: "", key, address_key }], &paths)
                .unwrap_err()
                .kind()
        };
        let code = |blob: &[u8], key: &[u8]| under(blob, key, &[1; KEY]);
        assert_eq!(code(&good, &key[1..]), Code::Key);
        assert_eq!(under(&good, &key, &key[1..]), Code::Key);
        assert_eq!(code(&good[..good.len() - 1], &key), Code::Corrupt);
        let sealed = [&[1, good[1] | ENCRYPTED], &good[2..]].concat();
        assert_eq!(code(&sealed, &key), Code::Key);
        assert_eq!(tokens(&[], &[]).unwrap_err().kind(), Code::Key);
        assert_eq!(tokens_many(&[&key, &[0; 64]], b"").unwrap_err().kind(), Code::Key);
    }
}
