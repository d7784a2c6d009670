// SPDX-License-Identifier: Apache-2.0
//! Verifies the signatures of signed grains, one by one, on all cores. Spec: OMS §9
//!
//! Ed25519 only; the reference, `omsgrain.crypto.cose.prove`, verifies signatures of other
//! keys. The verdict is the same as the reference's, which is OpenSSL's: without cofactor, S below
//! the order. Keys of small order, and keys in another spelling, go to the reference, which refuses
//! them. There is no equation over a batch, since its verdict on crafted signatures differs.
//!
//! Row C1 of benches/RESULTS.md: 6.5 times as fast as pycose, and 3.7 times as fast as the
//! reference in Python on one core. The fuzz targets `cose` and `sealed` run it.

use std::collections::HashMap;

use ed25519_dalek::{Signature, StreamVerifier, Verifier as _, VerifyingKey};

use crate::codec::Encoding;
use crate::cose::Sign1;
use crate::header::{Header, SIGNED};

const EDDSA: i64 = -8;
const ED25519: i64 = -19;

/// A valid signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof<'a> {
    /// The signed blob.
    pub blob: &'a [u8],
    /// The DID whose key made it.
    pub signer: &'a str,
    /// The time of signing in epoch seconds, as the signer claims.
    pub iat: Option<u64>,
}

/// The verdict about an envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// The signature is valid.
    Holds(Proof<'a>),
    /// The envelope is well-formed, but its signature is not valid.
    Fails,
    /// Not the common shape: the reference decides.
    Unknown,
}

/// A well-formed envelope, and the key in its signer's DID.
#[derive(Debug)]
struct Claim<'a> {
    message: Sign1<'a>,
    signer: &'a str,
    key: Encoded,
}

impl<'a> Claim<'a> {
    fn read(envelope: &'a [u8]) -> Option<Self> {
        let message = Sign1::read(envelope)?;
        let header = Header::read(message.payload).ok()?;
        let content_type = match header.encoding() {
            Encoding::Msgpack => "application/vnd.mg+msgpack",
            Encoding::Cbor => "application/vnd.mg+cbor",
        };
        // Without the content type, a signature over a file could pass for one over the grain in
        // it.
        if !header.has(SIGNED) || message.content_type != content_type {
            return None;
        }
        let (signer, key) = did_key(message.kid)?;
        matches!(message.alg, EDDSA | ED25519).then_some(Claim { message, signer, key })
    }

    fn verdict(&self, key: &VerifyingKey) -> Verdict<'a> {
        let signature = Signature::from_bytes(self.message.signature);
        if key.verify(&self.message.to_be_signed(), &signature).is_err() {
            return Verdict::Fails;
        }
        Verdict::Holds(Proof { blob: self.message.payload, signer: self.signer, iat: self.message.iat })
    }
}

/// Verifies one signature over data in pieces, with the verdict of `prove`.
///
/// It hashes the key and the signature's R before the data, so no data is read twice.
pub struct Pieces(Option<StreamVerifier>);

impl Pieces {
    /// Begins with a key and a signature; a malformed signature is never valid.
    pub fn new(key: &[u8; 32], signature: &[u8; 64]) -> Self {
        let begun = VerifyingKey::from_bytes(key)
            .and_then(|key| key.verify_stream(&Signature::from_bytes(signature)));
        Pieces(begun.ok())
    }

    /// Adds the next piece.
    pub fn update(&mut self, piece: &[u8]) {
        if let Some(begun) = &mut self.0 {
            begun.update(piece);
        }
    }

    /// Whether the signature is valid for all pieces.
    pub fn hold(self) -> bool {
        self.0.is_some_and(|begun| begun.finalize_and_verify().is_ok())
    }
}

