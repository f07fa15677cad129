"""Both halves of the write, without Spark between them: published is read, for any input and any cut."""

from __future__ import annotations

import random
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
from hipslake.spark.exchange import THROUGH_SHUFFLE, _map_task, _reduce_task
from hipslake.steps.ingest.write_tasks import WriteTask
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pyspark.accumulators import INT_ACCUMULATOR_PARAM, Accumulator

from tests.examples import examples
from tests.spark.running import Run, land, pixels, read_file, smallest_leaves
from tests.steps import in_process

PLACES = st.sampled_from(
    [(10.0, 20.0), (10.0, 20.0000001), (200.5, 90.0), (45.0, -90.0), (0.0, 0.0), (359.9, 1.0)]
)
ANYWHERE = st.tuples(st.floats(-360, 720), st.floats(-90, 90))
SKY = st.lists(st.one_of(PLACES, ANYWHERE), min_size=1, max_size=60)


@given(
    sky=SKY,
    threshold=st.integers(1, 20),
    target_bytes=st.sampled_from([1, 300, 1 << 20]),
    block_bytes=st.sampled_from([1, 200, 1 << 20]),
    row_group_rows=st.integers(1, 30),
    seed=st.integers(0, 99),
)
@settings(max_examples=examples(25))
def test_published_is_read_in_minimal_leaves(
    sky: list[tuple[float, float]],
    threshold: int,
    target_bytes: int,
    block_bytes: int,
    row_group_rows: int,
    seed: int,
) -> None:
    ra, dec = (np.array(values) for values in zip(*sky, strict=True))
    h29 = pixels(ra, dec)
    assume(np.unique(h29 >> 2 * (29 - 14), return_counts=True)[1].max() <= threshold)
    source = pa.table(
        {"id": range(len(ra)), "ra": ra, "dec": dec, "text": ["x" * (n % 5) for n in range(len(ra))]}
    )
    with TemporaryDirectory() as folder:
        place = Path(folder)
        land(place, source, files=2)
        run = Run.start(
            None,  # type: ignore[arg-type]
            place,
            threshold=f"{threshold} rows",
            mapping_order=14,
            parquet={"row_group_rows": row_group_rows},
        )
        in_process.count(run.folder)
        run.plan()
        write(run, target_bytes, block_bytes, seed)
        leaves = run.leaf_files()
        per_leaf = {leaf: read_file(path).num_rows for leaf, path in leaves.items()}
        assert per_leaf == smallest_leaves(h29, threshold)
        order = np.lexsort((np.arange(len(h29)), h29))  # along the curve, ties in source order
        expected = source.take(order).add_column(0, "_healpix_29", pa.array(h29[order]))
        along = sorted(leaves, key=lambda leaf: leaf[1] << 2 * (29 - leaf[0]))
        assert pa.concat_tables(read_file(leaves[leaf]) for leaf in along).equals(expected)


def write(run: Run, target_bytes: int, block_bytes: int, seed: int) -> None:
    """What Spark does between the halves: blocks arrive in any order, each at its target."""
    task = WriteTask(
        run.folder.uri,
        attempt="only",
        target_bytes=target_bytes,
        row_bytes=(("main", 30.0),),
        cores=1,
        written=Accumulator(0, 0, INT_ACCUMULATOR_PARAM),
    )
    numbers = pa.record_batch({"id": list(range(len(task.sources)))})
    blocks = list(_map_task(task.route, block_bytes, THROUGH_SHUFFLE)(iter([numbers])))
    random.Random(seed).shuffle(blocks)
    list(_reduce_task(task.write, THROUGH_SHUFFLE)(iter(blocks)))
