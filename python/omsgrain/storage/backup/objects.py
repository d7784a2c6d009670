# SPDX-License-Identifier: Apache-2.0
"""Where backups are kept: a directory, or object storage with the extra ``objects``.

An object has a name with slashes, and bytes. It appears whole or not at all. A URL can contain
keys, and so can what a library says of it: no message here repeats either.
"""

from __future__ import annotations

import os
import re
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from omsgrain.durable import NewFiles, file_path, store_error, sync_directory
from omsgrain.errors import (
    IntegrityError,
    NotFoundError,
    SchemaError,
    StoreError,
    UnsupportedError,
    packages_of,
)
from omsgrain.storage.location import is_url

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Bucket

    BackupPlace: TypeAlias = str | os.PathLike[str] | Bucket
    """Where backups are kept: a directory, a URL such as ``s3://bucket/robots``, or a store of
    ``obstore`` that you configured yourself."""

SCHEMES = {
    "s3": "Amazon S3 or compatible",
    "gs": "Google Cloud Storage",
    "az": "Azure Blob Storage",
    "abfss": "Azure Data Lake Storage",
    "file": "a directory, by the library",
}
_ACCESS = "a bucket that exists, and access to it from the environment"
_AGAIN = "a server that answers; run the command again"
#: Signs of a cause in what the library says, what is expected then, and what was found.
_CAUSES = (
    ("BadScheme", "https; http needs AWS_ALLOW_HTTP=true (AZURE_ALLOW_HTTP=true)", "http"),
    ("169.254.169.254", "keys in the environment, such as AWS_ACCESS_KEY_ID", "no keys"),
    ("metadata.google.internal", "keys in the environment", "no keys"),
    ("InvalidUri", "AWS_ENDPOINT_URL with http:// or https://", "no URL"),
    ("configured region", "the region of the bucket in AWS_REGION", "another region"),
    ("kind: Connect", "a server that can be reached; see AWS_ENDPOINT_URL", "no connection"),
    ("kind: Timeout", "a faster line, or more time in AWS_TIMEOUT=300s", "no answer in time"),
)
_STATUS = re.compile(r"status code: (\d{3})|status: (\d{3})")
_REFUSED = {
    400: "the region of the bucket in AWS_REGION, and keys that are valid",
    401: "keys that are valid, and rights for this bucket",
    403: "keys that are valid, and rights for this bucket",
    404: "a bucket that exists",
}
#: Names of errors of the services; no other text of an answer is repeated.
_NAMED = re.compile(
    "<Code>(AccessDenied|AllAccessDisabled|AuthenticationFailed|AuthorizationFailure"
    "|AuthorizationHeaderMalformed|ContainerNotFound|ExpiredToken|IllegalLocationConstraintException"
    "|InternalError|InvalidAccessKeyId|InvalidBucketName|InvalidToken|NoSuchBucket"
    "|PermanentRedirect|QuotaExceeded|RequestTimeTooSkewed|ServerBusy|ServiceUnavailable"
    "|SignatureDoesNotMatch|SlowDown)</Code>"
)
_EXPECTED = "a directory, or a URL with one of " + ", ".join(f"{name}://" for name in SCHEMES)


class StoredObject(NamedTuple):
    """An object in a listing."""

    name: str
    size: int
    modified: int  # ms since 1970, by the clock of the place


class Objects(ABC):
    """Objects of a place by their names."""

    name: str  # of the place, for people: without keys

    @abstractmethod
    def put(self, name: str, data: bytes) -> None:
        """Write an object; it takes the place of one with the same name."""

    @abstractmethod
    def get(self, name: str, most: int) -> bytes:
        """Return an object; refuse one of more than ``most`` bytes."""

    @abstractmethod
    def listed(self, prefix: str) -> Iterator[StoredObject]:
        """Iterate over the objects in a folder and in its folders."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Delete an object; a missing one changes nothing."""


def objects_at(place: BackupPlace) -> Objects:
    """Return the objects of a directory, a URL, or a store of ``obstore``."""
    if isinstance(place, str) and is_url(place):
        return BucketObjects.of_url(place)
    if isinstance(place, str | os.PathLike):
        return DirectoryObjects(file_path(place))
    if type(place).__module__.partition(".")[0] != "obstore":
        found = type(place).__name__
        raise SchemaError("not a place for backups", expected=_EXPECTED, found=found)
    return BucketObjects(type(place).__name__, place)


def _missing(name: str, place: str) -> NotFoundError:
    return NotFoundError(f"the object {name!r} is missing in {place!r}")


def _too_large(name: str, most: int, found: int) -> IntegrityError:
    return IntegrityError(
        f"the object {name!r} is larger than any of a backup",
        expected=f"at most {most} bytes",
        found=f"{found} bytes",
    )


