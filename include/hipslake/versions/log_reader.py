"""Reading the log of versions: which version is the newest, and what each says.

`metadata.json` may be out of date, so a reader looks for versions after the one that it names. Numbers have
no gaps, and none is given up: so a few looks tell which is the last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from hipslake.errors import (
    CatalogFormatError,
    CatalogNotFoundError,
    ConflictError,
    NotReadableError,
    StorageError,
    VersionNotFoundError,
)
from hipslake.storage.folder import Storage
from hipslake.storage.small_files import together
from hipslake.versions.log_files import (
    MOST_VERSIONS,
    POINTER,
    TOMBSTONE_BYTES,
    VERSIONS,
    head,
    is_intact,
    is_tombstone,
    listed_versions,
    read_tombstone_list,
    vacuuming_of,
    version_path,
)

LOOKS = 100
"""At the log, while others commit."""


class FoundVersion(NamedTuple):
    """A version that was read or committed: its number, and its metadata, which never changes."""

    number: int
    data: bytes


class NewestVersion(NamedTuple):
    """The newest version that was found.

    Attributes
    ----------
    number : int
    data : bytes
        Its metadata.
    pointed_at : bool
        Whether that is what stands in `metadata.json`.
    """

    number: int
    data: bytes
    pointed_at: bool


class LogReader:
    """The versions of one catalog (or cube), as readers find them.

    Metadata is bytes here: a JSON object of which this class knows `version` and `write_id`.

    Parameters
    ----------
    storage
        At the root of the catalog.
    pointer
        The content of metadata.json where it was just read; it spares the first look at it.
    """

    def __init__(self, storage: Storage, pointer: bytes | None = None) -> None:
        self._storage = storage
        self._seen = pointer

    def newest(self, meanwhile: Callable[[int], object] | None = None) -> int | None:
        """The number of the newest version; None if nothing was ever committed.

        Parameters
        ----------
        meanwhile
            Called with the number that metadata.json names, while it is looked whether that is the newest.
        """
        standing = self._pointer()[0]
        asks: list[Callable[[], object]] = [lambda: self._newest_after(standing)]
        if standing and meanwhile is not None:
            asks.append(lambda: meanwhile(standing))
        newest, *_ = together(self._storage, *asks)
        return newest or None

    def newest_from(self, known: int) -> int:
        """The number of the newest version, given one that stands, which most often is the newest."""
        return self._newest_after(known)

    def read_newest(self, known: FoundVersion | None = None) -> FoundVersion | None:
        """The number of the newest version and its metadata as it was committed; None if there is none.

        Parameters
        ----------
        known
            A version that was the newest a moment ago, and is not read again if it still is.

        Raises
        ------
        ConflictError
            Others kept committing and vacuuming while it was looked for.
        """
        if known is not None and self._newest_after(known.number) == known.number:
            return known
        for _ in range(LOOKS):
            with suppress(VersionNotFoundError):  # overtaken, and vacuumed, since it was the newest
                return self._read_newest()
        raise self.too_fast("read")

    def _read_newest(self) -> FoundVersion | None:
        told: dict[int, bytes] = {}

        def look(number: int) -> None:
            with suppress(VersionNotFoundError):
                told[number] = self._read(number)

        newest = self.newest(None if self._storage.is_local else look)
        if newest is None:
            return None
        return FoundVersion(newest, told[newest] if newest in told else self._read(newest))

    def numbers(self) -> list[int]:
        """The numbers of all versions that can be read, ascending; tombstones are left out."""
        sizes = listed_versions(self._storage)
        if not sizes:  # a web server lists nothing
            for number in range(1, (self.newest() or 0) + 1):
                with suppress(FileNotFoundError):  # a catalog may be copied without its log
                    sizes[number] = self._storage.entry(version_path(number)).size
        small = {number for number, size in sizes.items() if size <= TOMBSTONE_BYTES}
        known = self._tombstone_list() if small else {}
        return [
            number
            for number in sorted(sizes)
            if number not in small or not (number in known or self._is_tombstone(number))
        ]

    def vacuumed(self) -> dict[int, str]:
        """The numbers of the versions that were vacuumed, each with the write that had committed it."""
        listed = listed_versions(self._storage)
        small = [number for number, size in listed.items() if size <= TOMBSTONE_BYTES]
        known = self._tombstone_list() if small else {}
        found = {number: known[number] for number in small if number in known}
        for number in small:
            if number not in known and self._is_tombstone(number):
                found[number] = str(self._head_of(number).get("write_id"))
        return found

    def _tombstone_list(self) -> dict[int, str]:
        return read_tombstone_list(self._storage).vacuumed

    def read(self, number: int | None = None) -> bytes:
        """The metadata of a version; of the newest one if no number is given.

        Raises
        ------
        CatalogNotFoundError
            Nothing was ever committed here.
        VersionNotFoundError
            There is no such version, or it was vacuumed.
        ConflictError
            Others kept committing and vacuuming while the newest version was looked for.
        """
        if number is not None:
            return self._read(number)
        return self._look().data

    def vacuumed_error(self, number: int) -> VersionNotFoundError | None:
        """The error about a version that was vacuumed; None if it was not, as far as can be seen."""
        try:
            data = self._storage.read(version_path(number))
            if is_tombstone(data, version_path(number)):
                return self._vacuumed(number, data)
        except (FileNotFoundError, StorageError, CatalogFormatError):
            pass
        return None

    def texts(self) -> Iterator[bytes]:
        """The metadata of all versions that can be read, newest first; each is read when it is asked for."""
        for number in reversed(self.numbers()):
            try:
                text = self._read(number)
            except VersionNotFoundError:  # vacuumed since it was listed
                continue
            yield text

    def find(self, write_id: str, after: int = 0) -> int | None:
        """The version above `after` that a write committed, vacuumed or not; None if there is none."""
        for number in range(self.newest() or 0, after, -1):
            if self._head_of(number).get("write_id") == write_id:
                return number
        return None

    def committed_newest(self, known: int | None) -> NewestVersion:
        """The newest version as it was committed, and whether metadata.json is a copy of it.

        Where the log was left behind, or that version is damaged, it is what the copy says.

        Parameters
        ----------
        known
            A version that stands, and is most likely the newest; None if none is known.
        """
        if known is not None and not self._storage.is_local:
            (standing, pointer), newest, data = together(
                self._storage,
                self._pointer,
                partial(self._newest_after, known),
                partial(self._committed, known),
            )
            if newest == known and data:
                return NewestVersion(newest, data, pointed_at=standing == newest and pointer == data)
        copy: list[bytes] = []

        def look(number: int) -> None:
            copy.append(self._committed(number))

        newest, data, pointed_at = self._look(None if self._storage.is_local else look)
        if not pointed_at:
            return NewestVersion(newest, data, pointed_at=False)
        committed = copy[0] if copy else self._committed(newest)
        return NewestVersion(newest, committed or data, pointed_at=committed in (b"", data))

    def _committed(self, number: int) -> bytes:
        """A version as it was committed; b"" if it is damaged, or the log was left behind by a copy."""
        try:
            data = self._read(number)
            return data if is_intact(data) and head(data, POINTER).get("version") == number else b""
        except (VersionNotFoundError, CatalogFormatError):
            return b""

    def _look(self, meanwhile: Callable[[int], object] | None = None) -> NewestVersion:
        """The newest version; `meanwhile` as for `newest`, called at the first look alone."""
        overtaken = 0
        for _ in range(LOOKS):
            standing, data = self._pointer()
            asks: list[Callable[[], object]] = [partial(self._newest_after, standing)]
            if standing and meanwhile is not None:
                asks.append(partial(meanwhile, standing))
            meanwhile = None
            newest, *_ = together(self._storage, *asks)
            if newest == 0:
                raise CatalogNotFoundError(
                    f"{self._storage.uri()}: nothing is published here ({POINTER} and {VERSIONS}/ are "
                    "missing); check the path"
                )
            if newest == standing:
                return NewestVersion(newest, data, pointed_at=True)
            with suppress(VersionNotFoundError):  # overtaken, and vacuumed, since it was the newest
                return NewestVersion(newest, self._read(newest), pointed_at=False)
            if newest == overtaken:
                raise CatalogFormatError(
                    f"{self._storage.uri(version_path(newest))}: the newest version is a tombstone, as only "
                    "older ones are; restore the file"
                )
            overtaken = newest
        raise self.too_fast("read")

    def _pointer(self) -> tuple[int, bytes]:
        """Version and content of metadata.json; version 0 if it is missing or damaged."""
        try:
            seen, self._seen = self._seen, None
            data = self._storage.read(POINTER) if seen is None else seen
            return (int(head(data, POINTER)["version"]), data) if is_intact(data) else (0, b"")
        except (FileNotFoundError, CatalogFormatError, KeyError, TypeError, ValueError, OverflowError):
            return 0, b""

    def _newest_after(self, known: int) -> int:
        """The largest version number, given one that exists (or 0): exponential search, as there are no gaps.

        If none is known, the log is listed, in case its first files are missing.
        """
        if known == 0:
            known = max(listed_versions(self._storage), default=0)
            if not self._storage.is_web_server:  # which lists nothing
                return known
        first, step = known, 1
        while self._stands(known + step):
            known += step
            step = max(1, known - first)  # most often there is one more, or none
            if known > MOST_VERSIONS:
                raise CatalogFormatError(
                    f"{self._storage.uri()}: there seems to be every version that is asked for; check the "
                    "address, as some web servers answer with a page of theirs whatever is missing"
                )
        missing = known + step
        while missing - known > 1:
            middle = (known + missing) // 2
            if self._stands(middle):
                known = middle
            else:
                missing = middle
        return known

    def _stands(self, number: int) -> bool:
        try:
            return self._storage.is_file(version_path(number))
        except NotReadableError:
            # A store that may be read but not listed says so of whatever is missing.
            if self._storage.is_local or self._pointer()[0] == 0:
                raise
            return False

    def _read(self, number: int) -> bytes:
        if not 0 < number <= MOST_VERSIONS:
            raise self._not_found(number, "does not exist")
        try:
            data = self._storage.read(version_path(number))
        except FileNotFoundError:
            raise self._not_found(number, "does not exist") from None
        if is_tombstone(data, self._storage.uri(version_path(number))):
            raise self._vacuumed(number, data)
        return data

    def _vacuumed(self, number: int, data: bytes) -> VersionNotFoundError:
        how = vacuuming_of(head(data, version_path(number)))
        return self._not_found(number, f"was vacuumed {how}" if how else "was vacuumed")

    def _not_found(self, number: int, why: str) -> VersionNotFoundError:
        known = ", ".join(map(str, self.numbers())) or "none"
        return VersionNotFoundError(f"{self._storage.uri()}: version {number} {why}; there are: {known}")

    def too_fast(self, done: str) -> ConflictError:
        """The error about a log that changes faster than something is done, such as "read"."""
        return ConflictError(
            f"{self._storage.uri()}: versions are committed faster than they are {done}; retry"
        )

    def _is_tombstone(self, number: int) -> bool:
        try:
            return is_tombstone(self._storage.read(version_path(number)), version_path(number))
        except FileNotFoundError:
            return True
        except CatalogFormatError:  # damaged; for `read` to tell
            return False

    def _head_of(self, number: int) -> dict[str, Any]:
        where = self._storage.uri(version_path(number))
        try:
            return head(self._storage.read(version_path(number)), where)
        except FileNotFoundError:  # no number is left out, and none is given up
            raise CatalogFormatError(
                f"{where}: is missing, though this version or a newer one was committed; restore the file"
            ) from None
