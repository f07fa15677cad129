"""A whole run without Spark: the two Spark steps done in the plainest way, leaving what the jobs leave."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hipslake.catalog.layouts import layout_paths
from hipslake.catalog.leaf import encode_leaf, write_options
from hipslake.catalog.placement import in_curve_order, place
from hipslake.catalog.schema import check_columns
from hipslake.engine.this_process import ThisProcess
from hipslake.planning.pixel_histogram import Histogram, coarser_orders, count_pixels
from hipslake.sources import open_source
from hipslake.sphere.pixels import Pixel
from hipslake.steps.append import request as append_step
from hipslake.steps.append import run as append_run
from hipslake.steps.compact import request as compact_step
from hipslake.steps.compact import run as compact_run
from hipslake.steps.index import request as index_step
from hipslake.steps.index import run as index_work
from hipslake.steps.ingest import histogram as histogram_work
from hipslake.steps.ingest import histogram_request, inputs, plan, publish, resolve, write, write_request
from hipslake.steps.ingest.split_table import SplitTable
from hipslake.steps.join import crossmatch_request, resolve_crossmatch
from hipslake.steps.join import run as crossmatch_work
from hipslake.steps.margin import request as margin_step
from hipslake.steps.margin import run as margin_work
from hipslake.steps.report import Report, perform
from hipslake.steps.run import RunFolder, run_uri
from hipslake.steps.tables import read_table, write_table
from hipslake.steps.upkeep import hats_view, verify
from hipslake.storage.folder import Storage

SPEC = """\
name: stars
description: stars made up for tests
source:
  uri: {source}
  format: parquet
