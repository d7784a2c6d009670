// SPDX-License-Identifier: Apache-2.0
//! A file that is held open, to see whether it still has a name. Python's `os.fstat` makes an object
//! of all that the system says, which costs as much as all else that a snapshot needs.

use std::fs::{File, Metadata};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;

/// An open file.
#[pyclass(frozen, module = "omsgrain._core")]
pub struct HeldFile(Mutex<Option<File>>);

#[pymethods]
impl HeldFile {
    #[new]
    fn new(path: PathBuf) -> PyResult<Self> {
        Ok(HeldFile(Mutex::new(Some(File::open(path)?))))
    }

    /// Whether it is still in a directory: neither replaced nor removed. Of a closed one, false.
    fn has_name(&self) -> PyResult<bool> {
        self.file().as_ref().map_or(Ok(false), |file| Ok(is_linked(&file.metadata()?)))
    }

    /// Closes it; a second call does nothing.
    fn close(&self) {
        drop(self.file().take());
    }
}

impl HeldFile {
    fn file(&self) -> MutexGuard<'_, Option<File>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(unix)]
fn is_linked(metadata: &Metadata) -> bool {
    std::os::unix::fs::MetadataExt::nlink(metadata) > 0
}

/// Elsewhere an open file cannot be removed.
#[cfg(not(unix))]
fn is_linked(_: &Metadata) -> bool {
    true
}
