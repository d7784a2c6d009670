// SPDX-License-Identifier: Apache-2.0
//! The items of a store that a sync compares, and the messages about them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use omsgrain_core::reconcile::{Id, Item, Items, KEY, Part, cut};
use omsgrain_core::{batch, peek};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::raise;

/// The items of one side of a reconciliation. An item is a time, an id of 32 bytes and a number.
#[pyclass(frozen, module = "omsgrain._core")]
#[derive(Default)]
pub struct SyncItems(Mutex<Items>);

#[pymethods]
impl SyncItems {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        py.detach(|| self.settled().len())
    }

    /// Adds grains by their numbers and blobs. An id begins as their address.
    fn add_blobs(&self, py: Python<'_>, seqs: Vec<u64>, blobs: Vec<Bound<'_, PyBytes>>) -> PyResult<()> {
        let blobs: Vec<&[u8]> = blobs.iter().map(|blob| blob.as_bytes()).collect();
        py.detach(|| {
            let digests = batch::address_many(&blobs);
            let each = seqs.iter().zip(&blobs).zip(&digests);
            self.items()
                .add(each.map(|((&seq, blob), digest)| Item::new(peek::created_at(blob), digest, seq)));
        });
        Ok(())
    }

    /// Adds items: time, key and a digest of each. Their number is 0.
    fn add(&self, py: Python<'_>, items: Vec<(u64, Id, Part)>) {
        let items = items.into_iter().map(|(time, key, part)| {
            let mut item = Item::new(time, &key, 0);
            item.set_part(KEY, &part);
            item
        });
        py.detach(|| self.items().add(items));
    }

    /// Sets eight bytes of the ids of items to digests, by their numbers.
    fn set_parts(&self, py: Python<'_>, at: usize, parts: Vec<(u64, Part)>) {
        py.detach(|| self.items().set_parts(at, &parts.into_iter().collect()));
    }

    /// The fingerprint of all items.
    fn whole<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &py.detach(|| self.settled().whole()))
    }

    /// The numbers of at most so many items, evenly spread.
    fn sample(&self, py: Python<'_>, count: usize) -> Vec<u64> {
        py.detach(|| self.settled().sample(count).map(|item| item.seq).collect())
    }

    /// For each key, the numbers of the items whose ids begin with it.
    fn find(&self, py: Python<'_>, keys: Vec<Bound<'_, PyBytes>>) -> Vec<Vec<u64>> {
        let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
        py.detach(|| {
            let mut found = vec![Vec::new(); keys.len()];
            for (at, seq) in self.settled().find(&keys) {
                found[at].push(seq);
            }
            found
        })
    }

    /// The first message of a reconciliation.
    fn initiate<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &py.detach(|| self.settled().initiate()))
    }

    /// The response to a message. For an initiator also the ids that only this side has, and those
    /// that only the other side has.
    fn answer<'py>(
        &self,
        py: Python<'py>,
        message: &Bound<'py, PyBytes>,
        initiator: bool,
        limit: usize,
    ) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let message = message.as_bytes();
        let said =
            py.detach(|| self.settled().answer(message, initiator, limit)).map_err(|e| raise(py, &e))?;
        let [have, need] = [said.have, said.need].map(|ids| PyBytes::new(py, ids.as_flattened()));
        Ok((PyBytes::new(py, &said.message), have, need))
    }
}

/// The first ranges of a message that is longer than a limit; nothing is lost by it.
#[pyfunction]
pub fn cut_message<'py>(
    py: Python<'py>,
    message: &Bound<'py, PyBytes>,
    limit: usize,
) -> PyResult<Bound<'py, PyBytes>> {
    let bytes = cut(message.as_bytes(), limit).map_err(|e| raise(py, &e))?;
    Ok(PyBytes::new(py, &bytes))
}

impl SyncItems {
    /// The items, to read them.
    fn settled(&self) -> MutexGuard<'_, Items> {
        let mut items = self.items();
        items.settle();
        items
    }

    fn items(&self) -> MutexGuard<'_, Items> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
