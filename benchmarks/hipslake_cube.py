"""hipslake's side of the cube benchmark: one task, in Spark or in this process.

python -m benchmarks.hipslake_cube --task full --engine spark --source S --cube C --output O --report R
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pandas  # noqa: F401
import pyarrow as pa
from hipslake import C, Cube
from hipslake.cube.store.operations import build
from hipslake.cube.store.row_sources import ParquetRows
from hipslake.engine.model import Engine
from hipslake.engine.this_process import ThisProcess
from hipslake.predicates.conditions import Conjunction
from hipslake.specs.cube_spec import CubeColumns
from hipslake.steps.cube import query_cube
from hipslake.steps.cube.query_request import CubeQueryRequest
from hipslake.storage.folder import Storage

from benchmarks import cube_task as task
from benchmarks.stopwatch import Stopwatch

HERE, SPARK = "here", "spark"
ROLES = CubeColumns(
    dimension_columns=task.DIMENSIONS,
    partition_columns=(task.PARTITION,),
    seed=task.SEED,
    index_columns=task.INDEXED,
    suppress_index_on=task.DIMENSIONS,
)


def start(options: Any) -> Callable[[Any, Stopwatch], None]:
    """Start Spark and its Python workers, if it is asked for."""
    engine: Engine = ThisProcess()
    frame: Callable[..., pa.Table] = lambda cube, **query: cube.query(**query)  # noqa: E731
    if options.engine == SPARK:
        from hipslake.spark.cube_frames import query_frame
        from hipslake.spark.engine import SparkEngine
        from hipslake.spark.session import open_session

        session = open_session("cube benchmark")
        engine = SparkEngine(session)
        engine.run(_nothing, tasks=engine.cores, result=_EMPTY)
        # Rows go to this process, as in anybody's session; the settings of jobs are for few large blocks.
        session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100000")
        frame = lambda cube, **query: query_frame(session, cube, **query).toArrow()  # noqa: E731

    def work(options: Any, watch: Stopwatch) -> None:
        if options.task == task.BUILD:
            data = {name: ParquetRows.at(f"{options.source}/{name}/*.parquet") for name in task.DATASETS}
            build(Storage.at(options.cube), "bench", ROLES, data, engine=engine)
            watch.lap("build")
            return
        query = dict(task.QUERIES[options.task])
        given = query.pop("conditions", {})
        if options.task not in task.IN_MEMORY:
            asked = {name: value for name, value in query.items() if name != "conditions"}
            request = CubeQueryRequest(
                run_uri=f"{options.report.parent}/query_run",
                warehouse=f"{options.report.parent}/warehouse",
                cube=str(options.cube),
                conditions=" & ".join(f"{name} == {value}" for name, value in given.items()),
                output=f"{options.output}/answer",
                **asked,
            )
            query_cube.run(request, engine)
            watch.lap("query")
            return
        conditions = Conjunction.of([C(name) == value for name, value in given.items()])
        answer = frame(Cube.open(options.cube), **query, conditions=conditions).to_pandas()
        watch.lap("query")
        answer.to_parquet(options.output / "answer.parquet")  # for the check of the rows; it is not timed

    return work


_EMPTY = pa.schema([("nothing", pa.int8())])


def _nothing(task: int) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch([pa.array([], pa.int8())], schema=_EMPTY)


if __name__ == "__main__":
    task.perform(start)
