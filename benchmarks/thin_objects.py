"""The objects of the thin store: files of a folder that nobody changes, and their names in memory."""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
from bisect import bisect_left, insort
from pathlib import Path
from typing import NamedTuple

_KEPT_HEADERS = ("content-type",)

Headers = dict[str, str]


class Kept(NamedTuple):
    """An object.

    Attributes
    ----------
    file : Path
        That nobody changes.
    size : int
    tag : str
        Another one for each object that was ever put.
    at : float
        When it was put, seconds since 1970.
    headers : dict
        That were put with it, and come with it.
    """

    file: Path
    size: int
    tag: str
    at: float
    headers: Headers


class RefusedError(Exception):
    """An answer that is an error of S3: its status and its code."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        self.status, self.code = status, code


class Objects:
    """The objects of one bucket, which threads share; what is asked of all of them is asked under a lock."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count()
        self._known: dict[str, Kept] = {}
        self._keys: list[str] = []  # ascending
        self._parts: dict[str, dict[int, Kept]] = {}
        self._begun: dict[str, Headers] = {}
        self._lock = threading.Lock()

    def new_file(self) -> Path:
        """A path where nothing lies."""
        return self._folder / str(next(self._numbers))

    def take(self, key: str, file: Path, headers: Headers, condition: Headers) -> Kept:
        """Make a file an object, if the condition of its request holds."""
        found = Kept(
            file, file.stat().st_size, f'"{next(self._numbers):032x}"', time.time(), _of_object(headers)
        )
        with self._lock:
            standing = self._known.get(key)
            if condition.get("if-none-match") == "*" and standing is not None:
                raise RefusedError(412, "PreconditionFailed")
            if (tag := condition.get("if-match")) and (standing is None or standing.tag != tag):
                raise RefusedError(412, "PreconditionFailed") if standing else RefusedError(404, "NoSuchKey")
            self._known[key] = found
            if standing is None:
                insort(self._keys, key)
        if standing is not None:
            standing.file.unlink(missing_ok=True)
        return found

    def find(self, key: str) -> Kept:
        """An object."""
        with self._lock:
            found = self._known.get(key)
        if found is None:
            raise RefusedError(404, "NoSuchKey")
        return found

    def drop(self, key: str) -> None:
        """Delete an object, if it is there."""
        with self._lock:
            gone = self._known.pop(key, None)
            if gone is not None:
                del self._keys[bisect_left(self._keys, key)]
        if gone is not None:
            gone.file.unlink(missing_ok=True)

    def copy(self, source: str, key: str, headers: Headers) -> Kept:
        """Make an object of the content of another."""
        found, file = self.find(source), self.new_file()
        file.hardlink_to(found.file)
        replaced = headers.get("x-amz-metadata-directive") == "REPLACE"
        return self.take(key, file, headers if replaced else found.headers, headers)

    def list(
        self, prefix: str, delimiter: str, after: str, most: int
    ) -> tuple[list[tuple[str, Kept]], list[str], str]:
        """The objects and the folders below a prefix; and the key to go on after, or ""."""
        found: list[tuple[str, Kept]] = []
        folders: list[str] = []
        with self._lock:
            at = bisect_left(self._keys, max(prefix, after))
            last = ""
            while at < len(self._keys):
                key = self._keys[at]
                if not key.startswith(prefix):
                    break
                if key <= after or (last and delimiter and key.startswith(last)):
                    at += 1
                    continue
                if len(found) + len(folders) == most:
                    return found, folders, after
                end = key.find(delimiter, len(prefix)) if delimiter else -1
                if end >= 0:
                    last = key[: end + len(delimiter)]
                    after = last + chr(sys.maxunicode)
                    folders.append(last)
                    at = bisect_left(self._keys, after)
                    continue
                found.append((key, self._known[key]))
                after = key
                at += 1
        return found, folders, ""

    def begin_parts(self, headers: Headers) -> str:
        """Begin an object that comes in parts; the name of that."""
        with self._lock:
            name = f"upload{next(self._numbers)}"
            self._parts[name], self._begun[name] = {}, headers
        return name

    def take_part(self, upload: str, number: int, file: Path) -> str:
        """Keep a part; its tag."""
        tag = f'"{next(self._numbers):032x}"'
        with self._lock:
            if upload not in self._parts:
                raise RefusedError(404, "NoSuchUpload")
            self._parts[upload][number] = Kept(file, file.stat().st_size, tag, 0.0, {})
        return tag

    def end_parts(self, key: str, upload: str, numbers: list[int], condition: Headers) -> Kept:
        """Make parts an object."""
        with self._lock:
            if upload not in self._parts:
                raise RefusedError(404, "NoSuchUpload")
            parts, headers = self._parts.pop(upload), self._begun.pop(upload)
        file = self.new_file()
        with file.open("wb") as whole:
            for number in numbers:
                with parts[number].file.open("rb") as part:
                    left = parts[number].size
                    while left:
                        left -= os.copy_file_range(part.fileno(), whole.fileno(), left)
        for part_kept in parts.values():
            part_kept.file.unlink(missing_ok=True)
        return self.take(key, file, headers, condition)

    def drop_parts(self, upload: str) -> None:
        """Give up an object that came in parts."""
        with self._lock:
            parts = self._parts.pop(upload, {})
            self._begun.pop(upload, None)
        for part in parts.values():
            part.file.unlink(missing_ok=True)


def _of_object(headers: Headers) -> Headers:
    return {
        name: value
        for name, value in headers.items()
        if name in _KEPT_HEADERS or name.startswith("x-amz-meta-")
    }
