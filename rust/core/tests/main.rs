// SPDX-License-Identifier: Apache-2.0
//! The crate as its users see it.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod lightweight;
mod lines;
mod memtable;
mod reconcile;
mod round_trip;
mod shape_cache_read;
mod shape_cache_write;
mod surface;
mod vectors;
