"""What holds for the objects of all stores, whichever client asks for them."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from fsspec.utils import glob_translate

from hipslake.storage.backoff import wait_for_others
from hipslake.storage.entry import Entry
from hipslake.storage.failures import store_code

MARK = "hipslake-mark"
"""The word that is kept with an object that was created whole."""

OF_CONTENT = re.compile(r"\"?[0-9a-f]{32}(-[0-9]+)?\"?")
"""ETags that are an MD5 (of one part, or of those of several)."""

AHEAD = 8 << 20
"""Bytes that are fetched at once while a file is read from start to end."""

_TAKEN = {"PreconditionFailed", "412"}  # the answers of stores to If-None-Match on a name that exists
_UNDECIDED = {"ConditionalRequestConflict", "409"}  # the answer of S3 while others ask for the same name
_ASKS = 8
_MAGIC = re.compile(r"[*?\[]")


class Listing(Protocol):
    """What lists a folder of a store."""

    def list(self, uri: str, *, recursive: bool) -> Iterable[Entry]: ...


def matching(files: Listing, uri: str, pattern: str) -> Iterator[Entry]:
    """The objects in a folder that match a pattern: fsspec's glob passes over what it may not list."""
    folders = pattern.split("/")[:-1]
    fixed = next((at for at, name in enumerate(folders) if _MAGIC.search(name)), len(folders))
    above = "".join(f"{name}/" for name in folders[:fixed])
    matches = re.compile(glob_translate(pattern)).match
    deep = fixed < len(folders) or "**" in pattern
    for entry in files.list(f"{uri}/{above}".rstrip("/"), recursive=deep):
        if matches(above + entry.path):
            yield entry._replace(path=above + entry.path)


def if_free(put: Callable[[], Any]) -> bool:
    """Put an object on the condition that there is none, by a request that says so; False if there is."""
    for ask in range(_ASKS):
        try:
            put()
            return True
        except FileExistsError:
            return False
        except OSError as error:
            code = store_code(error)
            if code in _TAKEN:
                return False
            if code not in _UNDECIDED or ask == _ASKS - 1:
                raise
            wait_for_others(ask + 1, first=0.05)
    raise AssertionError


@contextmanager
def spooling() -> Iterator[tuple[Path, BinaryIO]]:
    """A temporary file, which is to become an object."""
    with tempfile.TemporaryDirectory(prefix="hipslake-") as folder:
        spool = Path(folder, "object")
        with spool.open("wb") as file:
            yield spool, file
