// SPDX-License-Identifier: Apache-2.0
//! Any bytes as a header: a header read and written stays the same, and facts accept their header.
#![no_main]

use libfuzzer_sys::fuzz_target;
use omsgrain_core::header::{CONTENT_REFS, EMBEDDING_REFS, Facts, Header, LEN, SIGNED};
use omsgrain_core::{Code, decode};

fuzz_target!(|blob: &[u8]| {
    let header = match Header::read(blob) {
        Ok(header) => header,
        Err(refused) => {
            assert!(matches!(refused.kind(), Code::TooShort | Code::Version));
            assert_eq!(decode::open(blob).map_err(|e| e.kind()).err(), Some(refused.kind()));
            return;
        }
    };
    assert_eq!(header.to_bytes(), blob[..LEN]);
    if header.has(SIGNED) {
        assert!(decode::open(blob).is_err());
    }
    let facts = Facts {
        refs: header.flags & (CONTENT_REFS | EMBEDDING_REFS),
        sensitivity: header.sensitivity(),
        ns_hash: header.ns_hash,
        no_namespace: false,
        created_at: header.created_at,
    };
    assert!(header.check(&facts).is_ok());
    let made = facts.header(header.type_byte, header.encoding(), blob[LEN] & 3);
    assert!(made.check(&facts).is_ok());
    assert!(made.sensitivity() >= facts.sensitivity);
    let others = [
        Facts { refs: facts.refs ^ CONTENT_REFS, ..facts },
        Facts { ns_hash: facts.ns_hash ^ 1, ..facts },
        Facts { created_at: facts.created_at ^ 1, ..facts },
    ];
    assert!(others.iter().all(|other| header.check(other).is_err()));
});
