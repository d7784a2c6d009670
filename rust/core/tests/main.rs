// SPDX-License-Identifier: Apache-2.0
//! The crate as its users see it.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod lane;
mod round_trip;
mod tail;
mod vectors;
