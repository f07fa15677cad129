"""What brings rows into a cube: build, extend, append. Each is one version.

Everything that can be told beforehand is checked before anything is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from hipslake.cube.checks import check_cut, check_datasets, check_name
from hipslake.cube.dataset import listed
from hipslake.cube.store.committing import Draft, commit, known_datasets, standing_cube
from hipslake.cube.store.datasets import index_columns, with_written
from hipslake.cube.store.files import read_files
from hipslake.cube.store.metadata import CubeDatasetMetadata, CubeMetadata
from hipslake.cube.store.offers import Offer, offer
from hipslake.cube.store.row_sources import source_of
from hipslake.cube.store.writing import write_offers
from hipslake.engine.model import Engine
from hipslake.engine.this_process import ThisProcess
from hipslake.errors import CubeError
from hipslake.specs.cube_spec import CubeColumns
from hipslake.storage.folder import Storage

FILE_ROWS = 4_000_000

Offered = Mapping[str, Any]
"""Per dataset: a `pyarrow.Table`, a pandas frame, a `RowSource`, or an `Offer`."""


def build(
    cube: Storage,
    name: str,
    roles: CubeColumns,
    data: Offered,
    *,
    partition_columns: Mapping[str, Sequence[str]] | None = None,
    overwrite: bool = False,
    file_rows: int = FILE_ROWS,
    engine: Engine | None = None,
) -> CubeMetadata:
    """Build a cube of some datasets, the seed among them.

    Parameters
    ----------
    cube : Storage
        At the cube's root.
    name : str
    roles : CubeColumns
    data : mapping of str to rows
        Per dataset: a table, a pandas frame, a `RowSource`, or an `Offer`.
    partition_columns : mapping of str to sequence of str, optional
        Of datasets that are not cut by all partition columns of the cube.
    overwrite : bool
        Whether a cube that stands here may be replaced. All of its datasets must be given again.
    file_rows : int
        The most rows of one file.
    engine : Engine, optional
        Where the tasks run; by default in this process.

    Raises
    ------
    CubeError
        The datasets are no cube together, or there is one already.
    CubeRowsError
        The rows break the cube's rules.
    """
    check_name("cube", name)
    offers = _offers(roles, data, partition_columns or {})
    schemas = {each.name: each.schema for each in offers}
    check_datasets(roles, schemas)

    def work(write_id: str, base: CubeMetadata | None) -> Draft:
        if base is not None and not overwrite:
            raise CubeError(
                f"{cube.uri()}: cube {base.cube!r} is built here already, as version {base.version}; extend "
                "it, append to it, or say overwrite"
            )
        left = set() if base is None else set(base.names) - set(schemas)
        if left:
            raise CubeError(
                f"{cube.uri()}: {listed(left)} of the cube that stands here is not given again; give all "
                "datasets, or delete these first"
            )
        return Draft(name, roles, file_rows, _written(cube, write_id, roles, offers, engine, file_rows, {}))

    return commit(cube, "build", work)


def extend(
    cube: Storage,
    data: Offered,
    *,
    partition_columns: Mapping[str, Sequence[str]] | None = None,
    overwrite: bool = False,
    engine: Engine | None = None,
) -> CubeMetadata:
    """Add datasets to a cube, or replace some; never the seed.

    Parameters
    ----------
    cube, data, partition_columns, engine
        As for `build`.
    overwrite : bool
        Whether datasets that the cube has may be replaced.

    Raises
    ------
    CubeError
        The seed is given, a dataset is there already, or the datasets are no cube together.
    CubeRowsError
        The rows break the cube's rules.
    """

    def work(write_id: str, base: CubeMetadata | None) -> Draft:
        base = standing_cube(base, cube)
        if base.roles.seed in data:
            raise CubeError(
                f"the seed {base.roles.seed!r} is not extended, as it says which cells there are; build the "
                "cube again, or append to it"
            )
        twice = set(data) & set(base.names)
        if twice and not overwrite:
            raise CubeError(
                f"cube {base.cube!r} has {listed(twice)} already; append to it, or say overwrite to replace "
                "it"
            )
        offers = _offers(base.roles, data, partition_columns or {})
        stays = [each for each in base.datasets if each.name not in data]
        schemas = {each.name: each.to_arrow() for each in stays} | {each.name: each.schema for each in offers}
        check_datasets(base.roles, schemas)
        added = _written(cube, write_id, base.roles, offers, engine, base.file_rows, {})
        return Draft(base.cube, base.roles, base.file_rows, _sorted([*stays, *added]))

    return commit(cube, "extend", work)


def append(cube: Storage, data: Offered, *, engine: Engine | None = None) -> CubeMetadata:
    """Append rows to datasets that a cube has: the last write wins, cell by cell.

    A cell that the dataset lacks is added. Of a cell that it has, the row is replaced as a whole. Files that
    hold no replaced cell stay as they are.

    Parameters
    ----------
    cube, data, engine
        As for `build`.

    Raises
    ------
    CubeError
        The cube has no such dataset.
    CubeRowsError
        The rows have other columns than the dataset, or break the cube's rules.
    """

    def work(write_id: str, base: CubeMetadata | None) -> Draft:
        base = standing_cube(base, cube)
        known_datasets(base, list(data))
        before = {each.name: each for each in base.datasets}
        offers = [
            _offered(
                base.roles,
                name,
                data[name],
                partition_columns=before[name].partition_columns,
                like=before[name].to_arrow(),
            )
            for name in sorted(data)
        ]
        grown = {name: before[name] for name in data}
        written = _written(cube, write_id, base.roles, offers, engine, base.file_rows, grown)
        stays = [each for each in base.datasets if each.name not in data]
        return Draft(base.cube, base.roles, base.file_rows, _sorted([*stays, *written]))

    return commit(cube, "append", work)


def _offers(roles: CubeColumns, data: Offered, partition_columns: Mapping[str, Sequence[str]]) -> list[Offer]:
    strange = set(partition_columns) - set(data)
    if strange:
        raise CubeError(
            f"partition_columns: {listed(strange)} is none of the datasets; those are {listed(data)}"
        )
    if not data:
        raise CubeError("no dataset is given; give one at least")
    for name in data:
        check_name("dataset", name)
    return [
        _offered(roles, name, data[name], partition_columns=partition_columns.get(name))
        for name in sorted(data)
    ]


def _offered(
    roles: CubeColumns,
    name: str,
    rows: Any,
    *,
    partition_columns: Sequence[str] | None = None,
    like: pa.Schema | None = None,
) -> Offer:
    if isinstance(rows, Offer):
        if like is None and partition_columns is None:
            return rows
        rows = rows.source
    source = source_of(rows, name)
    if partition_columns is not None:
        check_cut(roles, name, partition_columns)
    return offer(roles, name, source, partition_columns=partition_columns, like=like)


def _written(
    cube: Storage,
    write_id: str,
    roles: CubeColumns,
    offers: Sequence[Offer],
    engine: Engine | None,
    file_rows: int,
    before: Mapping[str, CubeDatasetMetadata],
) -> list[CubeDatasetMetadata]:
    indexed = {each.name: index_columns(roles, each.name, each.schema) for each in offers}
    done = write_offers(
        cube,
        write_id,
        offers,
        engine or ThisProcess(),
        standing={name: read_files(cube, each) for name, each in before.items()},
        indexed=indexed,
        file_rows=file_rows,
    )
    return [
        with_written(cube, write_id, number, each, done, indexed[each.name], before.get(each.name))
        for number, each in enumerate(offers)
    ]


def _sorted(datasets: Sequence[CubeDatasetMetadata]) -> list[CubeDatasetMetadata]:
    return sorted(datasets, key=lambda each: each.name)
