# SPDX-License-Identifier: Apache-2.0
"""Private keys: made, kept in files that others cannot read, and never shown."""

from __future__ import annotations

import base64
import copy
import json
import os
import pickle
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import cbor2
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ec import SECP384R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from pycose.keys.cosekey import CoseKey
from pycose.keys.ec2 import EC2Key
from pycose.keys.okp import OKPKey

from omsgrain.cli import COMMANDS
from omsgrain.crypto import (
    Ed25519Signer,
    ES256Signer,
    KeySigner,
    load_signer,
    private_file,
    signers,
    verify_file,
    verify_signed,
)
from omsgrain.crypto.master_key import load_master
from omsgrain.crypto.signers import SIGNERS, algorithm, verify
from omsgrain.errors import DidError, KeyMissingError, SignatureError, UnsupportedError
from support.child_process import run
from support.shell import USAGE, Shell
from support.signers import ALICE, BOB, CAROL, GRAIN

KINDS: list[type[KeySigner]] = [Ed25519Signer, ES256Signer]
FORMATS: list[signers.Format] = ["pem", "jwk", "cose"]
MISSING = KeyMissingError.code


def write(path: Path, data: bytes, mode: int = 0o600) -> Path:
    path.write_bytes(data)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("kind", KINDS)
def test_keys_come_back_from_files(
    tmp_path: Path, kind: type[KeySigner], format: signers.Format
) -> None:
    signer = kind.generate()
    path = tmp_path / "key"
    before = os.umask(0)
    try:
        signer.save(path, format)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for loaded in (kind.load(path), load_signer(str(path))):
        assert type(loaded) is kind
        assert (loaded.did, loaded.alg) == (signer.did, signer.alg)
        verify(signer.public_key, signer.alg, loaded.sign(b"data"), b"data")


def test_every_key_is_another() -> None:
    assert len({kind.generate().did for kind in KINDS for _ in range(3)}) == 6


def test_a_key_is_never_overwritten(tmp_path: Path) -> None:
    path = write(tmp_path / "key", b"something else")
    with pytest.raises(FileExistsError):
        ALICE.save(path)
    assert path.read_bytes() == b"something else"


def test_a_key_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        ALICE.save(tmp_path / "key")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o601, 0o666, 0o444])
def test_keys_that_others_may_use_are_refused(tmp_path: Path, mode: int) -> None:
    path = write(tmp_path / "key", signers.dumps_private(ALICE._key), mode)
    with pytest.raises(KeyMissingError):
        Ed25519Signer.load(path)


def test_modes_that_are_tight_enough(tmp_path: Path) -> None:
    for mode in (0o600, 0o400, 0o700):
        path = write(tmp_path / f"key{mode}", signers.dumps_private(ALICE._key), mode)
        assert Ed25519Signer.load(path).did == ALICE.did


def test_a_pipe_is_a_key_file() -> None:
    end, into = os.pipe()
    os.write(into, signers.dumps_private(ALICE._key))
    os.close(into)
    try:
        assert load_signer(f"/dev/fd/{end}").did == ALICE.did
    finally:
        os.close(end)


def test_a_file_that_is_no_key_file_is_refused_at_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    for read in (load_signer, load_master, signers.load_public):
        for path, found in ((tmp_path, "a directory"), (pipe, "a pipe without a writer")):
            with pytest.raises(KeyMissingError) as refused:
                read(path)
            assert refused.value.found == found


def test_a_pipe_with_a_late_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    end, into = os.pipe()
    data = signers.dumps_private(ALICE._key)
    waited = iter((data[:9], data[9:]))

    def select(*_: object) -> tuple[list[int], list[int], list[int]]:
        piece = next(waited, None)
        if piece is None:
            os.close(into)
        else:
            os.write(into, piece)
        return [end], [], []

    monkeypatch.setattr("select.select", select)
    assert load_signer(f"/dev/fd/{end}").did == ALICE.did
    os.close(end)


def test_a_pipe_with_a_silent_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    end, into = os.pipe()
    monkeypatch.setattr(private_file, "_PATIENCE", 0.01)
    with pytest.raises(KeyMissingError):
        load_signer(f"/dev/fd/{end}")
    os.close(end)
    os.close(into)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_signer(tmp_path / "key")


RFC8410 = b"""-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC
-----END PRIVATE KEY-----
"""
#: RFC 8037, appendix A.
RFC8037 = {
    "kty": "OKP",
    "crv": "Ed25519",
    "d": "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A",
    "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
}
ED_X, ED_D = ALICE.public_key.public_bytes_raw(), bytes(range(32))  # type: ignore[union-attr]
EC: dict[int, Any] = cbor2.loads(signers.dumps_private(BOB._key, "cose"))