/// The key. None if it has small order or another spelling: the reference refuses those.
fn strong(encoded: &Encoded) -> Option<VerifyingKey> {
    let key = VerifyingKey::from_bytes(encoded).ok()?;
    // y must be below p, 2^255 - 19, little-endian, with the sign of x in the last bit.
    let [first, middle @ .., last] = encoded;
    let beyond = *first >= 0xed && middle.iter().all(|&byte| byte == 0xff) && last & 0x7f == 0x7f;
    (!key.is_weak() && !beyond).then_some(key)
}

/// Verifies the signature of one envelope. It reads only the blob's header.
pub fn prove(envelope: &[u8]) -> Verdict<'_> {
    let Some(claim) = Claim::read(envelope) else { return Verdict::Unknown };
    strong(&claim.key).map_or(Verdict::Unknown, |key| claim.verdict(&key))
}

/// Verifies many envelopes, in input order. It decodes a key once, even if several envelopes use
/// it.
pub fn prove_many<'a>(envelopes: &[&'a [u8]]) -> Vec<Verdict<'a>> {
    use crate::batch::{on_all_cores, total};

    /// Verifying a signature costs as much as hashing this many bytes.
    const COST: usize = 32 << 10;

    let claims = on_all_cores(total(envelopes), envelopes.len(), |i| Claim::read(envelopes[i]));
    let mut named: Vec<Encoded> = claims.iter().flatten().map(|claim| claim.key).collect();
    named.sort_unstable();
    named.dedup();
    let read = on_all_cores(named.len() * COST, named.len(), |i| strong(&named[i]));
    let keys: HashMap<Encoded, Option<VerifyingKey>> = named.into_iter().zip(read).collect();
    on_all_cores(claims.len() * COST, claims.len(), |i| {
        let known = claims[i].as_ref().and_then(|claim| Some((claim, keys.get(&claim.key)?.as_ref()?)));
        known.map_or(Verdict::Unknown, |(claim, key)| claim.verdict(key))
    })
}

// did:key of an Ed25519 key: a name that is a public key. The reference, `omsgrain.crypto.did`,
// resolves other keys and other DIDs. Spec: OMS §9

/// Characters of a multibase key, as in the reference.
const MAX_KEY: usize = 64;
/// The number of bytes that this many digits can encode.
const MAX_BYTES: usize = 48;

/// The multicodec of an Ed25519 key, as a varint.
const ED25519_MULTICODEC: [u8; 2] = [0xed, 0x01];

const ALPHABET: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

/// y of a key, and the sign of x; it may not be a point of the curve.
pub type Encoded = [u8; 32];

/// The DID without a fragment, and its key; None for another kind of DID, or a malformed one.
pub fn did_key(kid: &str) -> Option<(&str, Encoded)> {
    let name = kid.strip_prefix("did:key:")?;
    let (id, fragment) = name.split_once('#').map_or((name, None), |(id, named)| (id, Some(named)));
    if fragment.is_some_and(|named| named != id) || id.len() > MAX_KEY {
        return None;
    }
    let (bytes, len) = base58(id.strip_prefix('z')?.as_bytes())?;
    let key = bytes[MAX_BYTES - len..].strip_prefix(&ED25519_MULTICODEC)?.try_into().ok()?;
    Some((&kid[..kid.len() - fragment.map_or(0, |named| named.len() + 1)], key))
}

