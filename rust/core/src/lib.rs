// SPDX-License-Identifier: Apache-2.0
//! Memory grains (OMS 1.2): from fields to canonical bytes and their address, and back.
//!
//! The modules stand in the order of the flow:
//!
//! ```text
//! value ─▶ fields ─▶ validate ─▶ compact ─▶ codec ─▶ header ─▶ address
//!            └───────────── encode / decode ─────────────┘
//!                           batch · jsonl: many at once
//! ```
//! Without the feature `std` (`default-features = false`) one grain at a time is written, read and
//! verified with `alloc` alone.
#![cfg_attr(not(any(feature = "std", test)), no_std)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

#[macro_use]
extern crate alloc;

pub mod error;
mod perfect;
pub mod registry;

pub mod address;
pub mod check;
pub mod codec;
pub mod compress;
pub mod datetime;
pub mod decode;
pub mod encode;
pub mod expand;
pub mod extent;
pub mod fields;
pub mod fingerprint;
#[cfg(feature = "std")]
pub mod floats;
#[cfg(feature = "container")]
pub mod frames;
pub mod glance;
pub mod header;
#[cfg(feature = "batch")]
mod hmac;
pub mod index_rows;
pub mod lane;
pub mod marks;
#[cfg(feature = "std")]
pub mod nearest;
#[cfg(feature = "json")]
pub mod origin;
pub mod profiles;
pub mod sealing;
#[cfg(feature = "batch")]
mod sha256;
pub mod text;
pub mod validate;
pub mod value;
pub mod warn;

#[cfg(feature = "batch")]
pub mod ahead;
#[cfg(feature = "batch")]
pub mod batch;
#[cfg(feature = "batch")]
pub mod blind;
#[cfg(feature = "batch")]
pub mod block;
#[cfg(feature = "json")]
pub mod jcs;
#[cfg(feature = "json")]
pub mod json;
#[cfg(all(feature = "batch", feature = "json"))]
pub mod jsonl;
#[cfg(feature = "batch")]
pub mod placed;
#[cfg(feature = "batch")]
pub mod tail;

#[cfg(feature = "signatures")]
pub mod cose;
#[cfg(feature = "signatures")]
pub mod did;
#[cfg(feature = "signatures")]
pub mod signatures;

pub use error::{Code, Error, Result};
pub use header::Header;
pub use value::{Node, Value, View};
