"""A cube built as its spec says: from catalogs and Parquet files."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from hipslake.cube.checks import check_index_columns
from hipslake.cube.store.catalog_rows import CatalogRows
from hipslake.cube.store.committing import newest
from hipslake.cube.store.layout import cube_uri
from hipslake.cube.store.metadata import CubeMetadata
from hipslake.cube.store.offers import Offer, offer
from hipslake.cube.store.operations import build, extend
from hipslake.cube.store.row_sources import ParquetRows, RowSource
from hipslake.engine.model import Engine
from hipslake.specs.cube import CubeDatasetSpec, CubeSpec
from hipslake.specs.environment import expand
from hipslake.storage import Storage
from hipslake.versions.pins import pinning


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
        As for `hipslake.cube.store.operations.build`.
    """
    place = Storage.at(cube_uri(warehouse, spec.name))
    chosen = spec.datasets if datasets is None else {name: spec.datasets[name] for name in datasets}
    with ExitStack() as held:
        data = {name: _offer(spec, name, each, warehouse, held) for name, each in chosen.items()}
        if set(chosen) == set(spec.datasets):
            check_index_columns(spec.roles, {name: each.schema for name, each in data.items()})
        if spec.seed in chosen or newest(place) is None:
            return build(
                place,
                spec.name,
                spec.roles,
                data,
                overwrite=overwrite,
                file_rows=spec.file_rows,
                engine=engine,
            )
        return extend(place, data, overwrite=overwrite, engine=engine)


def _offer(spec: CubeSpec, name: str, dataset: CubeDatasetSpec, warehouse: str, held: ExitStack) -> Offer:
    return offer(
        spec.roles,
        name,
        _source(dataset, warehouse, held),
        partition_columns=dataset.partition_columns,
        columns=dataset.columns,
        rename=dataset.rename,
        filters=dataset.filters,
    )


def _source(dataset: CubeDatasetSpec, warehouse: str, held: ExitStack) -> RowSource:
    if dataset.parquet is not None:
        return ParquetRows.at(expand(dataset.parquet))
    assert dataset.catalog is not None, "the spec has one or the other"
    named = "/" not in dataset.catalog
    uri = f"{warehouse.rstrip('/')}/catalogs/{dataset.catalog}" if named else expand(dataset.catalog)
    rows = CatalogRows.of(uri, dataset.version)
    if not uri.startswith(("http://", "https://")):  # nothing is written there, and so nothing vacuumed by us
        held.enter_context(pinning(Storage.at(rows.uri))).hold(rows.version)
    return rows