def base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


EC_JWK = {
    "kty": "EC",
    "crv": "P-256",
    "x": base64url(EC[-2]),
    "y": base64url(EC[-3]),
    "d": base64url(EC[-4]),
}


def as_json(values: dict[str, Any], **changes: Any) -> bytes:
    return json.dumps(values | changes).encode()


FOREIGN: dict[str, tuple[bytes, str]] = {
    "RFC 8410": (
        RFC8410,
        "did:key:z6MkgBmPpouQ9ecfde8g8oyJyhdgxfuTB2mqsd7A8QnEu3ZA",
    ),
    "RFC 8037": (as_json(RFC8037), "did:key:z6MktwupdmLXVVqTzCw4i46r4uGyosGXRnR3XjN4Zq7oMMsw"),
    "jwk with more": (
        as_json(RFC8037, use="sig", kid="k", alg="EdDSA"),
        "did:key:z6MktwupdmLXVVqTzCw4i46r4uGyosGXRnR3XjN4Zq7oMMsw",
    ),
    "jwk, EC": (as_json(EC_JWK), BOB.did),
    "SEC1": (
        BOB._key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()),
        BOB.did,
    ),
    "pycose, OKP": (OKPKey(crv="ED25519", x=ED_X, d=ED_D).encode(), ALICE.did),
    "pycose, EC2": (EC2Key(crv="P_256", x=EC[-2], y=EC[-3], d=EC[-4]).encode(), BOB.did),
    "cose, public half left out": (cbor2.dumps({1: 2, -1: 1, -4: EC[-4]}), BOB.did),
    "cose, half of y": (cbor2.dumps(EC | {-3: bool(EC[-3][-1] & 1)}), BOB.did),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_keys_that_others_made(name: str) -> None:
    data, did = FOREIGN[name]
    key = signers.loads_private(data)
    kind = Ed25519Signer if isinstance(key, Ed25519PrivateKey) else ES256Signer
    assert kind(key).did == did


def test_pycose_reads_our_keys() -> None:
    okp: Any = CoseKey.decode(signers.dumps_private(ALICE._key, "cose"))
    ec2: Any = CoseKey.decode(signers.dumps_private(BOB._key, "cose"))
    assert (okp.x, okp.d) == (ED_X, ED_D)
    assert (ec2.x, ec2.y, ec2.d) == (EC[-2], EC[-3], EC[-4])


def pem(key: Any, password: bytes | None = None) -> bytes:
    how = NoEncryption() if password is None else BestAvailableEncryption(password)
    data: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how)
    return data


OTHER = base64url(bytes(32))
BROKEN: dict[str, bytes] = {
    "empty": b"",
    "text": b"this is no key",
    "cut pem": RFC8410[:60],
    "public": ALICE.public_key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
    "with password": pem(ALICE._key, b"secret"),
    "rsa": pem(rsa.generate_private_key(65537, 1024)),
    "p384": pem(generate_private_key(SECP384R1())),
    "cut jwk": as_json(RFC8037)[:-1],
    "jwk, nested without end": b'{"kty":' + b"[" * 50_000,
    "jwk, no map": b"{}" + b"[]",
    "jwk, public": as_json({k: v for k, v in RFC8037.items() if k != "d"}),
    "jwk, another x": as_json(RFC8037, x=OTHER),
    "jwk, another y": as_json(EC_JWK, y=EC_JWK["x"]),
    "jwk, of another curve": as_json(RFC8037, crv="X25519"),
    "jwk, padded": as_json(RFC8037, d=RFC8037["d"] + "="),
    "jwk, bits left over": as_json(RFC8037, d=RFC8037["d"][:-1] + "B"),
    "jwk, short": as_json(RFC8037, d="AAAA"),
    "jwk, zero": as_json(EC_JWK, d=OTHER),
    "jwk, number": as_json(RFC8037, d=7),
    "cose, no map": cbor2.dumps([1, 2]),
    "cose, another kind": cbor2.dumps(EC | {1: 4}),
    "cose, another curve": cbor2.dumps(EC | {-1: 2}),
    "cose, another x": cbor2.dumps(EC | {-2: bytes(32)}),
    "cose, another y": cbor2.dumps(EC | {-3: bytes(32)}),
    "cose, another half of y": cbor2.dumps(EC | {-3: not EC[-3][-1] & 1}),
    "cose, public": cbor2.dumps({k: v for k, v in EC.items() if k != -4}),
    "cose, short": cbor2.dumps(EC | {-4: EC[-4][1:]}),
    "cose, cut": cbor2.dumps(EC)[:-1],
    "too large": b"{" + b" " * (64 << 10),
}


