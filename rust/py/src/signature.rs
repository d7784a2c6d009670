// SPDX-License-Identifier: Apache-2.0
//! Signatures of many signed grains, and of data in pieces.

use omsgrain_core::batch::{addresses, on_all_cores};
use omsgrain_core::seal::How;
use omsgrain_core::signature as core;
use omsgrain_core::signature::{Proof, Verdict};
use omsgrain_core::{Error, Header, seal};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::error::raise;

/// The number of envelopes between two checks for Ctrl-C: a tenth of a second.
const PART: usize = 4096;
/// Bytes of a nonce of AES-GCM.
const NONCE: usize = 12;

/// For each envelope (blob, the signer's DID, iat); False if only its signature is wrong; None if
/// the reference, `omsgrain.crypto.cose.prove`, must decide.
#[pyfunction]
pub fn prove_many<'py>(py: Python<'py>, envelopes: Vec<Bound<'py, PyBytes>>) -> PyResult<Bound<'py, PyList>> {
    let out = PyList::empty(py);
    for part in envelopes.chunks(PART) {
        py.check_signals()?;
        let views: Vec<&[u8]> = part.iter().map(|envelope| envelope.as_bytes()).collect();
        for verdict in py.detach(|| core::prove_many(&views)) {
            match verdict {
                Verdict::Holds(Proof { blob, signer, iat }) => {
                    out.append((PyBytes::new(py, blob), signer, iat))?;
                }
                Verdict::Fails => out.append(false)?,
                Verdict::Unknown => out.append(py.None())?,
            }
        }
    }
    Ok(out)
}

/// The check of one Ed25519 signature over data in pieces.
#[pyclass(module = "omsgrain._core")]
pub struct SignedPieces(Option<core::Pieces>);

#[pymethods]
impl SignedPieces {
    #[new]
    fn new(key: [u8; 32], signature: [u8; 64]) -> Self {
        SignedPieces(Some(core::Pieces::new(&key, &signature)))
    }

    /// Adds the next piece.
    fn update(&mut self, py: Python<'_>, piece: &Bound<'_, PyBytes>) -> PyResult<()> {
        let begun = self.0.as_mut().ok_or_else(ended)?;
        let piece = piece.as_bytes();
        py.detach(|| begun.update(piece));
        Ok(())
    }

    /// Whether the signature is valid for all pieces. No piece can follow.
    fn hold(&mut self) -> PyResult<bool> {
        Ok(self.0.take().ok_or_else(ended)?.hold())
    }
}

fn ended() -> PyErr {
    PyValueError::new_err("the check has ended")
}

// The parts of a sealed grain around the cipher.

/// The header of the sealed grain, and where the bytes to encrypt begin in the blob.
#[pyfunction]
pub fn sealed_header<'py>(
    py: Python<'py>,
    blob: &Bound<'py, PyBytes>,
    whole: bool,
    hidden: bool,
    signed: bool,
) -> PyResult<(Bound<'py, PyBytes>, usize)> {
    let how = How { whole, hidden, signed };
    let (header, start) = seal::header(blob.as_bytes(), how).map_err(|e| raise(py, &e))?;
    Ok((PyBytes::new(py, &header.to_bytes()), start))
}

/// For each grain its nonce, the bytes to encrypt, and the header of the sealed grain.
type SealParts<'py> = Vec<(Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>)>;

/// The parts that the cipher needs, for each grain and whether to seal all of it. The nonces are one after
/// the other.
#[pyfunction]
pub fn seal_parts<'py>(
    py: Python<'py>,
    grains: Vec<(Bound<'py, PyBytes>, bool)>,
    nonces: &Bound<'py, PyBytes>,
    signed: bool,
) -> PyResult<SealParts<'py>> {
    let (nonces, rest) = nonces.as_bytes().as_chunks::<NONCE>();
    if nonces.len() != grains.len() || !rest.is_empty() {
        return Err(PyValueError::new_err("pass a nonce for each grain"));
    }
    let views: Vec<(&[u8], bool)> = grains.iter().map(|(blob, whole)| (blob.as_bytes(), *whole)).collect();
    let size = views.iter().map(|(blob, _)| blob.len()).sum();
    let head = |i: usize| seal::header(views[i].0, How { whole: views[i].1, hidden: true, signed });
    let heads = py.detach(|| on_all_cores(size, views.len(), head));
    let parts = heads.into_iter().zip(&views).zip(nonces).map(|((head, (blob, _)), nonce)| {
        let (header, start) = head.map_err(|e| raise(py, &e))?;
        let inner = PyBytes::new(py, &blob[start..]);
        Ok((PyBytes::new(py, nonce), inner, PyBytes::new(py, &header.to_bytes())))
    });
    parts.collect()
}

/// The digest and the bytes of each sealed grain, from its parts and its cipher text.
#[pyfunction]
pub fn joined_seals<'py>(
    py: Python<'py>,
    parts: SealParts<'py>,
    ciphers: Vec<Bound<'py, PyBytes>>,
) -> Vec<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
    let sealed: Vec<Bound<'py, PyBytes>> = parts
        .iter()
        .zip(&ciphers)
        .map(|((nonce, _, header), cipher)| {
            PyBytes::new(py, &[header.as_bytes(), nonce.as_bytes(), cipher.as_bytes()].concat())
        })
        .collect();
    let views: Vec<&[u8]> = sealed.iter().map(|blob| blob.as_bytes()).collect();
    let digests = py.detach(|| addresses(&views, 0));
    let pairs = digests.iter().map(|digest| PyBytes::new(py, digest)).zip(sealed);
    pairs.collect()
}

/// The bytes before the inner bytes in the plain blob or envelope.
#[pyfunction]
pub fn plain_header<'py>(
    py: Python<'py>,
    sealed: &Bound<'py, PyBytes>,
    inner: &Bound<'py, PyBytes>,
) -> PyResult<Bound<'py, PyBytes>> {
    let work = || seal::before(Header::read(sealed.as_bytes())?, inner.as_bytes());
    let before = work().map_err(|e: Error| raise(py, &e))?;
    Ok(PyBytes::new(py, &before))
}
