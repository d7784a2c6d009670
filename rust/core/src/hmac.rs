// SPDX-License-Identifier: Apache-2.0
//! HMAC-SHA256 of short terms, truncated to 16 bytes. Spec: RFC 2104
//!
//! Key material is dropped at the end of each call.

use sha2::digest::generic_array::GenericArray;
use sha2::{Digest as _, Sha256, compress256};

use crate::sha256_lanes::{BLOCK, Eight, LANES, START, Wide as _, digest};
type States = crate::sha256_lanes::States<LANES>;
use crate::{Code, Error, Result};

/// Bytes of a token.
pub const TOKEN: usize = 16;
/// A term under a key.
pub type Token = [u8; TOKEN];
/// Bytes of a key.
pub const KEY: usize = 32;

/// Bytes of a term that fits into one block, with one byte and the length after it.
const SHORT: usize = BLOCK - 9;
const INNER: u8 = 0x36;
const OUTER: u8 = 0x5c;

/// A key with its first blocks already hashed.
pub struct Hmac {
    long: Sha256,
    inner: [u32; 8],
    outer: [u32; 8],
    wide: Option<(Eight, Starts)>,
}

/// The states after the first block, inner and outer, of eight keys.
#[derive(Clone, Copy)]
struct Starts {
    inner: States,
    outer: States,
}

impl Hmac {
    /// Makes the states of a key.
    ///
    /// # Errors `ERR_KEY` if it does not have 32 bytes.
    pub fn new(key: &[u8]) -> Result<Hmac> {
        let key = whole(key)?;
        let start = |pad| compressed(START, &padded(key, pad));
        let wide = Eight::here().map(|wide| (wide, Starts::of([key; LANES], wide)));
        let long = Sha256::new_with_prefix(padded(key, INNER));
        Ok(Hmac { long, inner: start(INNER), outer: start(OUTER), wide })
    }

    /// The token of a term. A short term takes two blocks, which are hashed without a hasher:
    /// copying a hasher costs as much as the blocks.
    pub fn token(&self, term: &[u8]) -> Token {
        let inner = match term.len() {
            ..=SHORT => bytes(compressed(self.inner, &last_block(term))),
            _ => self.long.clone().chain_update(term).finalize().into(),
        };
        cut(&bytes(compressed(self.outer, &last_block(&inner))))
    }

    /// The token of each term.
    pub fn tokens<T: AsRef<[u8]>>(&self, terms: &[T]) -> Vec<Token> {
        let mut out = Vec::with_capacity(terms.len());
        for terms in terms.chunks(LANES) {
            match &self.wide {
                // Hashing eight at once costs as much as two alone.
                Some((wide, starts))
                    if terms.len() > 1 && terms.iter().all(|t| t.as_ref().len() <= SHORT) =>
                {
                    let mut eight: [&[u8]; LANES] = [b""; LANES];
                    eight.iter_mut().zip(terms).for_each(|(to, term)| *to = term.as_ref());
                    out.extend_from_slice(&starts.tokens(eight, *wide)[..terms.len()]);
                }
                _ => out.extend(terms.iter().map(|term| self.token(term.as_ref()))),
            }
        }
        out
    }
}

/// The token of one term under each of at most eight keys.
///
/// # Errors `ERR_KEY` for a key that does not have 32 bytes.
pub fn under_each(keys: &[&[u8]], term: &[u8]) -> Result<Vec<Token>> {
    match (Eight::here(), keys) {
        (Some(wide), [first, _, ..]) if term.len() <= SHORT => {
            let mut eight = [whole(first)?; LANES];
            for (to, key) in eight.iter_mut().zip(keys) {
                *to = whole(key)?;
            }
            Ok(Starts::of(eight, wide).tokens([term; LANES], wide)[..keys.len()].to_vec())
        }
        _ => keys.iter().map(|key| Ok(Hmac::new(key)?.token(term))).collect(),
    }
}