@pytest.mark.parametrize("name", BROKEN)
def test_files_without_a_key(tmp_path: Path, name: str) -> None:
    with pytest.raises(KeyMissingError):
        load_signer(write(tmp_path / "key", BROKEN[name]))


def chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize(
    "data",
    [
        as_json(RFC8037, x=OTHER),
        as_json(RFC8037)[:-1],
        RFC8410.replace(b"MC4C", b"MC5C"),
        cbor2.dumps(cbor2.loads(signers.dumps_private(ALICE._key, "cose")) | {-2: bytes(32)}),
    ],
    ids=["jwk", "cut jwk", "pem", "cose"],
)
def test_errors_hold_nothing_of_the_key(tmp_path: Path, data: bytes) -> None:
    path = write(tmp_path / "key", data)
    secrets = (RFC8037["d"], "MC4", "INTuctv5", ED_D.hex(), repr(ED_D)[2:20])
    with pytest.raises(KeyMissingError) as caught:
        load_signer(path)
    for error in chain(caught.value):
        said = f"{error!r} {error} {vars(error)}"
        assert not any(secret in said for secret in secrets)
    path.chmod(0o644)
    with pytest.raises(KeyMissingError) as caught:
        load_signer(path)
    assert not any(secret in f"{caught.value}" for secret in secrets)


def test_signers_show_only_their_did() -> None:
    for signer in (ALICE, BOB):
        assert repr(signer) == f"<{type(signer).__name__} {signer.did}>"
        for leak in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError):
                leak(signer)


def test_a_key_of_the_other_kind(tmp_path: Path) -> None:
    for kind, signer in ((Ed25519Signer, BOB), (ES256Signer, ALICE)):
        signer.save(path := tmp_path / kind.__name__)
        with pytest.raises(KeyMissingError):
            kind.load(path)
    with pytest.raises(UnsupportedError):
        ALICE.save(tmp_path / "key", "der")  # type: ignore[arg-type]


def test_names() -> None:
    named = Ed25519Signer(ALICE._key, "did:web:example.com#key-1")
    assert named.did == "did:web:example.com#key-1"
    assert Ed25519Signer(ALICE._key, ALICE.did).did == ALICE.did
    with pytest.raises(KeyMissingError):
        Ed25519Signer(ALICE._key, CAROL.did)
    with pytest.raises(DidError):
        Ed25519Signer(ALICE._key, "alice")


class Service:
    """A signer with nothing but a name and a function."""

    def __init__(self, did: str, **more: Any) -> None:
        self.did = did
        vars(self).update(more)

    def sign(self, data: bytes) -> bytes:
        raise AssertionError("nobody asked")


def test_algorithm_of_a_signer() -> None:
    assert algorithm(Service(ALICE.did)) == ALICE.alg == -8
    assert algorithm(Service(BOB.did)) == BOB.alg == -7
    assert algorithm(Service("did:web:example.com", alg=-7)) == -7
    with pytest.raises(DidError):
        algorithm(Service("did:web:example.com"))
    with pytest.raises(UnsupportedError):
        algorithm(Service(ALICE.did, alg=-35))


def test_one_signature() -> None:
    for signer in (ALICE, BOB):
        signature = signer.sign(b"data")
        assert len(signature) == 64
        verify(signer.public_key, signer.alg, signature, b"data")
        wrong = {"data": (signature, b"date"), "short": (signature[:-1], b"data")}
        wrong |= {"long": (signature + b"\0", b"data"), "zero": (bytes(64), b"data")}
        for case, data in wrong.values():
            with pytest.raises(SignatureError):
                verify(signer.public_key, signer.alg, case, data)
    with pytest.raises(SignatureError):
        verify(ALICE.public_key, BOB.alg, ALICE.sign(b""), b"")
    with pytest.raises(SignatureError):
        verify(BOB.public_key, ALICE.alg, BOB.sign(b""), b"")
    with pytest.raises(UnsupportedError):
        verify(BOB.public_key, -35, BOB.sign(b""), b"")


@pytest.mark.parametrize("made", SIGNERS.values(), ids=SIGNERS)
@pytest.mark.parametrize("size", [0, 1, 7, 1_000])
def test_one_signature_over_pieces(made: type[KeySigner], size: int) -> None:
    """Its verdict is that of the same data in one piece."""
    signer, data = made.generate(), bytes(1_000)
    key, alg, signature = signer.public_key, signer.alg, signer.sign(data)

    def holds(signature: bytes, data: bytes) -> bool:
        verdicts = set()
        cuts = range(0, len(data), size) if size else ()
        pieces = [data[at : at + size] for at in cuts] or [data]
        for given in (data, lambda: iter(pieces)):
            try:
                verify(key, alg, signature, given)
                verdicts.add(True)
            except SignatureError:
                verdicts.add(False)
        (verdict,) = verdicts
        return verdict

    assert holds(signature, data)
    assert not holds(signature, data[:-1]) and not holds(signature, data + b"0")
    assert not holds(signature, b"1" + data[1:])
    for at in range(64):
        bent = bytearray(signature)
        bent[at] ^= 1 << at % 8
        assert not holds(bytes(bent), data)
    assert not holds(b"\xff" * 64, data) and not holds(bytes(64), data)
    with pytest.raises(SignatureError):
        verify(key, alg, signature[:-1], lambda: iter((data,)))


