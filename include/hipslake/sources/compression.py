"""Source files as the bytes that were compressed into them, and what is wrong where they cannot be read."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, Literal, cast

from hipslake.errors import CorruptFileError, InputError, StorageError
from hipslake.sources.file_listing import located
from hipslake.sources.source_file import LIST_AGAIN, SeekPoint, SourceFile
from hipslake.sources.unpacking import (
    BUFFER_BYTES,
    INFLATE_ERRORS,
    GzipContent,
    ZstandardContent,
    ZstandardError,
    gunzipped,
)
from hipslake.specs.source_spec import Compression

_ENDINGS: dict[Literal["gzip", "zstd"], tuple[str, ...]] = {
    "gzip": (".gz", ".gzip"),
    "zstd": (".zst", ".zstd"),
}


def compression_of(file: SourceFile, given: Compression) -> Literal["none", "gzip", "zstd"]:
    """Return how a file is compressed: as the spec says, or with `auto` by the ending of its name."""
    if given != "auto":
        return given
    name = file.uri.lower()
    return next((kind for kind, endings in _ENDINGS.items() if name.endswith(endings)), "none")


@contextmanager
def decompressed(file: SourceFile, given: Compression, point: SeekPoint | None = None) -> Iterator[BinaryIO]:
    """Open a file as the stream of its uncompressed bytes.

    A compressed one can seek too, but backwards only by reading once more from the beginning, and forwards by
    reading on, or from a point that is known.
    """
    storage, name = located(file)
    match compression_of(file, given):
        case "none":
            with storage.open(name) as raw:
                yield raw
        case "gzip":
            if point is None:
                with storage.open(name) as raw, gunzipped(raw) as unzipped:
                    yield cast("BinaryIO", unzipped)
                return
            gzipped = GzipContent(lambda: storage.open(name), point)
            with io.BufferedReader(gzipped, BUFFER_BYTES) as unpacked:
                yield unpacked
        case "zstd":
            unpacking = ZstandardContent(lambda: storage.open(name), point)
            with io.BufferedReader(unpacking, BUFFER_BYTES) as unpacked:
                yield unpacked


@contextmanager
def explained(file: SourceFile) -> Iterator[None]:
    """Turn what reading a file raises into our errors."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"{file.uri} was deleted after the run listed it; {LIST_AGAIN}") from None
    except INFLATE_ERRORS as error:
        raise CorruptFileError(
            f"{file.uri} is truncated or damaged, or no gzip file: {str(error).rstrip('.')}; replace it"
        ) from error
    except ZstandardError as error:
        raise CorruptFileError(
            f"{file.uri} is truncated or damaged, or no zstd file: {error}; replace it"
        ) from error
    except OSError as error:
        raise StorageError(f"{file.uri} cannot be read: {error}; the run will try again") from error
