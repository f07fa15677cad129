"""What a spec names as sources of datasets: versions of catalogs, snapshots of Iceberg tables, Parquet files.

They are looked up first (`source_now`), and opened just as they were then (`opened`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.catalog.catalog_reader import CatalogReader
from hipslake.cube.store.metadata import CubeSource
from hipslake.cube.store.row_sources import ParquetRows, RowSource
from hipslake.errors import CatalogNotFoundError, CubeRowsError, SourceNotFoundError, VersionNotFoundError
from hipslake.specs.base import Frozen
from hipslake.specs.cube_spec import CubeDatasetSpec
from hipslake.specs.environment import expand
from hipslake.specs.table_place import IcebergSpec
from hipslake.sphere.pixels import Pixel
from hipslake.storage.entry import Entry
from hipslake.tables.opening import open_table
from hipslake.tables.stored_files import StoredFile, read_data_file


class SourceNow(Frozen):
    """What a dataset would be read from now."""

    source: CubeSource
    bytes: int  # as stored, of all of it


def source_now(dataset: CubeDatasetSpec, warehouse: str) -> SourceNow:
    """Look up what a dataset is to be read from: the newest, unless its spec names a version.

    Parameters
    ----------
    dataset : CubeDatasetSpec
    warehouse : str
        Its URI.

    Raises
    ------
    CatalogNotFoundError, VersionNotFoundError
        The catalog, or that version or snapshot, is not there.
    SourceNotFoundError
        There is no such table, or no file matches.
    CubeRowsError
        The files have several schemas.
    """
    if dataset.catalog is not None:
        catalog = CatalogReader.open(catalog_place(dataset.catalog, warehouse), dataset.version)
        content = _digest(list(catalog.metadata.increment_writes))
        source = _source(dataset, "catalog", catalog.opened_at, content, version=catalog.version)
        return SourceNow(source=source, bytes=catalog.metadata.total_bytes)
    if dataset.table is not None:
        with closing(open_table(dataset.iceberg, warehouse, dataset.table)) as opened_table:
            table = opened_table.now()
            if table is None:
                raise SourceNotFoundError(
                    f"there is no table {dataset.table!r} in {dataset.iceberg.name!r} yet"
                )
            if dataset.snapshot is not None:
                table = table.at(dataset.snapshot)
            number, size = table.version, table.totals.bytes
        place = f"{dataset.iceberg.name}:{dataset.table}"
        source = _source(dataset, "table", place, _digest([number]), snapshot=number)
        return SourceNow(source=source, bytes=size or 0)
    assert dataset.parquet is not None, "the spec has one of the three"
    rows = ParquetRows.at(expand(dataset.parquet))
    source = _source(dataset, "parquet", expand(dataset.parquet), _listing(rows.files))
    return SourceNow(source=source, bytes=sum(entry.size for entry in rows.files))


def opened(
    dataset: CubeDatasetSpec,
    source: CubeSource,
    warehouse: str,
    within: tuple[int, NDArray[np.int64]] | None = None,
) -> RowSource:
    """Open what was looked up, just as it was then.

    Parameters
    ----------
    dataset : CubeDatasetSpec
    source : CubeSource
    warehouse : str
    within : (int, int64[n]), optional
        Of a catalog, only the rows in these pixels of an order.

    Raises
    ------
    VersionNotFoundError
        The version was vacuumed, or the snapshot has expired.
    CubeRowsError
        The files, or a catalog of others, have changed.
    """
    if source.kind == "catalog":
        rows = CatalogSource.of(source.uri, source.version, within=within)
        if rows.write_id is not None and _digest([rows.write_id]) != source.content:
            raise _written_anew(source.uri)
        return rows
    if source.kind == "table":
        assert dataset.table is not None, "the source was looked up for this spec"
        return IcebergRows.of(dataset.iceberg, warehouse, dataset.table, source.snapshot)
    files = ParquetRows.at(source.uri)
    if _listing(files.files) != source.content:
        raise CubeRowsError(
            f"{source.uri}: the files have changed since the run began; clear the run from its first task"
        )
    return files


def catalog_place(catalog: str, warehouse: str) -> str:
    """The root of a catalog: of the warehouse by its name, any other by its URI."""
    return expand(catalog) if "/" in catalog else f"{warehouse.rstrip('/')}/catalogs/{catalog}"


def _source(dataset: CubeDatasetSpec, kind: str, uri: str, content: str, **number: int | None) -> CubeSource:
    """What rows are taken from; `number` is the version of a catalog, or the snapshot of a table."""
    taken = dataset.model_dump(mode="json", include={"columns", "filters", "rename", "partition_columns"})
    given = {"kind": kind, "uri": uri, "content": content, "taken": _digest(taken)}
    return CubeSource.model_validate({**given, **number})


def _listing(files: Sequence[Entry]) -> str:
    return _digest([[entry.path, entry.size, entry.stamp] for entry in files])


def _digest(document: object) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class CatalogSource:
    """One version of a catalog, or what of it lies in some pixels.

    Parameters
    ----------
    uri : str
    version : int
    pixels : tuple of tuple of Pixel
        Per part; disjoint.
    schema : pyarrow.Schema
    write_id : str or None
        Of a catalog of others, which keeps no versions: what it is known again by.
    """

    uri: str
    version: int
    pixels: tuple[tuple[Pixel, ...], ...]
    schema: pa.Schema
    write_id: str | None = None

    @classmethod
    def of(
        cls, uri: str, version: int | None = None, *, within: tuple[int, NDArray[np.int64]] | None = None
    ) -> CatalogSource:
        """A catalog; by default all of its newest version.

        Parameters
        ----------
        uri : str
        version : int, optional
        within : (int, int64[n]), optional
            An order, and pixels there, ascending: only rows in these.
        """
        catalog = CatalogReader.open(uri, version)
        order, npix = catalog.metadata.groups[0].leaf_pixels()
        leaves = [Pixel(*each) for each in zip(order.tolist(), npix.tolist(), strict=True)]
        parts = [(leaf,) for leaf in leaves] if within is None else _cut(leaves, *within)
        write_id = catalog.metadata.write_id if catalog.metadata.is_foreign else None
        schema = catalog.schema.remove_metadata()
        return cls(catalog.opened_at, catalog.version, tuple(parts), schema, write_id)

    @property
    def parts(self) -> int:
        return len(self.pixels)

    def read(self, part: int, columns: Sequence[str]) -> Iterator[pa.Table]:
        catalog = CatalogReader.open(self.uri, self.version)
        if self.write_id not in (None, catalog.metadata.write_id):
            raise _written_anew(self.uri)
        yield catalog.read(columns=list(columns), pixels=self.pixels[part])


def _written_anew(uri: str) -> CubeRowsError:
    return CubeRowsError(
        f"{uri}: this catalog of others was written anew since the run began; clear the run from its first "
        "task"
    )


def _cut(leaves: list[Pixel], order: int, npix: NDArray[np.int64]) -> list[tuple[Pixel, ...]]:
    """What of leaves lies in pixels of an order; leaves without any are left out."""
    shift = [2 * (leaf.order - order) for leaf in leaves]
    low = [leaf.npix >> by if by > 0 else leaf.npix << -by for leaf, by in zip(leaves, shift, strict=True)]
    high = [first + (1 << max(0, -by)) for first, by in zip(low, shift, strict=True)]
    first, last = np.searchsorted(npix, low), np.searchsorted(npix, high)
    parts: list[tuple[Pixel, ...]] = []
    for leaf, begin, end in zip(leaves, first.tolist(), last.tolist(), strict=True):
        if begin < end:
            finer = leaf.order >= order
            parts.append((leaf,) if finer else tuple(Pixel(order, n) for n in npix[begin:end].tolist()))
    return parts


@dataclass(frozen=True)
class IcebergRows:
    """One snapshot of a table. It needs no Iceberg catalog to be read, so tasks need no keys of one.

    Parameters
    ----------
    files : tuple of StoredFile
        Of the data files.
    stored : pyarrow.Schema
        Of the snapshot, with field ids.
    """

    files: tuple[StoredFile, ...]
    stored: pa.Schema

    @classmethod
    def of(cls, spec: IcebergSpec, warehouse: str, name: str, snapshot_id: int | None) -> IcebergRows:
        """A snapshot of a table; without any, an empty table.

        Raises
        ------
        SpecError
            There is no such table.
        VersionNotFoundError
            The snapshot has expired.
        PlanError
            The table has delete files of a kind that is not read.
        """
        with closing(open_table(spec, warehouse, name)) as opened_table:
            table = opened_table.existing()
            if snapshot_id is None:
                return cls((), table.schema)
            table = table.at(snapshot_id)
            return cls(tuple(file.stored for file in table.files), table.schema)

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([field.remove_metadata() for field in self.stored])

    @property
    def parts(self) -> int:
        return len(self.files)

    def read(self, part: int, columns: Sequence[str]) -> Iterator[pa.Table]:
        kept = pa.schema([self.schema.field(name) for name in columns])
        for batch in read_data_file(self.files[part], self.stored, list(columns)):
            yield pa.Table.from_batches([batch]).cast(kept)


def touched_pixels(uri: str, before: int, after: int, order: int) -> NDArray[np.int64] | None:
    """The pixels of an order in which two versions of a catalog may have other rows.

    Parameters
    ----------
    uri : str
    before, after : int
        The versions.
    order : int

    Returns
    -------
    int64[n] or None
        Ascending. None: that cannot be told, as the older version is gone, or has other columns, or as others
        wrote the leaves, of which no checksum is known.
    """
    try:
        old, new = CatalogReader.open(uri, before), CatalogReader.open(uri, after)
    except (CatalogNotFoundError, VersionNotFoundError):
        return None
    if new.metadata.is_foreign:
        return None
    if [each.name for each in old.metadata.groups] != [each.name for each in new.metadata.groups]:
        return None
    found = [np.zeros(0, np.int64)]
    for mine, other in zip(old.metadata.groups, new.metadata.groups, strict=True):
        if mine.to_arrow() != other.to_arrow():
            return None
        left, right = mine.table(old.storage), other.table(new.storage)
        if pc.any(pc.equal(pa.chunked_array([*left["sha256"].chunks, *right["sha256"].chunks]), "")).as_py():
            return None
        keys = _keys(left), _keys(right)
        for table, own, others in ((left, *keys), (right, *keys[::-1])):
            found.append(_pixels(table.filter(pc.invert(pc.is_in(own, value_set=others))), order))
    return np.unique(np.concatenate(found))


def _keys(files: pa.Table) -> pa.Array:
    """Texts that identify leaf files by pixel and checksum, independent of their paths."""
    texts = [files["order"].cast(pa.string()), files["npix"].cast(pa.string()), files["sha256"]]
    return pc.binary_join_element_wise(*texts, "/").combine_chunks()


def _pixels(files: pa.Table, order: int) -> NDArray[np.int64]:
    """The pixels of an order that overlap leaves."""
    depth, npix = files["order"].to_numpy().astype(np.int64), files["npix"].to_numpy().astype(np.int64)
    down = np.maximum(0, order - depth)
    first = (npix >> (2 * np.maximum(0, depth - order))) << (2 * down)
    count = np.int64(1) << (2 * down)
    begin = np.cumsum(count) - count
    within = np.arange(int(count.sum())) - np.repeat(begin, count)
    pixels: NDArray[np.int64] = np.repeat(first, count) + within
    return pixels
