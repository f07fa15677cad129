"""What a row weighs, per column group: found by encoding a few rows as they will be encoded."""

from __future__ import annotations

import pyarrow as pa

from hipslake.catalog.leaf import encode_leaf, write_options
from hipslake.catalog.rows import in_curve_order
from hipslake.catalog.schema import check_columns
from hipslake.specs.catalog import CatalogSpec
from hipslake.spark.split_rows import Chunk
from hipslake.steps.histogram import RowBytes

SAMPLE_ROWS = 16_384


def row_bytes(chunk: Chunk, schema: pa.Schema, spec: CatalogSpec) -> dict[str, RowBytes]:
    """Estimate what the rows of a chunk weigh, per column group; nothing if none of them is on the sky.

    The sample lies thinner on the sky than a leaf does, so that sorted columns compress worse: the estimate
    is rather too high than too low.
    """
    rows = min(chunk.rows.num_rows, SAMPLE_ROWS)
    placed = chunk.placed.head(rows)
    schemas = check_columns(spec, schema)
    keys, groups = in_curve_order(
        chunk.rows.slice(0, rows), placed, position=spec.position, schemas=schemas, row_start=0
    )
    if len(keys) == 0:
        return {}
    weights = {}
    for group, batch in groups.items():
        options = write_options(spec.parquet, batch.schema)
        all_rows = encode_leaf([pa.Table.from_batches([batch])], batch.schema, options).size
        one_row = encode_leaf([pa.Table.from_batches([batch.slice(0, 1)])], batch.schema, options).size
        disk = (all_rows - one_row) / (len(keys) - 1) if len(keys) > 1 else float(one_row)
        weights[group] = RowBytes(
            rows=len(keys), disk=max(disk, 0.0), memory=batch.nbytes / len(keys), footer=one_row
        )
    return weights


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
