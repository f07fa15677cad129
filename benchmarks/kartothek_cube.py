"""kartothek's side of the cube benchmark, for Python 3.8: one task, eager or with dask.

    python -m benchmarks.kartothek_cube --task full --engine eager --source S --cube C --output O --report R

With dask, two processes of one thread each work on tasks: one for each file of the source, or for each
partition of the cube; what a task finds is written there. So it is quickest, and takes the least memory.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import storefact
from kartothek.core.cube.conditions import C, Conjunction
from kartothek.core.cube.cube import Cube
from kartothek.io.dask.bag_cube import build_cube_from_bag, query_cube_bag
from kartothek.io.eager_cube import build_cube, query_cube

from benchmarks import cube_task as task
from benchmarks.stopwatch import Stopwatch

EAGER, DASK = "eager", "dask"
CUBE = Cube(
    dimension_columns=list(task.DIMENSIONS),
    partition_columns=[task.PARTITION],
    uuid_prefix="bench",
    seed_dataset=task.SEED,
    index_columns=list(task.INDEXED),
    suppress_index_on=list(task.DIMENSIONS),
)


def start(options: Any) -> Callable[[Any, Stopwatch], None]:
    """Start dask's workers, if they are asked for."""
    store = functools.partial(storefact.get_store_from_url, f"hfs://{options.cube}")
    query = dict(task.QUERIES.get(options.task, {}))
    asked = {
        "conditions": Conjunction([C(name) == value for name, value in query.get("conditions", {}).items()]),
        "payload_columns": query.get("columns"),
        "partition_by": query.get("partition_by"),
        "dimension_columns": query.get("dimension_columns"),
    }
    if options.engine == EAGER:
        return lambda options, watch: _eager(options, watch, store, asked)
    from distributed import Client, LocalCluster

    cluster = LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        dashboard_address=None,
        memory_limit=0,
        local_directory=str(options.report.parent / "dask"),
    )
    client = Client(cluster)
    client.run(lambda: __import__("kartothek.io.dask.bag_cube"))
    return lambda options, watch: _dask(options, watch, store, asked)


def _eager(options: Any, watch: Stopwatch, store: Any, asked: dict[str, Any]) -> None:
    if options.task == task.BUILD:
        data = {name: _whole(options.source, name) for name in task.DATASETS}
        watch.lap("read")
        build_cube(data=data, cube=CUBE, store=store)
        watch.lap("build")
        return
    found = query_cube(cube=CUBE, store=store, **asked)
    watch.lap("query")
    for number, frame in enumerate(found):
        frame.to_parquet(f"{options.output}/{number:05d}.parquet", compression="zstd")
    if options.task not in task.IN_MEMORY:
        watch.lap("write")


def _dask(options: Any, watch: Stopwatch, store: Any, asked: dict[str, Any]) -> None:
    import dask.bag as db

    if options.task == task.BUILD:
        parts = [(name, path) for name in task.DATASETS for path in task.files_of(options.source, name)]
        bag = db.from_sequence(parts, partition_size=1).map(_part)
        build_cube_from_bag(data=bag, cube=CUBE, store=store, ktk_cube_dataset_ids=task.DATASETS).compute()
        watch.lap("build")
        return
    if options.task in task.IN_MEMORY:
        (frame,) = query_cube_bag(cube=CUBE, store=store, **asked).compute()
        watch.lap("query")
        frame.to_parquet(f"{options.output}/answer.parquet", compression="zstd")
        return
    if asked["partition_by"] is None:  # a group, and so a task, for every partition of the cube
        asked["partition_by"] = task.PARTITION
    bag = query_cube_bag(cube=CUBE, store=store, **asked)
    bag.map(_write, output=str(options.output)).compute()
    watch.lap("query")


def _whole(source: Path, dataset: str) -> pd.DataFrame:
    return pd.concat([pd.read_parquet(path) for path in task.files_of(source, dataset)], ignore_index=True)


def _part(named: Any) -> dict[str, pd.DataFrame]:
    name, path = named
    return {name: pd.read_parquet(path)}


def _write(frame: pd.DataFrame, output: str) -> int:
    first = "-".join(str(frame[name].iloc[0]) for name in (task.PARTITION, task.DIMENSIONS[0]))
    group = frame["kind"].iloc[0] if "kind" in frame else ""
    frame.to_parquet(f"{output}/{first}-{group}.parquet", compression="zstd")
    return len(frame)


if __name__ == "__main__":
    task.perform(start)