impl Starts {
    fn of(keys: [&[u8; KEY]; LANES], wide: Eight) -> Starts {
        let start = |pad| {
            let mut states = START.map(|word| [word; LANES]);
            wide.compress(&mut states, &keys.map(|key| padded(key, pad)).each_ref());
            states
        };
        Starts { inner: start(INNER), outer: start(OUTER) }
    }

    fn tokens(&self, terms: [&[u8]; LANES], wide: Eight) -> [Token; LANES] {
        let (mut inner, mut outer) = (self.inner, self.outer);
        wide.compress(&mut inner, &terms.map(last_block).each_ref());
        let blocks: [_; LANES] = core::array::from_fn(|lane| last_block(&digest(&inner, lane)));
        wide.compress(&mut outer, &blocks.each_ref());
        std::array::from_fn(|lane| cut(&digest(&outer, lane)))
    }
}

fn compressed(mut state: [u32; 8], block: &[u8; BLOCK]) -> [u32; 8] {
    compress256(&mut state, core::slice::from_ref(GenericArray::from_slice(block)));
    state
}

fn bytes(state: [u32; 8]) -> [u8; 32] {
    digest(&state.map(|word| [word]), 0)
}

/// The second and last block of a message whose first was a padded key.
fn last_block(rest: &[u8]) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    block[..rest.len()].copy_from_slice(rest);
    block[rest.len()] = 0x80;
    let bits = 8 * (BLOCK + rest.len()) as u16;
    block[BLOCK - 2..].copy_from_slice(&bits.to_be_bytes());
    block
}

fn padded(key: &[u8; KEY], pad: u8) -> [u8; BLOCK] {
    let mut block = [pad; BLOCK];
    block.iter_mut().zip(key).for_each(|(to, from)| *to ^= from);
    block
}

fn cut(digest: &[u8; 32]) -> Token {
    let mut token = Token::default();
    token.copy_from_slice(&digest[..TOKEN]);
    token
}

fn whole(key: &[u8]) -> Result<&[u8; KEY]> {
    let wrong =
        |_| Error::new(Code::Key, "not a key").expected(format!("{KEY} bytes")).found(key.len().to_string());
    key.try_into().map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::sha256;

    /// As RFC 2104 writes it.
    fn plain(key: &[u8], term: &[u8]) -> Token {
        let pad = |byte: u8| [key, &[0; BLOCK - KEY]].concat().iter().map(|b| b ^ byte).collect::<Vec<u8>>();
        let inner = sha256(&[&pad(INNER)[..], term].concat());
        cut(&sha256(&[&pad(OUTER)[..], &inner].concat()))
    }

    #[test]
    fn terms_of_any_length_and_number() {
        let key: [u8; KEY] = std::array::from_fn(|n| n as u8 * 5);
        let hmac = Hmac::new(&key).unwrap();
        for most in [3, 55, 56, 200] {
            let terms: Vec<Vec<u8>> = (0..=most).rev().map(|len| vec![len as u8; len]).collect();
            let expected: Vec<_> = terms.iter().map(|term| plain(&key, term)).collect();
            for n in [0, 1, 2, 7, 8, 9, terms.len()].into_iter().filter(|n| *n <= terms.len()) {
                assert_eq!(hmac.tokens(&terms[..n]), expected[..n]);
            }
            let alone: Vec<_> = terms.iter().map(|term| hmac.token(term)).collect();
            assert_eq!(alone, expected);
        }
    }

    #[test]
    fn keys_of_any_number() {
        let keys: Vec<[u8; KEY]> = (0..8).map(|n| [n; KEY]).collect();
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        for len in [0, 20, 55, 56, 300] {
            let expected: Vec<_> = keys.iter().map(|key| plain(key, &vec![9; len])).collect();
            for n in 0..=8 {
                assert_eq!(under_each(&keys[..n], &vec![9; len]).unwrap(), expected[..n]);
            }
        }
        for short in 0..3 {
            let mut keys = keys.clone();
            keys[short] = &[1; KEY - 1];
            assert_eq!(under_each(&keys[..3], b"").unwrap_err().kind(), Code::Key);
        }
        assert_eq!(Hmac::new(&[0; 64]).err().map(|e| e.kind()), Some(Code::Key));
    }
}
