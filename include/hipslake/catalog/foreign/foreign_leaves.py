"""The leaves of foreign catalogs as groups and margins: listed and counted when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import PrivateAttr

from hipslake.catalog.describe import describe_columns
from hipslake.catalog.foreign.hats_tree import HatsTree
from hipslake.catalog.foreign.listed_leaves import (
    ListedLeaves,
    has_folders,
    leaves_by_listing,
    leaves_by_metadata,
    list_leaves,
)
from hipslake.catalog.foreign.property_files import number_in
from hipslake.catalog.foreign_rows import files_of_leaf
from hipslake.catalog.leaf_form import LeafForm, given_schema, with_form
from hipslake.catalog.leaf_opening import read_errors
from hipslake.catalog.metadata import GroupMetadata, Margin
from hipslake.catalog.partitions import PARTITION_SCHEMA, pixel_ranges, total_of
from hipslake.catalog.schema import HEALPIX_FIELD, schema_text
from hipslake.errors import CatalogFormatError
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.pixels import HEALPIX_COLUMN, starts, stops
from hipslake.storage.folder import Storage
from hipslake.storage.parquet_failures import damage_as_error
from hipslake.storage.parquet_tail import parquet_tail
from hipslake.storage.small_files import in_threads

_FEW_LEAVES = 256
"""Whose footers are read one by one before what tells of all leaves is."""
_SCHEMA_FILES = ("_common_metadata", "_metadata")
_INTEGERS = (pa.int64(), pa.uint64())


@dataclass
class ForeignLeaves:
    """The leaves of a tree, and the schema of their files.

    Attributes
    ----------
    tree : HatsTree
    """

    tree: HatsTree
    _counted: dict[str, tuple[int, int]] = field(default_factory=dict, repr=False)

    @cached_property
    def listed(self) -> ListedLeaves:
        """The leaves, along the curve; errors as of `list_leaves`."""
        return list_leaves(self.tree)

    @cached_property
    def stored_schema(self) -> pa.Schema:
        """What the leaf files hold, by the file that says it for all, else by that of the first leaf.

        Raises
        ------
        CatalogFormatError
            There is no leaf, or what says it is damaged.
        """
        for name in _SCHEMA_FILES:
            path = self.tree.data_path(name)
            try:
                data = self.tree.storage.read(path)
            except FileNotFoundError:
                continue
            with damage_as_error(self.tree.storage.uri(path)):
                schema = pq.read_schema(pa.BufferReader(data))
            if len(schema):
                return _plain(schema)
        if not len(self.listed):
            raise CatalogFormatError(f"{self.tree.uri}: has no leaf and no _common_metadata, so no columns")
        first = files_of_leaf(self.tree.storage, self.listed.paths[0].as_py(), has_folders(self.tree))[0]
        with read_errors(self.tree.storage, first):
            return _plain(parquet_tail(self.tree.storage, first).footer.schema.to_arrow_schema())

    @cached_property
    def form(self) -> LeafForm:
        """How the leaf files are read."""
        said, schema = self.tree.properties, self.stored_schema
        ra, dec = said.get("hats_col_ra", ""), said.get("hats_col_dec", "")
        placed = all(name in schema.names for name in (ra, dec)) and self.tree.kind != "index"
        column = said.get("hats_col_healpix", HEALPIX_COLUMN)
        order = said.get("hats_col_healpix_order", "29")
        stored = column == HEALPIX_COLUMN and order == "29" and HEALPIX_COLUMN in schema.names
        if stored and schema.field(HEALPIX_COLUMN).type not in _INTEGERS:
            stored = False
        if self.tree.kind == "index":
            stored = False
        if not placed:
            ra = dec = ""
        return LeafForm(
            "stored" if stored else "computed" if placed else "none", ra, dec, has_folders(self.tree)
        )

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns as they are given, `_healpix_29` first if there is one, with the form of the files."""
        fields = list(self.stored_schema)
        if self.form.healpix != "none":
            fields = [HEALPIX_FIELD, *(each for each in fields if each.name != HEALPIX_COLUMN)]
        return with_form(pa.schema(fields), self.form)

    def table(self, chosen: NDArray[np.int64] | None = None) -> pa.Table:
        """Leaves as `PARTITION_SCHEMA`, along the curve; their files have no checksums.

        Parameters
        ----------
        chosen : int64[n], optional
            Places in `listed`; all if not given.
        """
        listed = self.listed
        places = np.arange(len(listed)) if chosen is None else chosen
        if len(places) == len(listed):
            self._count_all()
        rows, sizes = self._counts(places)
        return pa.table(
            [
                listed.order[places],
                listed.npix[places],
                listed.paths.take(pa.array(places)),
                rows,
                sizes,
                [""] * len(places),
            ],
            schema=PARTITION_SCHEMA,
        )

    def near(self, inside: Intervals) -> NDArray[np.int64]:
        """The places of the leaves that hold something of some intervals."""
        start, stop = starts(self.listed.order, self.listed.npix), stops(self.listed.order, self.listed.npix)
        return np.flatnonzero(inside.touch(start, stop))

    def _counts(self, places: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows and bytes of leaves."""
        listed = self.listed
        if listed.rows is not None and listed.bytes is not None:
            return listed.rows[places], listed.bytes[places]
        if len(places) > _FEW_LEAVES:
            self._count_all()
        paths = listed.paths.take(pa.array(places)).to_pylist()
        unknown = [path for path in paths if path not in self._counted]
        for path, counts in zip(unknown, in_threads(self.tree.storage, self._look, unknown), strict=True):
            self._counted[path] = counts
        found = np.array([self._counted[path] for path in paths], np.int64).reshape(-1, 2)
        return found[:, 0], found[:, 1]

    def _count_all(self) -> None:
        """Take what `_metadata` and a listing tell of all leaves; what they do not tell, footers do."""
        if self._counted.keys() >= set(self.listed.paths.to_pylist()):
            return
        told = leaves_by_metadata(self.tree)
        if told is None or told.rows is None or told.bytes is None:
            return
        sizes = told.bytes
        if (seen := leaves_by_listing(self.tree)) is not None and seen.bytes is not None:
            known = dict(zip(seen.paths.to_pylist(), seen.bytes.tolist(), strict=True))
            named = zip(told.paths.to_pylist(), told.bytes.tolist(), strict=True)
            sizes = np.array([known.get(path, size) for path, size in named], np.int64)
        for path, *counts in zip(told.paths.to_pylist(), told.rows.tolist(), sizes.tolist(), strict=True):
            self._counted[path] = (counts[0], counts[1])

    def _look(self, path: str) -> tuple[int, int]:
        storage = self.tree.storage
        rows = size = 0
        for file in files_of_leaf(storage, path, self.form.folders):
            with read_errors(storage, file):
                tail = parquet_tail(storage, file)
            rows, size = rows + tail.footer.num_rows, size + tail.size
        return rows, size


class _OfLeaves:
    """Files that a foreign tree lists. Fields that its leaves tell are worked out when they are asked for."""

    _leaves: ForeignLeaves

    def __getattr__(self, name: str) -> Any:
        make = _FIELDS.get(name)
        if make is None:
            return super().__getattr__(name)  # type: ignore[misc]
        value = make(self.leaves_of)
        self.__dict__[name] = value
        return value

    @property
    def leaves_of(self) -> ForeignLeaves:
        """The leaves."""
        return self._leaves

    @property
    def is_listed(self) -> bool:
        """False: the metadata do not list the files; who needs a few asks for those near them."""
        return False

    def leaf_pixels(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return self._leaves.listed.order, self._leaves.listed.npix

    def table(self, storage: Storage) -> pa.Table:
        return self._leaves.table()

    def table_near(self, storage: Storage, start: NDArray[np.int64], stop: NDArray[np.int64]) -> pa.Table:
        return self._leaves.table(self._leaves.near(Intervals(start, stop)))


class ForeignGroup(_OfLeaves, GroupMetadata):
    """The leaves of a foreign catalog as a column group."""

    _leaves: ForeignLeaves = PrivateAttr()

    @classmethod
    def of(cls, leaves: ForeignLeaves, fields: dict[str, Any]) -> ForeignGroup:
        """The group of leaves; the fields of `GroupMetadata` that need no leaf to be known."""
        found = cls.model_construct(**fields)
        object.__setattr__(found, "__pydantic_private__", {"_leaves": leaves})
        return found

    def to_arrow(self) -> pa.Schema:
        return self._leaves.schema


class ForeignMargin(_OfLeaves, Margin):
    """A margin tree of others."""

    _leaves: ForeignLeaves = PrivateAttr()

    @classmethod
    def of(cls, leaves: ForeignLeaves, fields: dict[str, Any]) -> ForeignMargin:
        """The margin of a tree; the fields of `Margin` that need no leaf to be known."""
        found = cls.model_construct(**fields)
        object.__setattr__(found, "__pydantic_private__", {"_leaves": leaves})
        return found

    def place(self, catalog: Storage) -> Storage:
        return self._leaves.tree.storage

    def leaf_schema(self, group: pa.Schema) -> pa.Schema:
        return self._leaves.schema


def _rows(leaves: ForeignLeaves) -> int:
    said = number_in(leaves.tree.properties, "hats_nrows", leaves.tree.where)
    return total_of(leaves.table(), "rows") if said is None else said


def _bytes(leaves: ForeignLeaves) -> int:
    kibibytes = number_in(leaves.tree.properties, "hats_estsize", leaves.tree.where)
    return kibibytes * 1024 if kibibytes else total_of(leaves.table(), "bytes")


_FIELDS: dict[str, Callable[[ForeignLeaves], Any]] = {
    "rows": _rows,
    "bytes": _bytes,
    "leaves": lambda leaves: len(leaves.listed),
    "files": lambda leaves: len(leaves.listed),
    "pixels": lambda leaves: pixel_ranges(leaves.listed.order, leaves.listed.npix),
    "columns": lambda leaves: describe_columns(given_schema(leaves.schema)),
    "arrow_schema": lambda leaves: schema_text(given_schema(leaves.schema)),
}


def _plain(schema: pa.Schema) -> pa.Schema:
    """Without what pandas and Parquet note of schema and fields."""
    fields = []
    for each in schema:
        kept = {key: text for key, text in (each.metadata or {}).items() if not key.startswith(b"PARQUET:")}
        fields.append(each.with_metadata(kept or None))
    return pa.schema(fields)
