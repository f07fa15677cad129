"""The tasks of a join: some join stretches of the curve, others write the leaves of the outcome."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from hipslake.catalog.merging import keys_of
from hipslake.catalog.placement import icrs_and_index, place
from hipslake.catalog.schema import ICRS_COLUMNS, check_columns
from hipslake.engine.model import Counter
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.sphere.pixels import Pixel
from hipslake.steps.ingest.pixel_counts import PixelCounts, write_parts
from hipslake.steps.ingest.write_tasks import RESULT_SCHEMA, LeafWriter
from hipslake.steps.join.match_pieces import Pieces
from hipslake.steps.join.state import counts_path, load_join, load_outcome, only_group
from hipslake.steps.run import RunFolder

MATCHED = pa.schema([("task", pa.int64()), ("rows", pa.int64()), ("rows_near_borders", pa.int64())])
"""What a task that joins says; the last of left rows, the others of the outcome."""


@dataclass(frozen=True)
class JoinTask:
    """Joins the left rows of one stretch; small, so that it travels with every task.

    Attributes
    ----------
    run_uri, attempt : str
    done : Counter
        Left rows that were read so far.
    """

    run_uri: str
    attempt: str
    done: Counter

    def __call__(self, task: int) -> Iterator[pa.RecordBatch]:
        """Leave the outcome of a stretch, and its histogram; say how many rows there are."""
        state = load_join(self.run_uri, self.attempt)
        spec, stretches = state.spec, state.stretches
        counts, rows = PixelCounts(max(spec.mapping_order, spec.lowest_order)), 0
        schema = check_columns(spec, state.join.columns.schema)[only_group(spec)]
        stretch = int(stretches.start[task]), int(stretches.stop[task])
        batches = state.join.batches(*stretch)
        outcome = _with_icrs(spec, schema, batches)
        for batch in Pieces(state.catalog, self.attempt).write(task, schema, outcome):
            counts.add_rows(keys_of(batch))
            rows += batch.num_rows
        write_parts(RunFolder(self.run_uri).storage, counts_path(self.attempt, task), counts)
        self.done.add(int(stretches.rows[task]))
        borders = state.join.open_borders
        lacking = 0 if borders is None else borders.count(*stretch)
        yield pa.record_batch([[task], [rows], [lacking]], schema=MATCHED)


@dataclass(frozen=True)
class WriteOutcomeTask:
    """Writes a run of leaves from what was matched.

    Attributes
    ----------
    run_uri, attempt : str
    target_bytes, cores : int
        As for `load_outcome`.
    written : Counter
        Rows written so far.
    """

    run_uri: str
    attempt: str
    target_bytes: int
    cores: int
    written: Counter

    def __call__(self, task: int) -> Iterator[pa.RecordBatch]:
        """Write the leaves of a task; give a row for each file."""
        state = load_outcome(self.run_uri, self.attempt, self.target_bytes, self.cores)
        rows, plan = state.rows(), state.plan
        place = state.catalog, state.write_id, state.spec
        with LeafWriter(*place, plan.group, plan.schema, known=state.file_before) as writer:
            for leaf in plan.leaves_of(task):
                pixel = Pixel(int(plan.order[leaf]), int(plan.npix[leaf]))
                writer.write(pixel, rows.within(*pixel.interval))
                self.written.add(int(plan.rows[leaf]))
        yield pa.RecordBatch.from_pylist(writer.files, schema=RESULT_SCHEMA)


def _with_icrs(
    spec: CatalogSpec, schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The rows as leaves store them: with ICRS degrees, where the catalog adds them."""
    for batch in batches:
        columns = batch.columns
        if ICRS_COLUMNS[0] in schema.names and ICRS_COLUMNS[0] not in batch.schema.names:
            placed = place(batch, spec.position)
            columns += [
                pa.array(degrees) for degrees in icrs_and_index(placed.lon, placed.lat, spec.position)[:2]
            ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