/// The number at the end of an array, and its length in bytes.
fn base58(digits: &[u8]) -> Option<([u8; MAX_BYTES], usize)> {
    let (mut out, mut len) = ([0u8; MAX_BYTES], 0);
    for letter in digits {
        let mut carry = ALPHABET.iter().position(|other| other == letter)?;
        // A leading 1 encodes a zero byte, and no supported multicodec begins with one.
        if carry == 0 && len == 0 {
            return None;
        }
        let mut used = 0;
        for byte in out.iter_mut().rev() {
            if used >= len && carry == 0 {
                break;
            }
            carry += 58 * usize::from(*byte);
            *byte = (carry & 0xff) as u8;
            carry >>= 8;
            used += 1;
        }
        len = used;
    }
    Some((out, len))
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::Signer as _;
    use jiter::JsonValue;

    use super::*;
    use crate::codec::Wire as _;
    use crate::codec::cbor::Cbor;
    use crate::cose::SIGNATURE;

    const ES256: i64 = -7;
    const DID: &str = "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp"; // of the bytes 0, 0, ...
    const P256: &str = "did:key:zDnaepsL7AXenJkVYdkh5KuKsSU7Ykh7kyXaLLU7auN9FWSiZ"; // of 1
    const BLOB: &[u8] = b"\x01\x01\x01\0\0\0\0\0\0\x81\xa1tx";

    fn signed(alg: i64, blob: &[u8]) -> Vec<u8> {
        named(DID, alg, blob)
    }

    fn named(did: &str, alg: i64, blob: &[u8]) -> Vec<u8> {
        let mut protected = Vec::new();
        Cbor::map(&mut protected, 3);
        Cbor::int(&mut protected, 1);
        Cbor::int(&mut protected, alg);
        Cbor::int(&mut protected, 3);
        Cbor::str(&mut protected, "application/vnd.mg+msgpack");
        Cbor::int(&mut protected, 4);
        Cbor::bytes(&mut protected, did.as_bytes());
        let mut out = vec![0xd2, 0x84];
        Cbor::bytes(&mut out, &protected);
        out.extend_from_slice(b"\xa1\x63iat\x07");
        Cbor::bytes(&mut out, blob);
        Cbor::bytes(&mut out, &[0; 64]);
        let data = Sign1::read(&out).unwrap().to_be_signed();
        let signature = ed25519_dalek::SigningKey::from_bytes(&[0; 32]).sign(&data).to_bytes();
        let at = out.len() - SIGNATURE;
        out[at..].copy_from_slice(&signature);
        out
    }

    #[test]
    fn pieces_hold_as_the_whole_does() {
        let signer = ed25519_dalek::SigningKey::from_bytes(&[0; 32]);
        let (key, data) = (signer.verifying_key().to_bytes(), [7; 100]);
        let good = signer.sign(&data).to_bytes();
        let hold = |signature: &[u8; 64], data: &[u8], size: usize| {
            let mut begun = Pieces::new(&key, signature);
            data.chunks(size).for_each(|piece| begun.update(piece));
            begun.hold()
        };
        for size in [1, 64, 100] {
            assert!(hold(&good, &data, size));
            assert!(!hold(&good, &data[1..], size));
            for at in 0..64 {
                let mut bent = good;
                bent[at] ^= 1;
                assert!(!hold(&bent, &data, size));
            }
            assert!(!hold(&[0xff; 64], &data, size));
        }
        assert!(!Pieces::new(&[0xff; 32], &good).hold());
    }

    #[test]
    fn good_ones_hold_and_forged_ones_fail() {
        for alg in [EDDSA, ED25519] {
            let good = signed(alg, BLOB);
            assert_eq!(
                prove(&good),
                Verdict::Holds(Proof { blob: BLOB, signer: DID, iat: Some(7) }),
                "{alg}"
            );
            for at in 0..good.len() {
                let mut forged = good.clone();
                forged[at] ^= 0x40;
                let verdict = prove(&forged);
                let time = good.len() - SIGNATURE - 2 - BLOB.len() - 2;
                assert!(!matches!(verdict, Verdict::Holds(_)) || at == time, "{alg} {at}");
                assert!(at < good.len() - SIGNATURE || verdict == Verdict::Fails, "{alg} {at}");
            }
        }
    }

    #[test]
    fn many_are_as_one() {
        let mut all = Vec::new();
        for n in 0..150u8 {
            let blob = [BLOB, &[n]].concat();
            let mut envelope = signed([EDDSA, ES256, ED25519][usize::from(n % 3)], &blob);
            let len = envelope.len();
            match n % 10 {
                0 => envelope[len - 1] ^= 1,
                1 => envelope.truncate(usize::from(n)),
                _ => {}
            }
            all.push(envelope);
        }
        for count in [0, 1, 20, 150] {
            let envelopes: Vec<&[u8]> = all[..count].iter().map(Vec::as_slice).collect();
            let verdicts = prove_many(&envelopes);
            assert_eq!(verdicts, envelopes.iter().map(|one| prove(one)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_the_reference_must_judge() {
        for blob in [&b""[..], b"\x02\x01\x01\0\0\0\0\0\0\x80", b"\x01\x00\x01\0\0\0\0\0\0\x80"] {
            assert_eq!(prove(&signed(EDDSA, blob)), Verdict::Unknown);
        }
        assert_eq!(prove(&signed(EDDSA, b"\x01\x21\x01\0\0\0\0\0\0\xa0")), Verdict::Unknown); // msgpack
        assert_eq!(prove(&signed(-35, BLOB)), Verdict::Unknown);
        assert_eq!(prove(&signed(ES256, BLOB)), Verdict::Unknown);
        assert_eq!(prove(&named(P256, ES256, BLOB)), Verdict::Unknown);
        assert_eq!(prove(&named(P256, EDDSA, BLOB)), Verdict::Unknown);
        assert_eq!(prove(BLOB), Verdict::Unknown);
        assert!(VerifyingKey::from_bytes(&[2; 32]).is_err()); // not a point
    }

    #[test]
    fn edges_of_ed25519() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/ed25519_edges.json");
        let text = std::fs::read(path).unwrap();
        let JsonValue::Object(file) = JsonValue::parse(&text, false).unwrap() else { panic!() };
        let Some((_, JsonValue::Array(cases))) = file.iter().find(|(name, _)| name == "cases") else {
            panic!()
        };
        assert_eq!(cases.len(), 13);
        for case in cases.iter() {
            let JsonValue::Object(case) = case else { panic!() };
            let get = |name| &case.iter().find(|(n, _)| n == name).unwrap().1;
            let bytes = |name| -> Vec<u8> {
                let JsonValue::Str(hex) = get(name) else { panic!() };
                let byte = |i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap();
                (0..hex.len()).step_by(2).map(byte).collect()
            };
            let key = VerifyingKey::from_bytes(&bytes("key").try_into().unwrap()).unwrap();
            let signature = Signature::from_bytes(&bytes("signature").try_into().unwrap());
            let holds = key.verify(&bytes("message"), &signature).is_ok();
            assert_eq!(JsonValue::Bool(holds), *get("holds"), "{:?}", get("name"));
        }
    }

    const NAMED: &str = "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp";
    const OTHER_P256: &str = "did:key:zDnaerDaTF5BXEavCrfRZEk316dpbLsfPDZ3WJ5hRTPFU2169";

    #[test]
    fn keys_are_found() {
        let (did, key) = did_key(NAMED).unwrap();
        assert_eq!((did, key[0], key[31]), (NAMED, 0x3b, 0x29));
        let named = format!("{NAMED}#{}", &NAMED[8..]);
        assert_eq!(did_key(&named), did_key(NAMED));
    }

    #[test]
    fn what_is_no_key_is_left_alone() {
        for text in ["", "did:key:", "did:key:z", "did:key:z1", "did:web:z6Mk", "did:key:z6Mk", "did:key:z0"]
        {
            assert_eq!(did_key(text), None, "{text}");
        }
        assert_eq!(did_key(OTHER_P256), None);
        assert_eq!(did_key(&format!("{NAMED}#")), None);
        assert_eq!(did_key(&format!("{NAMED}#key-1")), None);
        assert_eq!(did_key(&format!("{NAMED}é")), None);
        assert_eq!(did_key(&NAMED[1..]), None);
        assert_eq!(did_key(&NAMED[..NAMED.len() - 1]), None);
        assert_eq!(did_key(&NAMED.replace(":z", ":z1")), None);
        assert_eq!(did_key(&format!("did:key:z{}", "z".repeat(63))), None);
        assert_eq!(did_key(&format!("did:key:z{}", "z".repeat(64))), None);
    }
}
