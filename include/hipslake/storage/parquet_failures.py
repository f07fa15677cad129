"""Errors of pyarrow about Parquet files and tables in memory, raised as errors of hipslake."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from hipslake.errors import CatalogFormatError, CorruptFileError, HipslakeError, InputError, StorageError
from hipslake.storage.parquet_footer import FooterError

_ENCRYPTED = ("encrypt", "decrypt", "PARE")
_RAISED = (pa.ArrowException, OSError, UnicodeDecodeError, OverflowError, ValueError, MemoryError)


@contextmanager
def parquet_failures(where: str) -> Iterator[None]:
    """Turn what is raised about a file in the block into an error of ours; `where` names the file.

    A missing file stays `FileNotFoundError`: what it means, the caller knows.

    Raises
    ------
    CorruptFileError
        The file is damaged, or no Parquet file.
    InputError
        It is encrypted, or holds what pyarrow does not read.
    StorageError
        It cannot be read now.
    """
    try:
        yield
    except FooterError as error:
        raise _as_error(where, str(error), error) from error
    except (HipslakeError, FileNotFoundError):
        raise
    except _RAISED as error:
        raise _as_error(where, str(error).strip().partition("\n")[0].rstrip(". "), error) from error


def _as_error(where: str, text: str, error: BaseException) -> HipslakeError:
    if any(word in text for word in _ENCRYPTED):
        return InputError(f"{where} is encrypted, and nothing here has its keys; write it anew without")
    if isinstance(error, pa.ArrowNotImplementedError):
        return InputError(
            f"{where} holds what pyarrow does not read ({text}); write it anew with plainer types or codecs"
        )
    if isinstance(error, MemoryError):
        return InputError(
            f"{where} asks for more memory than there is ({text}); write it in smaller row groups"
        )
    if isinstance(error, ConnectionError | TimeoutError) or getattr(error, "errno", None) is not None:
        return StorageError(f"{where} cannot be read: {text}; the run will try again")
    return CorruptFileError(f"{where} is damaged, or is no Parquet file: {text}; replace it")


@contextmanager
def damage_as_error(where: str) -> Iterator[None]:
    """Turn what pyarrow raises about the bytes of a table into our error; `where` names the file.

    To be put around reads from memory: of those from a store, an `OSError` may mean the store.
    """
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError, OverflowError) as error:
        message = str(error).strip().partition("\n")[0].rstrip(". ")
        raise CatalogFormatError(f"{where}: is damaged ({message}); restore it, or make it anew") from error
