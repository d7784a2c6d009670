// SPDX-License-Identifier: Apache-2.0
//! Grains as a query meets them: at places of the index, with blobs that are hashed together.

use crate::address::{Digest, parse};
use crate::batch::address_many;
use crate::index_rows::Place;

/// The address of each blob. `skip` bytes stand before it in its row.
pub fn addresses(rows: &[&[u8]], skip: usize) -> Vec<Digest> {
    let blobs: Vec<&[u8]> = rows.iter().map(|row| row.get(skip..).unwrap_or_default()).collect();
    address_many(&blobs)
}

/// Whether a grain with this address belongs at a place: six bytes of the one stand in the other.
pub fn is_at(place: &Place, digest: &Digest) -> bool {
    place[6..12].iter().zip(digest).all(|(a, b)| *a == !*b)
}

/// The same of an address in hex.
pub fn fits(place: &Place, address: &str) -> bool {
    parse(address).is_ok_and(|digest| is_at(place, &digest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::sha256;
    use crate::index_rows::place;

    #[test]
    fn a_grain_is_told_from_its_neighbour() {
        let rows: [&[u8]; 3] = [b"mark-one", b"mark-two and more", b"no"];
        let found = addresses(&rows, 5);
        assert_eq!(found, [sha256(b"one"), sha256(b"two and more"), sha256(b"")]);
        let hex = |digest: &Digest| digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let here = place(1_700_000_000_000, &found[0], 9);
        assert!(fits(&here, &hex(&found[0])));
        assert!(!fits(&here, &hex(&found[1])));
        assert!(!fits(&here, "no address"));
    }
}
