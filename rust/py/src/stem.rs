// SPDX-License-Identifier: Apache-2.0
//! Stems of words, by Snowball.

use omsgrain_core::{Code, Error};
use pyo3::prelude::*;

use crate::error::raise;

/// The Snowball stemmer of a language.
#[pyclass(frozen, module = "omsgrain._core")]
pub struct Stemmer(frostem::Stemmer);

#[pymethods]
impl Stemmer {
    #[new]
    fn new(py: Python<'_>, language: &str) -> PyResult<Self> {
        frostem::Stemmer::try_from_name(language)
            .map(Stemmer)
            .map_err(|_| raise(py, &Error::new(Code::Schema, "no stemmer for this language")))
    }

    /// The stem of a word in lower case.
    fn stem(&self, word: &str) -> String {
        self.0.stem(word).into_owned()
    }
}
