// SPDX-License-Identifier: Apache-2.0
//! Searches blobs for any of a few byte strings, in one pass over the bytes.

use alloc::vec;
use alloc::vec::Vec;

/// The byte strings.
#[derive(Debug)]
pub struct ByteSearch {
    marks: Vec<Vec<u8>>,
    /// A bit for each pair of bytes: whether one of the byte strings begins with it.
    begins: Vec<u64>,
}

const PAIRS: usize = 1 << 16;

impl ByteSearch {
    /// Byte strings of fewer than two bytes are never found.
    pub fn new(marks: Vec<Vec<u8>>) -> Self {
        let mut begins = vec![0; PAIRS / 64];
        for mark in &marks {
            if let [first, second, ..] = mark[..] {
                let pair = usize::from(u16::from_be_bytes([first, second]));
                begins[pair / 64] |= 1 << (pair % 64);
            }
        }
        ByteSearch { marks, begins }
    }

    /// Whether some bytes contain one of them.
    pub fn are_in(&self, bytes: &[u8]) -> bool {
        bytes.windows(2).enumerate().any(|(at, pair)| {
            let pair = usize::from(pair[0]) << 8 | usize::from(pair[1]);
            self.begins[pair / 64] >> (pair % 64) & 1 == 1
                && self.marks.iter().any(|mark| mark.len() > 1 && bytes[at..].starts_with(mark))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::ByteSearch;

    #[test]
    fn finds_what_stands_anywhere() {
        let search = ByteSearch::new(vec![b"\xa2sj".to_vec(), b"\xa5itype".to_vec(), b"x".to_vec()]);
        for bytes in [&b"\xa2sj"[..], b"..\xa2\xa2sj..", b"\xa5ity\xa5itype"] {
            assert!(search.are_in(bytes));
        }
        for bytes in [&b""[..], b"\xa2", b"\xa2s", b"\xa2s\xa2s", b"sj", b"\xa5ityp", b"x"] {
            assert!(!search.are_in(bytes));
        }
    }
}
