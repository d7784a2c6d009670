// SPDX-License-Identifier: Apache-2.0
//! `omsgrain._core`: the binding lists what Python can call; the work is in `omsgrain-core`.

mod batch;
mod blind;
mod borrowed;
mod container;
mod error;
mod floats;
mod functions;
mod held;
mod jcs;
mod json;
mod lane;
mod like;
mod looks;
mod marks;
mod nearest;
mod node;
mod object;
mod outline;
mod placed;
mod rows;
mod sealing;
mod shape;
mod signatures;
mod spell;
mod tail;
mod times;
mod wide;

/// The Rust core of omsgrain. Private: use `omsgrain`.
///
/// `borrowed` reads Python objects without counting references, which only the GIL makes sound: a
/// free-threaded interpreter must switch the GIL on when it imports this module.
#[pyo3::pymodule(gil_used = true)]
mod _core {
    #[pymodule_export]
    use crate::batch::{Batch, encode_jsonl, encode_many};
    #[pymodule_export]
    use crate::blind::{
        blind, blind_rows, mask_times, place_blocks, tokens, tokens_each, tokens_many, user_ids,
    };
    #[pymodule_export]
    use crate::container::{
        FramePacker, FrameReader, block_order, check_block, check_plain, envelope_blob, extent,
        is_long_frame, measure_frame, pack_frame, pack_rows, split_block, unpack_frame,
    };
    #[pymodule_export]
    use crate::floats::{pack_floats, unpack_floats};
    #[pymodule_export]
    use crate::functions::{
        address, address_many, check, check_many, decode, decode_many, encode, encode_plain, fingerprint,
        header, parse_address, registry_json, verify, verify_many,
    };

    #[pymodule_export]
    use crate::held::HeldFile;
    #[pymodule_export]
    use crate::jcs::canonical_json;
    #[pymodule_export]
    use crate::json::{json_member, json_members, json_values, parse_json};
    #[pymodule_export]
    use crate::marks::Marks;
    #[pymodule_export]
    use crate::nearest::nearest;
    #[pymodule_export]
    use crate::outline::Outline;
    #[pymodule_export]
    use crate::placed::{all_placed, blobs_at, stored_blobs};
    #[pymodule_export]
    use crate::rows::{address_rows, blob_rows};
    #[pymodule_export]
    use crate::sealing::{plain_header, sealed_header};
    #[pymodule_export]
    use crate::signatures::{SignedPieces, prove_many};
    #[pymodule_export]
    use crate::spell::spell_json;
    #[pymodule_export]
    use crate::tail::{Coming, Tail, coming, millis, term};
    #[pymodule_export]
    use crate::times::{spell_time, usual_seconds};

    /// The version, from Cargo.toml: the one place where it stands.
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    /// Whether this is a slow build for debugging.
    #[pymodule_export]
    const DEBUG: bool = cfg!(debug_assertions);
}
