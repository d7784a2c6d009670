// SPDX-License-Identifier: Apache-2.0
//! The shape cache reads and writes grains of a known shape in one pass.
//!
//! Most grains of a batch have the same keys in the same order. A [`Plan`] holds the registry's
//! rules for those keys. With a plan, each value is checked and copied without a look-up or an
//! allocation.
//!
//! The cache accepts a grain or declines it; it never refuses one. Invariant: the general code
//! (`encode`, `decode`, `json`) accepts what the cache accepts, with the same bytes and no
//! warnings. A declined grain changes nothing and goes to the general code.
//!
//! Rows of `make bench-stages` against the general code: "encode: msgpack" 5.6 times as fast,
//! "read" 4.5, "json: 1,000 lines" 3.0. Rows E1 to E4 of benches/RESULTS.md use it. The fuzz
//! targets `shape_write`, `shape_read` and `shape_json` compare both.

#[cfg(feature = "binding")]
mod json;
mod plan;
mod read;
mod scalar;
#[cfg(feature = "binding")]
mod scan;
mod write;

#[cfg(feature = "binding")]
pub use json::Lines;
pub use plan::{KeyBytes, Need, Plan, Rule, Step, Word};
pub use read::{Last, Reader, learn_one, takes, takes_one};
pub use scalar::{is_word, passes, tag_level};
pub use write::{Cache, ShapeCache, write};