@dataclass(frozen=True, slots=True)
class DirectoryObjects(Objects):
    """The files of a directory. Other users may not read a directory that is made here."""

    path: Path
    name: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", str(self.path))

    def put(self, name: str, data: bytes) -> None:
        file = self.path / name
        with self._reported("write to"):
            if not file.parent.is_dir():
                self._make(file.parent)
            with NewFiles(replace=True) as files:
                files.add(file, [data])

    def _make(self, folder: Path) -> None:
        if folder != self.path and not folder.parent.is_dir():
            self._make(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        sync_directory(folder.parent)

    def get(self, name: str, most: int) -> bytes:
        with self._reported("read from"):
            try:
                status = os.stat(self.path / name)
            except FileNotFoundError:
                raise _missing(name, self.name) from None
            if not stat.S_ISREG(status.st_mode):  # a pipe would wait without end
                raise IntegrityError(f"the object {name!r} is no file")
            with open(self.path / name, "rb") as file:
                data = file.read(most + 1)
        if len(data) > most:
            raise _too_large(name, most, status.st_size)
        return data

    def listed(self, prefix: str) -> Iterator[StoredObject]:
        with self._reported("list"):
            for folder, _, files in os.walk(self.path / prefix, onerror=_unless_missing):
                for file in files:
                    path = Path(folder, file)
                    with suppress(FileNotFoundError):  # deleted meanwhile
                        status = path.lstat()
                        name = path.relative_to(self.path).as_posix()
                        modified = status.st_mtime_ns // 1_000_000
                        yield StoredObject(name, status.st_size, modified)

    def delete(self, name: str) -> None:
        with self._reported("delete from"):
            (self.path / name).unlink(missing_ok=True)

    @contextmanager
    def _reported(self, doing: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise store_error(self.path, f"{doing} the backups in", error) from error


def _unless_missing(error: OSError) -> None:
    """A folder that cannot be read is not empty."""
    if not isinstance(error, FileNotFoundError):
        raise error


@dataclass(frozen=True, slots=True)
class BucketObjects(Objects):
    """Objects of a store of ``obstore``."""

    name: str
    bucket: Bucket

    @classmethod
    def of_url(cls, url: str) -> BucketObjects:
        parts = urlsplit(url)
        if parts.scheme not in SCHEMES:
            raise UnsupportedError(
                "no backups are kept at such a URL",
                expected=_EXPECTED,
                found=f"{parts.scheme}://",
            )
        if ("@" in parts.netloc and parts.scheme != "abfss") or parts.query or parts.fragment:
            raise SchemaError(
                "a URL of backups has no keys or options",
                expected="keys in the environment, such as AWS_ACCESS_KEY_ID",
            )
        shown = f"{parts.scheme}://{parts.netloc}{parts.path}"
        try:
            from obstore.store import from_url
        except ImportError:
            raise UnsupportedError(
                "object storage needs further packages", expected=packages_of("objects")
            ) from None
        with _reported(shown, "open"):
            if parts.scheme == "file":
                Path(parts.path).mkdir(mode=0o700, exist_ok=True)
            return cls(shown, from_url(url))

    def put(self, name: str, data: bytes) -> None:
        import obstore

        with _reported(self.name, "write to"):
            # One request: a cut upload of several would leave its first pieces in the bucket.
            obstore.put(self.bucket, name, data, use_multipart=False)

    def get(self, name: str, most: int) -> bytes:
        import obstore

        with _reported(self.name, "read from"):
            try:
                found = obstore.get(self.bucket, name)
            except FileNotFoundError:
                raise _missing(name, self.name) from None
            if (size := found.meta["size"]) > most:
                raise _too_large(name, most, size)
            return bytes(found.bytes())

    def listed(self, prefix: str) -> Iterator[StoredObject]:
        import obstore

        with _reported(self.name, "list"):
            for page in obstore.list(self.bucket, prefix):
                for meta in page:
                    modified = int(meta["last_modified"].timestamp() * 1000)
                    yield StoredObject(meta["path"], meta["size"], modified)

    def delete(self, name: str) -> None:
        import obstore

        with _reported(self.name, "delete from"), suppress(FileNotFoundError):
            obstore.delete(self.bucket, name)


@contextmanager
def _reported(shown: str, doing: str) -> Iterator[None]:
    """Report a failure of the library by its cause: its text can contain keys of a URL."""
    from obstore.exceptions import BaseError

    try:
        yield
    except BaseException as error:
        panicked = type(error).__name__ == "PanicException"  # it has no base but this one
        if not (panicked or isinstance(error, BaseError | OSError | ValueError)):
            raise
        expected, found = _cause(error)
        raise StoreError(
            f"could not {doing} the backups in {shown!r}", expected=expected, found=found
        ) from None


def _cause(error: BaseException) -> tuple[str, str]:
    """Return what was expected, and what a failure of the library was."""
    text = str(error)
    for sign, expected, found in _CAUSES:
        if sign in text:
            return expected, found
    if (status := _STATUS.search(text)) is None:
        return _ACCESS, type(error).__name__
    number = int(status[1] or status[2])
    name = _NAMED.search(text)
    expected = _REFUSED.get(number, _AGAIN if number >= 429 else _ACCESS)
    return expected, f"status {number}" + (f" {name[1]}" if name else "")
