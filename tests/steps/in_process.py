"""The steps of a run by the engine of this process, without Spark."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hipslake.engine.this_process import ThisProcess
from hipslake.steps.append import request as append_step
from hipslake.steps.append import run as append_run
from hipslake.steps.compact import request as compact_step
from hipslake.steps.compact import run as compact_run
from hipslake.steps.delete import request as delete_step
from hipslake.steps.delete import run as delete_work
from hipslake.steps.index import request as index_step
from hipslake.steps.index import run as index_work
from hipslake.steps.ingest import histogram, inputs, plan, publish, resolve, write
from hipslake.steps.ingest.request import (
    HistogramReport,
    HistogramRequest,
    InputsReport,
    InputsRequest,
    PlanReport,
    PlanRequest,
    PublishReport,
    PublishRequest,
    ResolveReport,
    ResolveRequest,
    WriteReport,
    WriteRequest,
)
from hipslake.steps.join import resolve_crossmatch
from hipslake.steps.join import run as crossmatch_work
from hipslake.steps.join.request import (
    CrossmatchReport,
    CrossmatchRequest,
    ResolveCrossmatchReport,
    ResolveCrossmatchRequest,
)
from hipslake.steps.margin import request as margin_step
from hipslake.steps.margin import run as margin_work
from hipslake.steps.reassign import request as reassign_step
from hipslake.steps.reassign import run as reassign_work
from hipslake.steps.report import Report, perform
from hipslake.steps.run import RunFolder, run_uri
from hipslake.steps.upkeep import hats_view, verify
from hipslake.steps.upkeep.request import HatsViewReport, HatsViewRequest, VerifyReport, VerifyRequest

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
    request = ResolveRequest.model_validate(
        {
            "run_uri": run_uri(str(warehouse), "catalog_ingest__stars", run_id),
            "dag_id": "catalog_ingest__stars",
            "run_id": run_id,
            "warehouse": str(warehouse),
            "spec_file": str(spec_file),
        }
        | fields
    )
    perform(resolve.run, request, ResolveReport)
    return request.folder


def freeze(folder: RunFolder) -> InputsReport:
    """List the inputs."""
    return perform(inputs.run, InputsRequest(run_uri=folder.uri), InputsReport)


def count(folder: RunFolder, cores: int | None = None, *, keep_rows: bool = True) -> HistogramReport:
    """Count, by the engine that needs no Spark."""
    request = HistogramRequest(run_uri=folder.uri, keep_rows=keep_rows)
    return perform(lambda asked: histogram.run(asked, ThisProcess(cores)), request, HistogramReport)


def make_plan(folder: RunFolder) -> PlanReport:
    """Plan."""
    return perform(plan.run, PlanRequest(run_uri=folder.uri), PlanReport)


def write_leaves(folder: RunFolder) -> WriteReport:
    """Write the planned leaves, by the engine that needs no Spark."""
    request = WriteRequest(run_uri=folder.uri)
    return perform(lambda asked: write.run(asked, ThisProcess()), request, WriteReport)


def make_margins(folder: RunFolder, **knobs: object) -> margin_step.MarginReport:
    """Make margins, by the engine that needs no Spark."""
    request = margin_step.MarginRequest.model_validate({"run_uri": folder.uri} | knobs)
    return perform(lambda asked: margin_work.run(asked, ThisProcess()), request, margin_step.MarginReport)


def make_indices(folder: RunFolder, **knobs: object) -> index_step.BuildIndexReport:
    """Build indices, by the engine that needs no Spark."""
    request = index_step.BuildIndexRequest.model_validate({"run_uri": folder.uri} | knobs)
    return perform(lambda asked: index_work.run(asked, ThisProcess()), request, index_step.BuildIndexReport)


def check(folder: RunFolder) -> VerifyReport:
    """Verify."""
    return perform(
        lambda asked: verify.run(asked, ThisProcess()), VerifyRequest(run_uri=folder.uri), VerifyReport
    )


def commit(folder: RunFolder) -> PublishReport:
    """Publish."""
    return perform(publish.run, PublishRequest(run_uri=folder.uri), PublishReport)


def show(folder: RunFolder) -> HatsViewReport:
    """Show the version to HATS readers."""
    return perform(hats_view.run, HatsViewRequest(run_uri=folder.uri), HatsViewReport)


def start_match(warehouse: Path | str, spec_file: Path, run_id: str = "first", **fields: object) -> RunFolder:
    """Resolve the run of a cross-match."""
    dag = f"catalog_crossmatch__{spec_file.stem}"
    request = ResolveCrossmatchRequest.model_validate(
        {
            "run_uri": run_uri(str(warehouse), dag, run_id),
            "dag_id": dag,
            "run_id": run_id,
            "warehouse": str(warehouse),
            "spec_file": str(spec_file),
        }
        | fields
    )
    perform(resolve_crossmatch.run, request, ResolveCrossmatchReport)
    return request.folder


def match(folder: RunFolder, *, cores: int = 2, **knobs: int) -> CrossmatchReport:
    """Match, and write the leaves of the outcome."""
    engine = ThisProcess(cores)
    request = CrossmatchRequest(run_uri=folder.uri, **knobs)
    return perform(lambda asked: crossmatch_work.run(asked, engine), request, CrossmatchReport)


def publish_match(folder: RunFolder) -> list[Report]:
    """Every step of a cross-match after resolve."""
    return [step(folder) for step in (match, make_margins, make_indices, check, commit, show)]


def ingest(folder: RunFolder) -> list[Report]:
    """Every step after resolve."""
    return [
        step(folder) for step in (freeze, count, make_plan, write_leaves, make_margins, check, commit, show)
    ]


def append(folder: RunFolder, cores: int | None = None) -> append_step.AppendReport:
    """Append a counted run, by the engine that needs no Spark."""
    request = append_step.AppendRequest(run_uri=folder.uri)
    return perform(lambda asked: append_run.run(asked, ThisProcess(cores)), request, append_step.AppendReport)


def compact(folder: RunFolder, **knobs: int) -> compact_step.CompactReport:
    """Compact, by the engine that needs no Spark."""
    request = compact_step.CompactRequest(run_uri=folder.uri, **knobs)
    return perform(lambda asked: compact_run.run(asked, ThisProcess()), request, compact_step.CompactReport)


def delete(folder: RunFolder, **choice: object) -> delete_step.DeleteReport:
    """Delete rows of the newest version; `choice` are the fields of the request."""
    request = delete_step.DeleteRequest.model_validate({"run_uri": folder.uri} | choice)
    return perform(delete_work.run, request, delete_step.DeleteReport)


def reassign(folder: RunFolder, **choice: object) -> reassign_step.ReassignReport:
    """Give rows of the newest version to another object; `choice` are the fields of the request."""
    request = reassign_step.ReassignRequest.model_validate({"run_uri": folder.uri} | choice)
    return perform(reassign_work.run, request, reassign_step.ReassignReport)