position: {{ra: ra, dec: dec}}
threshold: {threshold}
mapping_order: 6
layout: {layout}
{more}
"""


def write_source(folder: Path, *, rows: int = 3000, files: int = 3, seed: int = 5) -> pa.Table:
    """Write Parquet files of stars all over the sky, with a cluster; return all their rows."""
    rng = np.random.default_rng(seed)
    ra, dec = rng.uniform(0, 360, rows), np.degrees(np.arcsin(rng.uniform(-1, 1, rows)))
    ra[: rows // 3], dec[: rows // 3] = rng.normal(80, 1, rows // 3), rng.normal(30, 1, rows // 3)
    table = pa.table({"id": np.arange(rows), "ra": ra, "dec": dec, "mag": rng.normal(12, 2, rows)})
    folder.mkdir(parents=True, exist_ok=True)
    per_file = -(-rows // files)
    for number in range(files):
        pq.write_table(table.slice(number * per_file, per_file), folder / f"part-{number}.parquet")
    return table


def write_spec(
    path: Path, source: str, *, threshold: str = "200 rows", layout: str = "hats", more: str = ""
) -> Path:
    """Write the spec `stars`; `more` is further YAML."""
    path.write_text(SPEC.format(source=source, threshold=threshold, layout=layout, more=more))
    return path


def start(warehouse: Path | str, spec_file: Path, run_id: str = "first", **fields: object) -> RunFolder:
    """Resolve a run."""
    request = resolve.ResolveRequest.model_validate(
        {
            "run_uri": run_uri(str(warehouse), "catalog_ingest__stars", run_id),
            "dag_id": "catalog_ingest__stars",
            "run_id": run_id,
            "warehouse": str(warehouse),
            "spec_file": str(spec_file),
        }
        | fields
    )
    perform(resolve.run, request, resolve.ResolveReport)
    return request.folder


def freeze(folder: RunFolder) -> inputs.InputsReport:
    """List the inputs."""
    return perform(inputs.run, inputs.InputsRequest(run_uri=folder.uri), inputs.InputsReport)


def count(folder: RunFolder) -> histogram_request.HistogramReport:
    """Leave what the histogram job leaves."""
    return perform(
        _count, histogram_request.HistogramRequest(run_uri=folder.uri), histogram_request.HistogramReport
    )


def make_plan(folder: RunFolder) -> plan.PlanReport:
    """Plan."""
    return perform(plan.run, plan.PlanRequest(run_uri=folder.uri), plan.PlanReport)


def write_leaves(folder: RunFolder) -> write_request.WriteReport:
    """Leave what the write job leaves."""
    return perform(_write, write_request.WriteRequest(run_uri=folder.uri), write_request.WriteReport)


def write_by_tasks(folder: RunFolder) -> write_request.WriteReport:
    """The write step itself, by the engine that needs no Spark."""
    request = write_request.WriteRequest(run_uri=folder.uri)
    return perform(lambda asked: write.run(asked, ThisProcess()), request, write_request.WriteReport)


def make_margins(folder: RunFolder, **knobs: object) -> margin_step.MarginReport:
    """Make margins, by the engine that needs no Spark."""
    request = margin_step.MarginRequest.model_validate({"run_uri": folder.uri} | knobs)
    return perform(lambda asked: margin_work.run(asked, ThisProcess()), request, margin_step.MarginReport)


def make_indices(folder: RunFolder, **knobs: object) -> index_step.BuildIndexReport:
    """Build indices, by the engine that needs no Spark."""
    request = index_step.BuildIndexRequest.model_validate({"run_uri": folder.uri} | knobs)
    return perform(lambda asked: index_work.run(asked, ThisProcess()), request, index_step.BuildIndexReport)


def check(folder: RunFolder) -> verify.VerifyReport:
    """Verify."""
    return perform(
        lambda asked: verify.run(asked, ThisProcess()),
        verify.VerifyRequest(run_uri=folder.uri),
        verify.VerifyReport,
    )


def commit(folder: RunFolder) -> publish.PublishReport:
    """Publish."""
    return perform(publish.run, publish.PublishRequest(run_uri=folder.uri), publish.PublishReport)


def show(folder: RunFolder) -> hats_view.HatsViewReport:
    """Show the version to HATS readers."""
    return perform(hats_view.run, hats_view.HatsViewRequest(run_uri=folder.uri), hats_view.HatsViewReport)


def start_match(warehouse: Path | str, spec_file: Path, run_id: str = "first", **fields: object) -> RunFolder:
    """Resolve the run of a cross-match."""
    dag = f"catalog_crossmatch__{spec_file.stem}"
    request = resolve_crossmatch.ResolveCrossmatchRequest.model_validate(
        {
            "run_uri": run_uri(str(warehouse), dag, run_id),
            "dag_id": dag,
            "run_id": run_id,
            "warehouse": str(warehouse),
            "spec_file": str(spec_file),
        }
        | fields
    )
    perform(resolve_crossmatch.run, request, resolve_crossmatch.ResolveCrossmatchReport)
    return request.folder


def match(folder: RunFolder, *, cores: int = 2, **knobs: int) -> crossmatch_request.CrossmatchReport:
    """Match, and write the leaves of the outcome."""
    engine = ThisProcess(cores)
    request = crossmatch_request.CrossmatchRequest(run_uri=folder.uri, **knobs)
    return perform(
        lambda asked: crossmatch_work.run(asked, engine), request, crossmatch_request.CrossmatchReport
    )


def publish_match(folder: RunFolder) -> list[Report]:
    """Every step of a cross-match after resolve."""
    return [step(folder) for step in (match, make_margins, make_indices, check, commit, show)]


def ingest(folder: RunFolder) -> list[Report]:
    """Every step after resolve."""
    return [
        step(folder) for step in (freeze, count, make_plan, write_leaves, make_margins, check, commit, show)
    ]


def _rows(folder: RunFolder) -> tuple[pa.RecordBatch, SplitTable]:
    source, files = open_source(folder.run().spec.source), folder.inputs().files
    splits = tuple(source.splits(files))
    schema = source.schema(files)
    batches = [[*source.read(split, schema)] for split in splits]
    rows = np.array([sum(batch.num_rows for batch in found) for found in batches], np.int64)
    table = pa.Table.from_batches([batch for found in batches for batch in found], schema=schema)
    return table.combine_chunks().to_batches()[0], SplitTable(splits, rows, np.zeros_like(rows))


def _count(request: histogram_request.HistogramRequest) -> histogram_request.HistogramReport:
    folder, spec = request.folder, request.folder.run().spec
    rows, splits = _rows(folder)
    schemas = check_columns(spec, rows.schema)
    keys, groups = in_curve_order(
        rows, place(rows, spec.position), position=spec.position, schemas=schemas, row_start=0
    )
    weights = {}
    for group, batch in groups.items():
        options = write_options(spec.parquet, batch.schema)
        whole = encode_leaf([pa.Table.from_batches([batch])], batch.schema, options).size
        one = encode_leaf([pa.Table.from_batches([batch.slice(0, 1)])], batch.schema, options).size
        weights[group] = histogram_request.RowBytes(
            rows=len(keys), disk=(whole - one) / len(keys), memory=batch.nbytes / len(keys), footer=one
        )
    npix, counts = count_pixels(keys, spec.mapping_order)
    row_bytes = {group: weight.disk for group, weight in weights.items()}
    cells = Histogram.from_counts(spec.mapping_order, npix, counts)
    splits.write(folder.storage, RunFolder.SPLITS)
    folder.storage.write(RunFolder.SCHEMA, rows.schema.serialize().to_pybytes())
    write_table(folder.storage, RunFolder.HISTOGRAM, cells.to_table(row_bytes))
    write_table(folder.storage, RunFolder.PER_ORDER, coarser_orders(cells, row_bytes))
    return histogram_request.HistogramReport(rows_in=rows.num_rows, rows_out=len(keys), row_bytes=weights)


def _write(request: write_request.WriteRequest) -> write_request.WriteReport:
    folder, run = request.folder, request.folder.run()
    spec, catalog = run.spec, Storage.at(run.catalog_uri)
    rows, _ = _rows(folder)
    schemas = check_columns(spec, rows.schema)
    keys, groups = in_curve_order(
        rows, place(rows, spec.position), position=spec.position, schemas=schemas, row_start=0
    )
    files = []
    for leaf in read_table(folder.storage, RunFolder.PLAN).to_pylist():
        group, pixel = leaf["group"], Pixel(leaf["order"], leaf["npix"])
        first, last = np.searchsorted(keys, pixel.interval)
        table = pa.Table.from_batches([groups[group].slice(first, last - first)])
        data = bytes(
            encode_leaf([table], table.schema, write_options(spec.parquet, table.schema)).to_pybytes()
        )
        path = layout_paths(spec.layout).partition_path(run.write_id, group, pixel)
        catalog.write(path, data)
        files.append(
            {
                "group": group,
                "order": pixel.order,
                "npix": pixel.npix,
                "path": path,
                "rows": table.num_rows,
                "bytes": len(data),
                "sha256": hashlib.sha256(data).hexdigest(),
            }
        )
    write_table(folder.storage, RunFolder.PARTITIONS, pa.Table.from_pylist(files))
    return write_request.WriteReport(
        rows_in=rows.num_rows,
        rows_out=len(keys),
        bytes=sum(file["bytes"] for file in files),
        files=len(files),
    )


def count_by_tasks(folder: RunFolder) -> histogram_request.HistogramReport:
    """The histogram step itself, by the engine that needs no Spark."""
    request = histogram_request.HistogramRequest(run_uri=folder.uri)
    return perform(
        lambda asked: histogram_work.run(asked, ThisProcess()), request, histogram_request.HistogramReport
    )


def append(folder: RunFolder, cores: int | None = None) -> append_step.AppendReport:
    """Append a counted run, by the engine that needs no Spark."""
    request = append_step.AppendRequest(run_uri=folder.uri)
    return perform(lambda asked: append_run.run(asked, ThisProcess(cores)), request, append_step.AppendReport)


def compact(folder: RunFolder, **knobs: int) -> compact_step.CompactReport:
    """Compact, by the engine that needs no Spark."""
    request = compact_step.CompactRequest(run_uri=folder.uri, **knobs)
    return perform(lambda asked: compact_run.run(asked, ThisProcess()), request, compact_step.CompactReport)
