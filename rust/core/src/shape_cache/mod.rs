// SPDX-License-Identifier: Apache-2.0
//! The lane: grains of a shape seen before, taken in one pass.
//!
//! Most grains of a batch have the same keys in the same order. What the registry says of those
//! keys is gathered once, in a [`Plan`]; then a grain is judged and written value by value, with no
//! look-up and no allocation.
//!
//! A lane accepts or declines; it never refuses. Invariant: what it accepts, the general way
//! accepts too, with the same bytes and without warnings. Whatever is unusual it declines, and
//! leaves nothing behind; the general way then treats the grain from the start.

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
