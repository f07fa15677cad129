"""Errors of file systems and stores, told as ours: the place, what failed, and the mend."""

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
)

Doing = Literal["read", "write"]

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}


@contextmanager
def told(uri: str, doing: Doing, *, foreign: bool = False) -> Iterator[None]:
    """Turn an `OSError` of the block into a `StorageError`; a missing file stays `FileNotFoundError`.

    `foreign`: the block talks to a store, whose client has exceptions of its own for broken connections.
    """
    try:
        yield
    except (FileNotFoundError, HipslakeError):
        raise
    except OSError as error:
        raise _storage_error(error, uri, doing) from error
    except Exception as error:
        if not foreign:
            raise
        raise _storage_error(OSError(f"{type(error).__name__}: {error}"), uri, doing) from error


def _storage_error(error: OSError, uri: str, doing: Doing) -> StorageError:
    if error.errno in _NO_SPACE:
        return NoSpaceError(f"{uri}: no space left ({error}); free space or raise the quota, then retry")
    forbidden = error.errno in _FORBIDDEN or isinstance(error, PermissionError)
    if forbidden and doing == "write":
        return NotWritableError(
            f"{uri}: may not be written ({error}); grant this user write access, or choose another place"
        )
    if forbidden:
        return NotReadableError(f"{uri}: may not be read ({error}); grant this user read access")
    done = {"read": "read", "write": "written"}[doing]
    return StorageError(f"{uri}: could not be {done} ({error}); check the file system or store, then retry")
