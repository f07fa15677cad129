"""Bytes of a row per column group, estimated by encoding a few rows as the write step encodes them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa

from hipslake.catalog.leaf import encode_leaf, write_options
from hipslake.catalog.placement import in_curve_order, place
from hipslake.catalog.schema import check_columns
from hipslake.catalog.validity import begins_of, validity_fields, with_interval
from hipslake.sources import Source, SourceFile, Split
from hipslake.specs.catalog_spec import CatalogSpec, ParquetSpec
from hipslake.steps.ingest.request import RowBytes

SAMPLE_ROWS = 16_384
_SAMPLE_BYTES = 64 << 20
_SOME_TIME = datetime(2026, 1, 1, tzinfo=UTC)  # in place of the start of the night


def sampled_row_bytes(
    source: Source, files: Sequence[SourceFile], schema: pa.Schema, spec: CatalogSpec
) -> dict[str, RowBytes]:
    """Estimate what a row weighs from good rows at the beginning, in the middle and near the end of a source.

    Depends on the files alone, not on how the work was split: a plan for thresholds in bytes rests on it.

    Parameters
    ----------
    source : Source
    files : sequence of SourceFile
        Without a row that is on the sky, nothing is weighed.
    schema : pyarrow.Schema
        The unified schema.
    spec : CatalogSpec
    """
    splits = source.splits(files)  # of the usual size, whatever the tasks read
    places = sorted({0, len(splits) // 2, len(splits) - 1})
    samples = [row_bytes(_sample(source, splits[at], schema, spec), schema, spec) for at in places]
    if not any(samples):
        every = (row_bytes(_sample(source, split, schema, spec), schema, spec) for split in splits)
        samples = [next((sample for sample in every if sample), {})]
    return mean_row_bytes(samples)


def _sample(source: Source, split: Split, schema: pa.Schema, spec: CatalogSpec) -> pa.RecordBatch:
    """The first rows of a split that are on the sky, as many as are wanted or as there are."""
    found: list[pa.RecordBatch] = []
    rows = 0
    for batch in source.read(split, schema, batch_rows=SAMPLE_ROWS):
        reasons = place(batch, spec.position).reasons
        good = batch if reasons is None else batch.take(pa.array(np.flatnonzero(reasons == 0)[:SAMPLE_ROWS]))
        found.append(good.slice(0, SAMPLE_ROWS - rows))
        rows += found[-1].num_rows
        if rows == SAMPLE_ROWS or sum(part.nbytes for part in found) > _SAMPLE_BYTES:
            break
    return pa.concat_batches(found) if found else pa.RecordBatch.from_pylist([], schema)


def row_bytes(rows: pa.RecordBatch, schema: pa.Schema, spec: CatalogSpec) -> dict[str, RowBytes]:
    """Estimate what some good rows weigh, per column group; nothing if there are none.

    The sample lies thinner on the sky than a leaf does, so that sorted columns compress worse: the estimate
    is rather too high than too low.
    """
    if rows.num_rows == 0:
        return {}
    schemas = check_columns(spec, schema)
    placed = place(rows, spec.position)
    if fields := validity_fields(spec, schema):
        begins = begins_of(rows, fields[0], spec.order_by, _SOME_TIME)
        rows = with_interval(rows, fields, begins, begins)
    _, groups = in_curve_order(rows, placed, position=spec.position, schemas=schemas, row_start=0)
    return {group: weight_of(batch, spec.parquet) for group, batch in groups.items()}


def weight_of(batch: pa.RecordBatch, parquet: ParquetSpec) -> RowBytes:
    """What some rows of a leaf weigh, at least one."""
    options = write_options(parquet, batch.schema)
    all_rows = encode_leaf([pa.Table.from_batches([batch])], batch.schema, options).size
    one_row = encode_leaf([pa.Table.from_batches([batch.slice(0, 1)])], batch.schema, options).size
    rows = batch.num_rows
    disk = (all_rows - one_row) / (rows - 1) if rows > 1 else float(one_row)
    return RowBytes(rows=rows, disk=max(disk, 0.0), memory=batch.nbytes / rows, footer=one_row)


def mean_row_bytes(samples: list[dict[str, RowBytes]]) -> dict[str, RowBytes]:
    """Mean over samples, weighted by their rows; the largest footer."""
    merged = {}
    for group in sorted({group for sample in samples for group in sample}):
        found = [sample[group] for sample in samples if group in sample]
        rows = sum(weight.rows for weight in found)
        merged[group] = RowBytes(
            rows=rows,
            disk=sum(weight.disk * weight.rows for weight in found) / rows,
            memory=sum(weight.memory * weight.rows for weight in found) / rows,
            footer=max(weight.footer for weight in found),
        )
    return merged
