// SPDX-License-Identifier: Apache-2.0
//! did:key of an Ed25519 key: a name that is a public key. Those of other keys, and other DIDs, are
//! left to the reference, `omsgrain.crypto.did`. Spec: OMS §9

/// Characters of a multibase key, as in the reference.
const MAX_KEY: usize = 64;
/// Bytes that so many digits can stand for.
const MAX_BYTES: usize = 48;

/// The multicodec of an Ed25519 key, as a varint.
const ED25519: [u8; 2] = [0xed, 0x01];

const ALPHABET: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

/// y of a key, and the sign of x; not yet known to be a point of the curve.
pub type Encoded = [u8; 32];

/// The DID itself, without a fragment, and its key; none if it is another DID or not in good form.
pub fn read(kid: &str) -> Option<(&str, Encoded)> {
    let name = kid.strip_prefix("did:key:")?;
    let (id, fragment) = name.split_once('#').map_or((name, None), |(id, named)| (id, Some(named)));
    if fragment.is_some_and(|named| named != id) || id.len() > MAX_KEY {
        return None;
    }
    let (bytes, len) = base58(id.strip_prefix('z')?.as_bytes())?;
    let key = bytes[MAX_BYTES - len..].strip_prefix(&ED25519)?.try_into().ok()?;
    Some((&kid[..kid.len() - fragment.map_or(0, |named| named.len() + 1)], key))
}

/// The number at the end of an array, and how many bytes it takes.
fn base58(digits: &[u8]) -> Option<([u8; MAX_BYTES], usize)> {
    let (mut out, mut len) = ([0u8; MAX_BYTES], 0);
    for letter in digits {
        let mut carry = ALPHABET.iter().position(|other| other == letter)?;
        // A leading 1 stands for a zero byte, and no multicodec of ours begins so.
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
    use super::*;

    const NAMED: &str = "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp";
    const P256: &str = "did:key:zDnaerDaTF5BXEavCrfRZEk316dpbLsfPDZ3WJ5hRTPFU2169";

    #[test]
    fn keys_are_found() {
        let (did, key) = read(NAMED).unwrap();
        assert_eq!((did, key[0], key[31]), (NAMED, 0x3b, 0x29));
        let named = format!("{NAMED}#{}", &NAMED[8..]);
        assert_eq!(read(&named), read(NAMED));
    }

    #[test]
    fn what_is_no_key_is_left_alone() {
        for text in ["", "did:key:", "did:key:z", "did:key:z1", "did:web:z6Mk", "did:key:z6Mk", "did:key:z0"]
        {
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!(read(P256), None);
        assert_eq!(read(&format!("{NAMED}#")), None);
        assert_eq!(read(&format!("{NAMED}#key-1")), None);
        assert_eq!(read(&format!("{NAMED}é")), None);
        assert_eq!(read(&NAMED[1..]), None);
        assert_eq!(read(&NAMED[..NAMED.len() - 1]), None);
        assert_eq!(read(&NAMED.replace(":z", ":z1")), None);
        assert_eq!(read(&format!("did:key:z{}", "z".repeat(63))), None);
        assert_eq!(read(&format!("did:key:z{}", "z".repeat(64))), None);
    }
}
