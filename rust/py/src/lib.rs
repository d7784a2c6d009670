// SPDX-License-Identifier: Apache-2.0
//! `omsgrain._core`: the binding lists what Python can call; the work is in `omsgrain-core`.

mod batch;
mod blind;
mod container;
mod error;
mod functions;
mod jcs;
mod nearest;
mod node;
mod object;
mod sealing;
mod signatures;
mod tail;

/// The Rust core of omsgrain. Private: use `omsgrain`.
#[pyo3::pymodule]
mod _core {
    #[pymodule_export]
    use crate::batch::{Batch, encode_jsonl, encode_many};
    #[pymodule_export]
    use crate::blind::{blind, blind_rows, mask_times, place_blocks, tokens, tokens_many, user_ids};
    #[pymodule_export]
    use crate::container::{envelope_blob, extent, measure_frame, pack_frame, unpack_frame};
    #[pymodule_export]
    use crate::functions::{
        address, address_many, check, check_many, decode, decode_many, encode, fingerprint, header,
        parse_address, registry_json, verify, verify_many,
    };

    #[pymodule_export]
    use crate::jcs::canonical_json;
    #[pymodule_export]
    use crate::nearest::nearest;
    #[pymodule_export]
    use crate::sealing::{plain_header, sealed_header};
    #[pymodule_export]
    use crate::signatures::prove_many;
    #[pymodule_export]
    use crate::tail::{Tail, millis, term};

    /// The version, from Cargo.toml: the one place where it stands.
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    /// Whether this is a slow build for debugging.
    #[pymodule_export]
    const DEBUG: bool = cfg!(debug_assertions);
}
