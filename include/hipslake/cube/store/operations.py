"""Functions that write rows into a cube, given rows or those of a spec; each call makes one version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from hipslake.cube.cube_rules import check_cut, check_name
from hipslake.cube.dataset import listed
from hipslake.cube.store.building import VersionPlan, appended, build_version, built_anew, extended
from hipslake.cube.store.cube_commit import existing_cube, newest
from hipslake.cube.store.dataset_sources import source_now
from hipslake.cube.store.layout import cube_uri
from hipslake.cube.store.metadata import CubeMetadata
from hipslake.cube.store.offers import Offer, offer
from hipslake.cube.store.row_sources import source_of
from hipslake.cube.store.spec_changes import BuildMode, SpecBuild, build_from
from hipslake.engine.model import Engine
from hipslake.errors import CubeError
from hipslake.specs.cube_spec import CubeColumns, CubeSpec
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

    def plan(base: CubeMetadata | None) -> VersionPlan:
        changes = built_anew(base, offers, lambda each, _: offers[each], overwrite=overwrite)
        return VersionPlan(name, roles, file_rows, changes)

    return build_version(cube, "build", plan, engine)


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

    def plan(base: CubeMetadata | None) -> VersionPlan:
        base = existing_cube(base, cube)
        offers = _offers(base.roles, data, partition_columns or {})
        return VersionPlan.of(base, extended(base, offers, lambda each, _: offers[each], overwrite=overwrite))

    return build_version(cube, "extend", plan, engine)


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

    def plan(base: CubeMetadata | None) -> VersionPlan:
        base = existing_cube(base, cube)
        roles, cuts = base.roles, {each.name: each.partition_columns for each in base.datasets}
        return VersionPlan.of(
            base, appended(base, data, lambda name, like: _offered(roles, name, data[name], cuts[name], like))
        )

    return build_version(cube, "append", plan, engine)


def build_from_spec(
    spec: CubeSpec,
    warehouse: str,
    *,
    datasets: Sequence[str] | None = None,
    overwrite: bool = False,
    engine: Engine | None = None,
) -> CubeMetadata:
    """Build a cube of a warehouse, or extend it by some of its datasets.

    The versions of catalogs that are read cannot be vacuumed meanwhile.

    Parameters
    ----------
    spec : CubeSpec
    warehouse : str
        Its URI. Catalogs that the spec names without a `/` lie in it.
    datasets : sequence of str, optional
        By default all: a build. Without the seed, the cube is extended by these.
    overwrite : bool
        Whether what stands may be replaced.
    engine : Engine, optional
        Where the tasks run; by default in this process.

    Raises
    ------
    CubeError, CubeRowsError, FilterError
        As for `build`.
    """
    place = Storage.at(cube_uri(warehouse, spec.name))
    chosen = sorted(spec.datasets if datasets is None else datasets)
    builds = spec.seed in chosen or newest(place) is None
    target = SpecBuild(
        spec=spec,
        sources={name: source_now(spec.datasets[name], warehouse).source for name in chosen},
        warehouse=warehouse,
        mode=BuildMode.BUILD if builds else BuildMode.EXTEND,
        chosen=frozenset(chosen),
        overwrite=overwrite,
    )
    return build_from(place, target, engine)


def align_to_spec(spec: CubeSpec, warehouse: str, *, engine: Engine | None = None) -> CubeMetadata:
    """Bring a cube of a warehouse up to date with its spec and the present content of its sources.

    Datasets that are missing are added. Of those whose source has changed, the partitions that come out other
    than they stand are replaced; all other files stay. With nothing new there is no new version.

    Parameters
    ----------
    spec, warehouse, engine
        As for `build_from_spec`.
    """
    target = SpecBuild(
        spec=spec,
        sources={name: source_now(each, warehouse).source for name, each in spec.datasets.items()},
        warehouse=warehouse,
    )
    return build_from(Storage.at(cube_uri(warehouse, spec.name)), target, engine)


def _offers(
    roles: CubeColumns, data: Offered, partition_columns: Mapping[str, Sequence[str]]
) -> dict[str, Offer]:
    strange = set(partition_columns) - set(data)
    if strange:
        raise CubeError(
            f"partition_columns: {listed(strange)} is none of the datasets; those are {listed(data)}"
        )
    if not data:
        raise CubeError("no dataset is given; give one at least")
    for name in data:
        check_name("dataset", name)
    return {name: _offered(roles, name, rows, partition_columns.get(name)) for name, rows in data.items()}


def _offered(
    roles: CubeColumns,
    name: str,
    rows: Any,
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
