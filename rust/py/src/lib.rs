// SPDX-License-Identifier: Apache-2.0
//! `omsgrain._core`: this file lists the functions for Python; `omsgrain-core` does the work.

mod addresses;
mod batch;
mod blind;
mod columns;
mod commit_reader;
mod container;
mod convert;
mod error;
mod fast_check;
mod field_map;
mod functions;
mod index;
mod indexed_paths;
mod json;
mod like;
mod matrix;
mod memtable;
mod pages;
mod pyref;
mod read_counts;
mod reconcile;
mod shape_cache;
mod signature;
mod sorted_runs;
mod stem;

/// The Rust core of omsgrain. Private: use `omsgrain`.
///
/// `pyref` reads Python objects without counting references, which is sound only under the GIL. So
/// a free-threaded interpreter must turn the GIL on when it imports this module.
#[pyo3::pymodule(gil_used = true)]
mod _core {
    #[pymodule_export]
    use crate::addresses::{address_rows, listed};
    #[pymodule_export]
    use crate::batch::{Batch, encode_jsonl, encode_many};
    #[pymodule_export]
    use crate::blind::{
        BlindEntry, BlindRows, TextFields, blind, blind_blocks, blind_rows, key_rows, mask_times,
        place_blocks, tokens, tokens_many, user_ids,
    };
    #[pymodule_export]
    use crate::columns::{field_columns, sound_blobs};
    #[pymodule_export]
    use crate::commit_reader::CommitReader;
    #[pymodule_export]
    use crate::container::{
        FramePacker, FrameReader, block_order, check_block, check_plain, envelope_blob, extent,
        is_long_frame, measure_frame, pack_frame, pack_rows, split_block, unpack_frame,
    };
    #[pymodule_export]
    use crate::fast_check::Outline;
    #[pymodule_export]
    use crate::field_map::map_rows;
    #[pymodule_export]
    use crate::functions::{
        HeldFile, Marks, address, address_many, check, check_many, decode, decode_many, encode, encode_plain,
        fields, fingerprint, header, nearest, pack_floats, parse_address, registry_json, spell_time,
        unpack_floats, usual_seconds, verify, verify_many,
    };
    #[pymodule_export]
    use crate::index::{all_placed, blob_rows, blobs_at, stored_blobs};
    #[pymodule_export]
    use crate::indexed_paths::{IndexedPaths, value_keys};
    #[pymodule_export]
    use crate::json::{canonical_json, json_member, json_members, json_values, parse_json, spell_json};
    #[pymodule_export]
    use crate::matrix::VectorMatrix;
    #[pymodule_export]
    use crate::memtable::{Coming, Tail, bucket, coming, millis, term};
    #[pymodule_export]
    use crate::pages::{RowSums, free_pages, walk_pages};
    #[pymodule_export]
    use crate::read_counts::ReadCounts;
    #[pymodule_export]
    use crate::reconcile::{SyncItems, cut_message};
    #[pymodule_export]
    use crate::signature::{SignedPieces, joined_seals, plain_header, prove_many, seal_parts, sealed_header};
    #[pymodule_export]
    use crate::sorted_runs::{common_places, run_rows, run_suffixes, run_without};
    #[pymodule_export]
    use crate::stem::Stemmer;

    /// The version, which only Cargo.toml defines.
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    /// Whether this is a debug build, which is slow.
    #[pymodule_export]
    const DEBUG: bool = cfg!(debug_assertions);
}
