"""Our side of the cross-match benchmark: the steps of `catalog_crossmatch`, one after the other.

python -m benchmarks.hipslake_crossmatch --warehouse W --output OUT --level 1 --report report.json
"""

from __future__ import annotations

import argparse
import json
import secrets
from pathlib import Path
from typing import Any

# What steps of this process import when they come to it, here before the clock of a step runs: see
# benchmarks/hipslake_ingest.py.
import astropy.io.fits
import astropy.table  # noqa: F401
import matplotlib.backends.backend_agg
import matplotlib.figure  # noqa: F401
import pandas  # noqa: F401
from hipslake.engine.this_process import ThisProcess
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.ingest import publish
from hipslake.steps.ingest.request import PublishReport, PublishRequest
from hipslake.steps.join import resolve_crossmatch
from hipslake.steps.join.request import (
    CrossmatchReport,
    CrossmatchRequest,
    ResolveCrossmatchReport,
    ResolveCrossmatchRequest,
)
from hipslake.steps.run import RunFolder, run_uri
from hipslake.steps.upkeep import hats_view, verify
from hipslake.steps.upkeep.request import HatsViewReport, HatsViewRequest, VerifyReport, VerifyRequest

from benchmarks.leaf_encoding import ROW_GROUP_ROWS
from benchmarks.our_steps import SESSION_PHASES, RunSteps

NAME = "a_x_b"
SPEC = """\
name: {name}
type: crossmatch
left: {{catalog: stars_a, columns: [source_id, ra, dec]}}
right: {{catalog: stars_b, columns: [source_id, ra, dec]}}
radius_arcsec: {radius}
parquet: {{compression: zstd, level: {level}, row_group_rows: {row_group_rows}, floats: byte_stream_split}}
"""


def match(warehouse: Path, output: Path, *, radius: float, level: int) -> dict[str, Any]:
    """Match the catalogs of a warehouse and publish the outcome there; return what every step took."""
    output.mkdir(parents=True)
    spec_file = output / f"{NAME}.yaml"
    spec_file.write_text(SPEC.format(name=NAME, radius=radius, level=level, row_group_rows=ROW_GROUP_ROWS))
    run = run_uri(str(warehouse), f"catalog_crossmatch__{NAME}", f"benchmark-{secrets.token_hex(4)}")
    steps = RunSteps(run, output)
    resolving = ResolveCrossmatchRequest(
        run_uri=run,
        dag_id=f"catalog_crossmatch__{NAME}",
        run_id="benchmark",
        warehouse=str(warehouse),
        spec_file=str(spec_file),
        force=True,
    )
    steps.here(resolve_crossmatch.run, resolving, ResolveCrossmatchReport)
    steps.in_spark(
        "crossmatch_catalogs",
        CrossmatchRequest(run_uri=run),
        CrossmatchReport,
    )
    steps.here(lambda asked: verify.run(asked, ThisProcess()), VerifyRequest(run_uri=run), VerifyReport)
    steps.here(publish.run, PublishRequest(run_uri=run), PublishReport)
    steps.here(hats_view.run, HatsViewRequest(run_uri=run), HatsViewReport)
    frozen = FrozenRun.of(RunFolder(run))
    up = {
        step: sum(seconds for phase, seconds in report.seconds.items() if phase not in SESSION_PHASES)
        for step, report in steps.reports.items()
        if step != "verify"
    }
    return {
        "seconds": sum(up.values()),
        "phases": up,
        "verify": steps.wall["verify"],
        "wall": steps.wall,
        "reported": {step: report.seconds for step, report in steps.reports.items()},
        "rows": steps.reports["crossmatch"].rows_out,
        "dataset": f"{frozen.catalog_uri}/{frozen.write_id}/main/dataset",
    }


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--warehouse", type=Path, required=True, help="with catalogs stars_a and stars_b")
    parser.add_argument("--output", type=Path, required=True, help="folder that does not exist yet")
    parser.add_argument("--report", type=Path, required=True)
    parser.add_argument("--radius", type=float, default=2.0, help="arcseconds")
    parser.add_argument("--level", type=int, default=1, help="zstd level")
    options: Any = parser.parse_args(argv)
    report = match(options.warehouse, options.output, radius=options.radius, level=options.level)
    options.report.write_text(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
