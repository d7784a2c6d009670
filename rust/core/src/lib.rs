// SPDX-License-Identifier: Apache-2.0
#![doc = include_str!("../README.md")]
// The last lines of this file name the public API. The modules follow the flow of data:
//
//     value ─▶ fields ─▶ validate ─▶ compact ─▶ codec ─▶ header ─▶ address
//                └───────────── encode / decode ─────────────┘
//                               batch, json::lines: many at once
//
// The binding, the fuzz targets and the benchmarks call the other public modules. These are not
// documented, and may change in any version.
#![cfg_attr(not(any(feature = "std", test)), no_std)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]
#![warn(missing_docs)]

#[macro_use]
extern crate alloc;

mod error;
mod perfect;
#[doc(hidden)]
pub mod registry;

mod compose;
mod compress;
mod grain;
mod lightweight;
mod mg_file;
mod profiles;
mod script;
mod value;
mod warn;

#[doc(hidden)]
pub mod address;
#[doc(hidden)]
pub mod check;
#[doc(hidden)]
pub mod codec;
#[doc(hidden)]
pub mod datetime;
#[doc(hidden)]
pub mod decode;
#[doc(hidden)]
pub mod encode;
#[doc(hidden)]
pub mod fields;
#[doc(hidden)]
pub mod header;
#[doc(hidden)]
pub mod shape_cache;
#[doc(hidden)]
pub mod text;
#[doc(hidden)]
pub mod validate;

// Only the binding needs these.
#[cfg(feature = "binding")]
#[doc(hidden)]
pub mod addresses;
#[cfg(feature = "binding")]
#[doc(hidden)]
pub mod batch;
#[cfg(feature = "binding")]
#[doc(hidden)]
pub mod blind_index;
#[cfg(feature = "binding")]
#[doc(hidden)]
pub mod block;
#[cfg(feature = "binding")]
#[doc(hidden)]
pub mod byte_search;
#[cfg(feature = "binding")]
#[doc(hidden)]
pub mod columns;
#[cfg(feature = "binding")]
#[doc(hidden)]
pub mod cose;
#[cfg(feature = "binding")]
#[doc(hidden)]
pub mod extent;
#[cfg(feature = "binding")]
#[doc(hidden)]
pub mod fingerprint;
#[cfg(feature = "binding")]
#[doc(hidden)]
pub mod frames;
#[cfg(feature = "binding")]
mod hmac;
#[cfg(feature = "binding")]
#[doc(hidden)]
pub mod index_rows;
#[cfg(feature = "binding")]
#[doc(hidden)]
pub mod indexed_paths;
#[cfg(feature = "binding")]
#[doc(hidden)]
pub mod json;
#[cfg(feature = "binding")]
#[doc(hidden)]
pub mod memtable;
#[cfg(feature = "binding")]
#[doc(hidden)]
pub mod pages;
#[cfg(feature = "binding")]
#[doc(hidden)]
pub mod peek;
#[cfg(feature = "binding")]
#[doc(hidden)]
pub mod reconcile;
#[cfg(feature = "binding")]
#[doc(hidden)]
pub mod seal;
#[cfg(feature = "binding")]
#[doc(hidden)]
pub mod searched;
#[cfg(feature = "binding")]
mod sha256_lanes;
#[cfg(feature = "binding")]
#[doc(hidden)]
pub mod signature;
#[cfg(feature = "binding")]
#[doc(hidden)]
pub mod sorted_runs;
#[cfg(feature = "binding")]
#[doc(hidden)]
pub mod vectors;

#[doc(hidden)]
pub use error::{Code, Result};
#[doc(hidden)]
pub use header::Header;
#[doc(hidden)]
pub use value::{Node, View};

pub use address::Address;
pub use encode::Options;
pub use error::Error;
pub use grain::{Grain, decode, encode, verify};
pub use lightweight::{Belief, Object, Observation, Refusal};
pub use mg_file::{mg_size, write_mg};
pub use value::Value;
