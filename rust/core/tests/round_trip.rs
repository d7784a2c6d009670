// SPDX-License-Identifier: Apache-2.0
//! From JSON to a blob and back, as a user of the crate alone sees it.

use omsgrain_core::encode::{Options, encode};
use omsgrain_core::{Code, address, codec::Encoding, decode, json};

const DID: &str = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK";

fn blob(text: &str, options: &Options) -> Result<Vec<u8>, Code> {
    let text = text.replace("DID", DID);
    let value = json::parse(text.as_bytes()).map_err(|e| e.kind())?;
    encode(&&value, options).map_err(|e| e.kind())
}

const PINNED: &str = r#"{"type":"fact","subject":"user","relation":"prefers","object":"dark mode","confidence":0.9,
 "source_type":"user_explicit","created_at":1768471200000,"namespace":"shared","author_did":"DID"}"#;

#[test]
fn the_pinned_vector() {
    let keep = Options { keep_type_name: true, ..Options::default() };
    let kept = blob(PINNED, &keep).unwrap();
    assert_eq!(kept.len(), 159);
    assert_eq!(kept[..9], [0x01, 0x00, 0x01, 0xa4, 0xd2, 0x69, 0x68, 0xba, 0xa0]);
    let hex = |blob: &[u8]| address::to_hex(&address::sha256(blob));
    assert_eq!(hex(&kept), "3288d0d41cf49a1d428e404f0b6a6fe60388be9536937557f6139b813d53a520");
    let belief = blob(PINNED, &Options::default()).unwrap();
    assert_eq!(hex(&belief), "f06c02f500fe38fd2c77458315b651d4b84542df635b8722c502944286d40cc5");
}

#[test]
fn what_was_read_is_written_the_same() {
    for encoding in [Encoding::Msgpack, Encoding::Cbor] {
        for compress in [false, true] {
            let options = Options { encoding, compress, keep_type_name: true, ..Options::default() };
            let first = blob(PINNED, &options).unwrap();
            let (header, payload) = decode::open(&first).unwrap();
            let fields = decode::read(header, &payload).unwrap().into_value();
            assert_eq!(encode(&&fields, &options).unwrap(), first);
        }
    }
}

#[test]
fn refusals_name_code_and_place() {
    let text = PINNED.replace("0.9", "1.5").replace("DID", DID);
    let value = json::parse(text.as_bytes()).unwrap();
    let refused = encode(&&value, &Options::default()).unwrap_err();
    assert_eq!((refused.kind(), refused.pointer().as_deref()), (Code::Range, Some("/confidence")));
    assert_eq!(blob("[]", &Options::default()), Err(Code::NotMap));
    assert_eq!(blob("{}", &Options::default()), Err(Code::NoType));
    assert_eq!(blob("{", &Options::default()), Err(Code::Format));
}

#[test]
fn an_opaque_grain_is_written_as_it_was_read() {
    // {"rt": [{"w": 82}]}: an integer where a known type would have a float.
    let blob = [1, 0, 0x11, 0, 0, 0, 0, 0, 0, 0x81, 0xa2, b'r', b't', 0x91, 0x81, 0xa1, b'w', 82];
    let (header, payload) = decode::open(&blob).unwrap();
    let fields = decode::read(header, &payload).unwrap().into_value();
    let options = Options { type_byte: Some(0x11), ..Options::default() };
    assert_eq!(encode(&&fields, &options).unwrap(), blob);
}