def test_what_is_loaded_when() -> None:
    (lines,) = run(
        """
        import sys, omsgrain, omsgrain.cli, omsgrain.cli.keys
        loaded = [name for name in ("cryptography", "pycose", "httpx") if name in sys.modules]
        import omsgrain.crypto, omsgrain.crypto.did_web
        loaded += [name for name in ("pycose", "httpx") if name in sys.modules]
        print(loaded)
        """,
        fresh=True,
    )
    assert lines == "[]"


def test_a_store_of_plain_grains_loads_no_signatures_and_no_search(tmp_path: Path) -> None:
    (lines,) = run(
        f"""
        import sys, omsgrain
        large = "blake3", "cbor2", "cryptography", "pycose", "omsgrain.search.stem"
        with omsgrain.open({str(tmp_path / "m.omsg")!r}) as store:
            grain = {{"type": "belief", "subject": "a", "relation": "b", "object": "c",
                     "confidence": 0.5, "created_at": 1768471200000}}
            assert store.get(store.put(grain)) and store.query(subject="a").results
        print([name for name in large if name in sys.modules])
        """,
        fresh=True,
    )
    assert lines == "[]"


@pytest.fixture
def shell(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setitem(COMMANDS, "keygen", ("keys", "keygen"))
    monkeypatch.setitem(COMMANDS, "sign", ("keys", "sign"))
    return Shell(capfdbinary, monkeypatch)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("kind", ["ed25519", "p256"])
def test_keygen(
    shell: Shell, tmp_path: Path, kind: Literal["ed25519", "p256"], format: str
) -> None:
    path = tmp_path / "key"
    assert shell("keygen", path, "--type", kind, "--format", format) == 0
    assert shell.out.decode() == SIGNERS[kind].load(path).did + "\n"
    assert not shell.err
    assert shell.error("keygen", path)[1]["code"] == "EEXIST"
    told = shell.json("keygen", tmp_path / "key2", "--type", kind)
    assert told == {"did": load_signer(tmp_path / "key2").did, "path": str(tmp_path / "key2")}


def test_sign_a_blob(shell: Shell, tmp_path: Path) -> None:
    blob, key = tmp_path / "one.grain", tmp_path / "key"
    blob.write_bytes(GRAIN.blob)
    ALICE.save(key)
    told = shell.json("sign", blob, "--key", key)
    grain = verify_signed((tmp_path / "one.grain.cose").read_bytes())
    assert told == {"path": f"{blob}.cose", "did": ALICE.did, "address": grain.address}
    assert grain.to_dict() == GRAIN.to_dict()
    assert shell.error("sign", blob, "--key", key)[1]["code"] == "EEXIST"
    assert shell("sign", blob, "--key", key, "-o", tmp_path / "other") == 0
    assert grain.address in shell.out.decode()

    blob.write_bytes(grain.blob)  # with the signed bit, and without its envelope
    assert shell.error("sign", blob, "--key", key)[1]["code"] == "ERR_SIGNED_MISMATCH"
    blob.write_bytes(GRAIN.blob[:-1])
    assert shell.error("sign", blob, "--key", key)[1]["code"] == "ERR_CORRUPT"
    assert shell("sign", blob, "--key", key, "--detached") == 0
    assert verify_file(blob).signer == ALICE.did


def test_sign_a_file(shell: Shell, tmp_path: Path) -> None:
    file, key = tmp_path / "memory.mg", tmp_path / "key"
    file.write_bytes(b"MG and so on")
    BOB.save(key)
    told = shell.json("sign", file, "--key", key)
    assert told == {"path": f"{file}.sig", "did": BOB.did, "address": None}
    assert verify_file(file).signer == BOB.did
    target = tmp_path / "named.sig"
    assert shell("sign", file, "--key", key, "-o", target, "--did", "did:web:example.com") == 0
    known = {"did:web:example.com": BOB.public_key}
    proof = verify_file(file, target.read_bytes(), resolver=known.__getitem__)
    assert proof.signer == "did:web:example.com"
    key.chmod(0o644)
    assert shell.error("sign", file, "--key", key)[1]["code"] == MISSING
    assert shell("sign", file) == USAGE
