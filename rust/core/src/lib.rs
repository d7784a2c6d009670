// SPDX-License-Identifier: Apache-2.0
#![doc = include_str!("../README.md")]
// The surface is what the last lines of this file name. The modules follow the flow:
//
//     value ─▶ fields ─▶ validate ─▶ compact ─▶ codec ─▶ header ─▶ address
//                └───────────── encode / decode ─────────────┘
//                               batch, jsonl: many at once
//
// Those that the binding, the fuzz targets and the benchmarks call are public, but not documented,
// and may change in any version.
#![cfg_attr(not(any(feature = "std", test)), no_std)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]
#![warn(missing_docs)]

#[macro_use]
extern crate alloc;

mod error;
mod perfect;
#[doc(hidden)]
pub mod registry;

#[doc(hidden)]
pub mod address;
#[doc(hidden)]
pub mod check;
#[doc(hidden)]
pub mod codec;
mod compress;
#[doc(hidden)]
pub mod datetime;
#[doc(hidden)]
pub mod decode;
#[doc(hidden)]
pub mod encode;
mod expand;
#[doc(hidden)]
pub mod extent;
#[doc(hidden)]
pub mod fields;
#[doc(hidden)]
pub mod fingerprint;
#[cfg(feature = "std")]
#[doc(hidden)]
pub mod floats;
#[cfg(feature = "container")]
#[doc(hidden)]
pub mod frames;
#[doc(hidden)]
pub mod glance;
mod grain;
#[doc(hidden)]
pub mod header;
#[cfg(feature = "batch")]
mod hmac;
#[doc(hidden)]
pub mod index_rows;
#[doc(hidden)]
pub mod lane;
#[doc(hidden)]
pub mod marks;
#[cfg(feature = "std")]
#[doc(hidden)]
pub mod nearest;
#[cfg(feature = "json")]
mod origin;
mod profiles;
#[doc(hidden)]
pub mod sealing;
#[cfg(feature = "batch")]
mod sha256;
#[doc(hidden)]
pub mod text;
#[doc(hidden)]
pub mod validate;
mod value;
mod warn;

#[cfg(feature = "batch")]
#[doc(hidden)]
pub mod ahead;
#[cfg(feature = "batch")]
#[doc(hidden)]
pub mod batch;
#[cfg(feature = "batch")]
#[doc(hidden)]
pub mod blind;
#[cfg(feature = "batch")]
#[doc(hidden)]
pub mod block;
#[cfg(feature = "json")]
#[doc(hidden)]
pub mod jcs;
#[cfg(feature = "json")]
#[doc(hidden)]
pub mod json;
#[cfg(all(feature = "batch", feature = "json"))]
#[doc(hidden)]
pub mod jsonl;
#[cfg(feature = "batch")]
#[doc(hidden)]
pub mod placed;
#[cfg(feature = "batch")]
#[doc(hidden)]
pub mod tail;

#[cfg(feature = "signatures")]
#[doc(hidden)]
pub mod cose;
#[cfg(feature = "signatures")]
mod did;
#[cfg(feature = "signatures")]
#[doc(hidden)]
pub mod signatures;

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
pub use value::Value;
