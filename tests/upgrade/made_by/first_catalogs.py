"""Two catalogs by the code of the first ingest, `stars` in two versions. Run by the code of its commit."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hipslake.spark import histogram, partitions
from hipslake.spark.session import open_session
from hipslake.steps import hats_view, inputs, plan, publish, resolve, verify
from hipslake.steps.histogram import HistogramReport, HistogramRequest
from hipslake.steps.report import perform
from hipslake.steps.run import run_uri
from hipslake.steps.write import WriteReport, WriteRequest

STARS = """\
name: stars
description: stars of the first ingest
attribution: nobody's
source: {uri: "${HIPSLAKE_LANDING}/stars/*.parquet", format: parquet}
position: {ra: ra, dec: dec, epoch: 2016.0}
threshold: 200 rows
mapping_order: 6
bad_rows: {policy: quarantine, max_fraction: 0.1}
"""
GROUPED = """\
name: grouped
source: {uri: "${HIPSLAKE_LANDING}/stars/*.parquet", format: parquet}
position: {ra: ra, dec: dec}
layout: hipscat
mapping_order: 6
bad_rows: {policy: quarantine, max_fraction: 0.1}
column_groups:
  - {name: main, columns: [id, ra, dec], threshold: 12 KiB}
  - {name: details, columns: "*", threshold: 300 rows}
"""


def rows() -> pa.Table:
    """Stars all over the sky, with a cluster, and two without a place."""
    rng = np.random.default_rng(5)
    ra, dec = rng.uniform(0, 360, 1500), np.degrees(np.arcsin(rng.uniform(-1, 1, 1500)))
    ra[:500], dec[:500] = rng.normal(80, 1, 500), rng.normal(30, 1, 500)
    dec[[7, 700]] = np.nan
    names = [f"star {number % 40}" if number % 9 else None for number in range(1500)]
    return pa.table(
        {"id": np.arange(1500), "ra": ra, "dec": dec, "mag": rng.normal(12, 2, 1500), "name": names}
    )


def main(place: Path) -> None:
    """Leave `warehouse/catalogs` and `landing` in a folder."""
    warehouse, landing = str(place / "warehouse"), place / "landing" / "stars"
    landing.mkdir(parents=True)
    table = rows()
    for number in range(3):
        pq.write_table(table.slice(500 * number, 500), landing / f"part-{number}.parquet")
    spark = open_session("upgrade")
    for name, text, run_id in (("stars", STARS, "a"), ("stars", STARS, "b"), ("grouped", GROUPED, "a")):
        spec = place / f"{name}.yaml"
        spec.write_text(text)
        dag = f"catalog_ingest__{name}"
        uri = run_uri(warehouse, dag, run_id)
        window = resolve.Window(
            start="2026-10-01T00:00:00Z", end="2026-10-02T00:00:00Z", origin="data_interval"
        )
        first = resolve.ResolveRequest(
            run_uri=uri,
            dag_id=dag,
            run_id=run_id,
            warehouse=warehouse,
            spec_file=str(spec),
            window=window,
            force=run_id == "b",
        )
        perform(resolve.run, first, resolve.ResolveReport)
        perform(inputs.run, inputs.InputsRequest(run_uri=uri), inputs.InputsReport)
        perform(lambda told: histogram.run(told, spark), HistogramRequest(run_uri=uri), HistogramReport)
        perform(plan.run, plan.PlanRequest(run_uri=uri), plan.PlanReport)
        perform(lambda told: partitions.run(told, spark), WriteRequest(run_uri=uri), WriteReport)
        perform(verify.run, verify.VerifyRequest(run_uri=uri), verify.VerifyReport)
        perform(publish.run, publish.PublishRequest(run_uri=uri), publish.PublishReport)
        perform(hats_view.run, hats_view.HatsViewRequest(run_uri=uri), hats_view.HatsViewReport)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
