"""Key records of a catalog in mode upsert: which night brought which key, and the rows that newer ones beat.

A night brings records: of a key, the row that it has from now on, or that it has none. Of all records of a
key one wins, and its row is in the leaves. Records lie in runs of files, sorted by key; the rows of records
that lost lie in runs of files too, sorted by `_row`, as they come back when the record that beat them goes.
With `validity`, the rows of all records are in the leaves, and two columns tell when each held.

A night that is run again takes over its ordinal, and so the numbers of its rows. So each run says of which
ordinals its entries count: those of a replaced night stay in files of other nights, and are passed over.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field, model_validator

from hipslake.catalog.partitions import Sidecar, pixel_ranges, pixels_in, read_sidecar, write_sidecar
from hipslake.specs.base import Frozen
from hipslake.specs.upsert_spec import Validity
from hipslake.sphere.pixels import MAX_ORDER
from hipslake.storage.folder import Storage

MOST_FILES = 8
"""Most files of a run that the metadata lists itself; a sidecar lists those of a longer one."""

FILE_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("sha256", pa.string(), nullable=False),
        pa.field("first", pa.list_(pa.string()), nullable=False),
        pa.field("last", pa.list_(pa.string()), nullable=False),
    ]
)
"""A row is a file of a run, in the sidecar that lists them."""


class RecordFile(Frozen):
    """A sorted file of a run; ranges of its files do not overlap, but a value may stand in two of them."""

    path: str = Field(description="relative to the catalog's root")
    rows: int = Field(ge=1)
    bytes: int
    sha256: str
    first: tuple[str, ...] = Field(description="the least key: a text for each of its columns")
    last: tuple[str, ...] = Field(description="the greatest key")


class RecordRun(Frozen):
    """Sorted files that follow one another: records by key, or superseded rows by `_row`."""

    ordinals: str = Field(description="increments whose entries count, as ranges; others in the files do not")
    rows: int = Field(ge=0, description="entries of all files, also those that do not count")
    bytes: int
    files: tuple[RecordFile, ...] | None = Field(default=None, description="ascending by key")
    sidecar: Sidecar | None = Field(default=None, description="in place of `files`, where there are many")

    @model_validator(mode="after")
    def _lists_files(self) -> RecordRun:
        if (self.files is None) is (self.sidecar is None):
            raise ValueError(
                "files: lists the files of the run, or in its place sidecar; one of them is needed"
            )
        return self

    @property
    def name(self) -> str | None:
        """The file by which the run is known, whichever of its ordinals count; None if it has no file."""
        if self.sidecar is not None:
            return self.sidecar.path
        return self.files[0].path if self.files else None

    @property
    def write_id(self) -> str | None:
        """The write that all its files lie in, and its sidecar; None if it has no file."""
        return self.name.partition("/")[0] if self.name is not None else None

    @property
    def counting(self) -> NDArray[np.int64]:
        """The ordinals whose entries count, ascending."""
        return numbers_of(self.ordinals)

    def listed(self, storage: Storage) -> tuple[RecordFile, ...]:
        """The files, ascending by key.

        Parameters
        ----------
        storage : Storage
            At the catalog's root; touched only where a sidecar lists them.

        Raises
        ------
        CatalogFormatError
            The sidecar is damaged.
        """
        if self.sidecar is None:
            return self.files or ()
        table = read_sidecar(storage, self.sidecar, FILE_SCHEMA)
        return tuple(RecordFile.model_validate(row) for row in table.to_pylist())

    def without(self, ordinal: int) -> RecordRun | None:
        """The run where the entries of an increment do not count any more; None if none of it counts."""
        counting = self.counting
        left = counting[counting != ordinal]
        if len(left) == len(counting):
            return self
        return self.model_copy(update={"ordinals": ranges_of(left)}) if len(left) else None


class KeyRecords(Frozen):
    """What a version knows of keys.

    Every increment that brought records counts in one run of `runs`, and each that has superseded rows in
    some of `superseded`.
    """

    key: tuple[str, ...] = Field(min_length=1, description="columns that identify a row")
    order_by: str | None = Field(
        default=None, description="column by which the last record of a key wins; none: the last night's"
    )
    validity: Validity | None = Field(
        default=None,
        description="columns that say from when to when a row was that of its key: all rows stay in leaves",
    )
    runs: tuple[RecordRun, ...] = Field(description="of records, oldest first")
    superseded: tuple[RecordRun, ...] = Field(default=(), description="of rows whose record lost")
    rows_superseded: int = Field(
        default=0, ge=0, description="rows of increments that are in no leaf, as their record lost"
    )

    @property
    def all_runs(self) -> tuple[RecordRun, ...]:
        """The runs of records, and those of superseded rows."""
        return (*self.runs, *self.superseded)


class KeyChanges(Frozen):
    """What a night of a catalog in mode upsert brought, and what it did to the rows of the other nights."""

    run: RecordRun = Field(description="all its records, whatever became of them")
    deletes: int = Field(default=0, ge=0, description="records that say that a key has no row")
    inserted: int = Field(default=0, ge=0, description="keys that have a row by it, and had none")
    updated: int = Field(default=0, ge=0, description="keys that have another row by it")
    deleted: int = Field(default=0, ge=0, description="keys that have no row any more")
    outdated: int = Field(default=0, ge=0, description="records that a newer one beat when they came")
    missing_deletes: int = Field(default=0, ge=0, description="deletes of keys that had no row")


def described_run(
    storage: Storage, write_id: str, name: str, files: Iterable[RecordFile], ordinals: Iterable[int]
) -> RecordRun:
    """A run of files; a sidecar is written where they are many.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    write_id : str
        The write that the files lie in.
    name : str
        Of the run in the write, and of its sidecar, if there is one.
    files : iterable of RecordFile
        Ascending by key.
    ordinals : iterable of int
        Increments whose entries count.
    """
    listed = tuple(files)
    sums = {"rows": sum(file.rows for file in listed), "bytes": sum(file.bytes for file in listed)}
    counting = ranges_of(np.unique(np.fromiter(ordinals, np.int64)))
    if len(listed) <= MOST_FILES:
        return RecordRun(ordinals=counting, files=listed, **sums)
    table = pa.Table.from_pylist([file.model_dump() for file in listed], FILE_SCHEMA)
    sidecar = write_sidecar(storage, write_id, f"records_{name}", table)
    return RecordRun(ordinals=counting, sidecar=sidecar, **sums)


def ranges_of(numbers: NDArray[np.int64]) -> str:
    """Ascending numbers as text, runs as `first-last`.

    Examples
    --------
    >>> ranges_of(np.array([0, 1, 2, 5]))
    '0-2,5'
    """
    return pixel_ranges(np.full(len(numbers), MAX_ORDER), numbers).get(MAX_ORDER, "")


def numbers_of(ranges: str) -> NDArray[np.int64]:
    """The inverse of `ranges_of`, int64[n].

    Raises
    ------
    CatalogFormatError
        The text is damaged.
    """
    return pixels_in({MAX_ORDER: ranges})[1] if ranges else np.empty(0, np.int64)
