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

mod cache;
mod judge;
mod plan;
mod read;
mod reader;
mod rules;
mod write;

pub use cache::{Cache, Lane};
pub use judge::{is_word, passes, tag_level};
pub use plan::{KeyBytes, Plan, Step};
pub use read::{Last, takes};
pub use reader::{Reader, learn_one, takes_one};
pub use rules::{Need, Rule, Word};
pub use write::write;
