"""A cube over a small survey, made in processes that may die, and what must hold of its folder then."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hipslake.api.cube import Cube
from hipslake.cube.store.cube_files import PATH, read_files
from hipslake.cube.store.upkeep import cleanup
from hipslake.engine.this_process import ThisProcess
from hipslake.specs.vacuum_spec import Retention
from hipslake.steps.cube import build_cube, resolve_cube
from hipslake.steps.cube.build_request import BuildCubeReport, BuildCubeRequest
from hipslake.steps.report import perform
from hipslake.steps.run import run_uri
from hipslake.storage.folder import Storage

from tests.system import dying

SPEC = """\
name: sky
dimension_columns: [id]
partition_columns: [pixel]
pixel_orders: {{pixel: 1}}
seed: stars
suppress_index_on: [id]
index_columns: [number]
conditions: number is not null
materialise: {{}}
datasets:
  stars: {{catalog: stars, columns: [_healpix_29, id, ra, dec, mag]}}
  known: {{parquet: "{place}/known/*.parquet", partition_columns: []}}
"""


def write_spec(place: Path, stars: pa.Table) -> Path:
    """The spec `sky`, and the table of what is known of some stars."""
    (place / "known").mkdir(exist_ok=True)
    ids = np.sort(stars["id"].to_numpy())[::3]
    pq.write_table(pa.table({"id": ids, "number": ids % 1000}), place / "known" / "a.parquet")
    path = place / "sky.yaml"
    path.write_text(SPEC.format(place=place))
    return path


def resolve(warehouse: Path, spec: Path, run_id: str) -> str:
    """Resolve a run; return its folder."""
    uri = run_uri(str(warehouse), "cube_align__sky", run_id)
    request = resolve_cube.ResolveCubeRequest(
        run_uri=uri, dag_id="cube_align__sky", run_id=run_id, warehouse=str(warehouse), spec_file=str(spec)
    )
    perform(resolve_cube.run, request, resolve_cube.ResolveCubeReport)
    return uri


def build(uri: str) -> BuildCubeReport:
    """The step that makes the version, in one thread, so that its moments are the same each time."""
    engine = ThisProcess(1)
    request = BuildCubeRequest(run_uri=uri)
    return perform(lambda asked: build_cube.run(asked, engine), request, BuildCubeReport)


def die_after_the_commit(uri: str, root: str) -> None:
    """Make the version, and die when it is committed, right before the pointer is told of it."""

    def die(change: dying.Change) -> None:
        if Path(change.path).parent == Path(root) and "metadata.json" in Path(change.path).name:
            os.kill(os.getpid(), signal.SIGKILL)

    dying.on_change(root, die)
    build(uri)


def rows_of(root: Path) -> pa.Table:
    """All rows of a cube."""
    return Cube.open(root).query()


def unnamed(root: Path) -> list[str]:
    """Files of a cube that no version names, once all that is dead was cleaned up."""
    storage = Storage.at(root)
    cleanup(storage, Retention.of(100, 1000.0), dry_run=False)
    named = set()
    for number in range(1, Cube.open(root).version + 1):
        metadata = Cube.open(root, number).metadata
        assert metadata.alignment is not None
        named.add(metadata.alignment.table.path)
        for dataset in metadata.tables:
            named |= {dataset.table.path, *read_files(storage, dataset)[PATH].to_pylist()}
            named |= {path for index in dataset.indices for path in index.parts}
    there = {entry.path for entry in storage.list(recursive=True) if entry.path.endswith(".parquet")}
    return sorted(there - named)
