"""Errors of file systems and stores, raised as errors of hipslake: where, what failed, and what to do."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from hipslake.errors import (
    HipslakeError,
    NoSpaceError,
    NotReadableError,
    NotWritableError,
    StorageError,
    StoreTimeoutError,
)

Doing = Literal["read", "write"]

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}
_HTTP_ABSENT = {404, 410}
_HTTP_FORBIDDEN = {401, 403}
_NOBODY = {"NoCredentialsError", "PartialCredentialsError", "ProfileNotFound", "TokenRetrievalError"}
"""Errors of botocore for missing credentials, by name: botocore is not imported, as not every store is S3."""


@contextmanager
def storage_errors(uri: str, doing: Doing, *, foreign: bool = False) -> Iterator[None]:
    """Turn an `OSError` of the block into a `StorageError`; a missing file stays `FileNotFoundError`.

    Where a folder has the name of the file that is read, the file is missing: stores know no folders.

    `foreign`: the block talks to a store, whose client has exceptions of its own: for broken connections,
    refused credentials, missing buckets.
    """
    try:
        yield
    except HipslakeError:
        raise
    except OSError as error:
        meant = _meant(error) if foreign else error
        if isinstance(meant, FileNotFoundError):
            raise
        if isinstance(meant, IsADirectoryError) and doing == "read":
            raise FileNotFoundError(errno.ENOENT, "a folder has the name of the file", uri) from error
        raise _storage_error(meant, uri, doing, foreign) from error
    except Exception as error:
        if not foreign:
            raise
        meant = _meant(error)
        if isinstance(meant, FileNotFoundError):
            raise meant from error
        raise _storage_error(meant, uri, doing, foreign) from error


def store_code(error: BaseException) -> str:
    """The error code of the S3 answer that caused an error; "" if there is none."""
    for one in (error, error.__cause__):
        response = getattr(one, "response", None)
        if isinstance(response, dict):
            return str(response.get("Error", {}).get("Code", ""))
    return ""


def _meant(error: Exception) -> OSError:
    """The `OSError` that corresponds to a client's exception."""
    if store_code(error) == "NoSuchBucket":
        return OSError(errno.ENXIO, "the bucket does not exist")
    cause = error.__cause__
    if isinstance(error, FileNotFoundError) and isinstance(cause, Exception) and not store_code(error):
        # fsspec says "not found" of whatever a web server does not give.
        error = error if isinstance(cause, LookupError) else cause
    if isinstance(error, OSError):
        return error
    status = getattr(error, "status", None)
    if status in _HTTP_ABSENT:
        return FileNotFoundError(errno.ENOENT, str(error))
    if status in _HTTP_FORBIDDEN or type(error).__name__ in _NOBODY:
        return PermissionError(errno.EACCES, str(error))
    return OSError(f"{type(error).__name__}: {error}")


def _storage_error(error: OSError, uri: str, doing: Doing, foreign: bool) -> StorageError:
    done = {"read": "read", "write": "written"}[doing]
    refused: type[StorageError] = {"read": NotReadableError, "write": NotWritableError}[doing]
    if error.errno in _NO_SPACE:
        return NoSpaceError(f"{uri}: no space left ({error}); free space or raise the quota, then retry")
    if foreign and isinstance(error, TimeoutError):
        return StoreTimeoutError(
            f"{uri}: could not be {done}: {error or 'no answer in time'}; look whether the store runs and "
            "can be reached, or allow it more time, then retry"
        )
    if foreign and error.errno == errno.ENXIO:
        return refused(f"{uri}: may not be {done}: {error.strerror}; make it, or correct the URI")
    if error.errno in _FORBIDDEN or isinstance(error, PermissionError):
        access = f"{doing} access"
        mend = f"grant this user {access}" + (", or choose another place" if doing == "write" else "")
        if foreign:
            mend = f"check the credentials (HIPSLAKE_STORAGE_CONN, or AWS_...), and that they give {access}"
        if uri.startswith(("http://", "https://")):
            mend = "check the address, and that everybody may read there"
        return refused(f"{uri}: may not be {done} ({error}); {mend}")
    return StorageError(f"{uri}: could not be {done} ({error}); check the file system or store, then retry")
