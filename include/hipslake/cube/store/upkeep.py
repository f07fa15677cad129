"""Copies of a cube, its cleanup, and the size of its datasets."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hipslake.catalog.leaf_opening import read_errors
from hipslake.catalog.upkeep.catalog_vacuum import VacuumOutcome, vacuum
from hipslake.catalog.upkeep.needed_files import NeededFiles
from hipslake.cube.cube_rules import check_datasets, check_name
from hipslake.cube.dataset import labels_column, listed
from hipslake.cube.row_codes import bounds_of
from hipslake.cube.store.cube_commit import Draft, commit, known_datasets, newest, read_version
from hipslake.cube.store.cube_files import BYTES, PATH, ROWS, SHA256, encoded, read_files, read_index
from hipslake.cube.store.dataset_metadata import with_files
from hipslake.cube.store.layout import index_path, moved
from hipslake.cube.store.metadata import CubeDatasetMetadata, CubeMetadata
from hipslake.errors import CubeError, VerificationError
from hipslake.specs.base import Frozen
from hipslake.specs.cube_spec import CubeColumns
from hipslake.specs.vacuum_spec import Retention
from hipslake.storage.folder import Storage
from hipslake.versions.pins import pinning

_THREADS = 8


class DatasetStats(Frozen):
    """The size of a dataset."""

    partitions: int
    files: int
    rows: int
    bytes: int

    def __str__(self) -> str:
        return f"{self.partitions} partitions, {self.files} files, {self.rows} rows, {self.bytes} bytes"


def stats(cube: Storage, version: int | None = None) -> dict[str, DatasetStats]:
    """The size of every dataset of a version, by its metadata; no data file is opened."""
    datasets = read_version(cube, version).datasets
    return {each.name: stats_of(each, read_files(cube, each)) for each in datasets}


def stats_of(dataset: CubeDatasetMetadata, files: pa.Table) -> DatasetStats:
    """The size of some files of a dataset, given in the order of the partitions."""
    return DatasetStats(
        partitions=len(bounds_of(files, dataset.partition_columns)) - 1,
        files=files.num_rows,
        rows=pc.sum(files[ROWS]).as_py() or 0,
        bytes=pc.sum(files[BYTES]).as_py() or 0,
    )


def copy(
    source: Storage,
    target: Storage,
    *,
    name: str | None = None,
    datasets: Sequence[str] | None = None,
    overwrite: bool = False,
    mark: str = "",
) -> CubeMetadata:
    """Copy the newest version of a cube to another place, as one version there.

    Every file is held against its checksum on the way; a copy that misses one commits nothing.

    Parameters
    ----------
    source, target : Storage
        At the roots of the cubes.
    name : str, optional
        Of the copy; by default the cube's.
    datasets : sequence of str, optional
        By default all. The seed is one of them, unless the target has it.
    overwrite : bool
        Whether datasets that the target has may be replaced.
    mark : str
        Of the run that asks for it.

    Raises
    ------
    CubeError
        Both are one place, a dataset is missing, is there already, or the datasets are no cube together.
    VerificationError
        A file of the source is missing or damaged.
    """
    if source.is_same_place(target):
        raise CubeError(f"{source.uri()}: a cube is not copied onto itself; name another place")
    if name is not None:
        check_name("cube", name)
    # Said before anything is written, also before the pin is.
    _staying(read_version(source), newest(target), datasets, target, overwrite=overwrite)
    with pinning(source) as pin:
        given = CubeMetadata.from_json(pin.hold_newest(), source.uri())

        def work(write_id: str, base: CubeMetadata | None) -> Draft:
            chosen, stays = _staying(given, base, datasets, target, overwrite=overwrite)
            copied = [_copied(source, target, write_id, given.dataset(each)) for each in sorted(chosen)]
            return Draft(name or given.cube, given.roles, given.file_rows, [*stays, *copied])

        return commit(target, "copy", work, mark=mark)


def cleanup(
    cube: Storage, retention: Retention, *, now: datetime | None = None, dry_run: bool = True
) -> VacuumOutcome:
    """Remove old versions, the files that only these name, and what operations that died have left.

    Parameters
    ----------
    cube : Storage
        At the cube's root.
    retention : Retention
        The newest version always stays.
    now : datetime, optional
        The time to which ages are counted.
    dry_run : bool
        Only say what would be done.
    """
    return vacuum(cube, retention, _CubeVersions(), now=now or datetime.now(UTC), dry_run=dry_run)


class _CubeVersions:
    """What a vacuum has to know of the versions of a cube."""

    def version(self, data: bytes, where: str) -> CubeMetadata:
        return CubeMetadata.from_json(data, where)

    def needed(self, storage: Storage, metadata: Iterator[Any], folders: Collection[str]) -> NeededFiles:
        wanted = set(folders)
        chunks = [pa.array([], pa.string())]
        seen: set[str] = set()
        for version in metadata:
            for dataset in version.tables:
                if not wanted & {*dataset.writes}:
                    continue
                names = [dataset.table.path, *(path for index in dataset.indices for path in index.parts)]
                chunks.append(pa.array(names, pa.string()))
                if dataset.table.path not in seen:
                    seen.add(dataset.table.path)
                    chunks += read_files(storage, dataset)[PATH].chunks
        return NeededFiles(pa.chunked_array(chunks))


def _staying(
    given: CubeMetadata,
    base: CubeMetadata | None,
    datasets: Sequence[str] | None,
    target: Storage,
    *,
    overwrite: bool,
) -> tuple[list[str], list[CubeDatasetMetadata]]:
    """The datasets that a copy takes, and those of the target that it leaves; refused if they fit ill."""
    chosen = list(given.names if datasets is None else datasets)
    known_datasets(given, chosen)
    stays: list[CubeDatasetMetadata] = []
    if base is not None:
        twice = set(chosen) & set(base.names)
        if twice and not overwrite:
            raise CubeError(f"{target.uri()}: there is {listed(twice)} already; say overwrite to replace it")
        differs = [
            role
            for role in CubeColumns.model_fields
            if role != "index_columns" and getattr(given.roles, role) != getattr(base.roles, role)
        ]
        if differs:
            raise CubeError(
                f"{target.uri()}: the cube there has other {', '.join(differs)}; copy to another place, or "
                "delete it first"
            )
        stays = [each for each in base.datasets if each.name not in chosen]
    schemas = {each.name: each.to_arrow() for each in (*stays, *map(given.dataset, chosen))}
    check_datasets(given.roles, schemas)
    return chosen, stays


def _copied(
    source: Storage, target: Storage, write_id: str, dataset: CubeDatasetMetadata
) -> CubeDatasetMetadata:
    files = read_files(source, dataset)
    paths = files[PATH].to_pylist()

    def carry(path: str, digest: str) -> None:
        with read_errors(source, path):
            data = source.read(path)
        if hashlib.sha256(data).hexdigest() != digest:
            raise VerificationError(f"{source.uri(path)} is damaged (its SHA-256 differs); restore it")
        target.write(moved(path, write_id), data)

    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(carry, paths, files[SHA256].to_pylist()))
    there = pa.array([moved(path, write_id) for path in paths], pa.string())
    labels = labels_column(dataset.name)
    indices = {}
    for index in dataset.indices:
        whole = read_index(source, dataset, index.column)
        at = pc.index_in(whole[labels], value_set=files[PATH].combine_chunks())
        alive = pc.is_valid(at)
        values = whole[index.column].filter(alive)
        path = index_path(write_id, dataset.name, index.column, 0)
        table = pa.table(
            [values, there.take(at.filter(alive).combine_chunks())], names=[index.column, labels]
        )
        target.write(path, encoded(table, [index.column]))
        indices[index.column] = [path]
    carried = files.set_column(files.column_names.index(PATH), files.schema.field(PATH), there)
    return with_files(target, write_id, dataset, carried, indices)
