"""A cube built, and kept, as its spec says: from catalogs, Iceberg tables and Parquet files."""

from __future__ import annotations

from collections.abc import Sequence

from hipslake.cube.store.assembling import assemble
from hipslake.cube.store.assembly import Assembly, BuildMode
from hipslake.cube.store.committing import newest
from hipslake.cube.store.layout import cube_uri
from hipslake.cube.store.metadata import CubeMetadata
from hipslake.cube.store.sources import source_now
from hipslake.engine.model import Engine
from hipslake.engine.this_process import ThisProcess
from hipslake.specs.cube_spec import CubeSpec
from hipslake.storage.folder import Storage


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
    chosen = sorted(spec.datasets if datasets is None else datasets)
    builds = spec.seed in chosen or newest(place) is None
    assembly = Assembly(
        spec=spec,
        sources={name: source_now(spec.datasets[name], warehouse).source for name in chosen},
        warehouse=warehouse,
        mode=BuildMode.BUILD if builds else BuildMode.EXTEND,
        chosen=frozenset(chosen),
        overwrite=overwrite,
    )
    return assemble(place, assembly, engine or ThisProcess())[0]


def align_to_spec(spec: CubeSpec, warehouse: str, *, engine: Engine | None = None) -> CubeMetadata:
    """Make a cube of a warehouse what its spec says of what its sources hold now.

    Datasets that are missing are added. Of those whose source has changed, the partitions that come out other
    than they stand are replaced; all other files stay. With nothing new there is no new version.

    Parameters
    ----------
    spec, warehouse, engine
        As for `build_from_spec`.
    """
    assembly = Assembly(
        spec=spec,
        sources={name: source_now(each, warehouse).source for name, each in spec.datasets.items()},
        warehouse=warehouse,
    )
    return assemble(Storage.at(cube_uri(warehouse, spec.name)), assembly, engine or ThisProcess())[0]
