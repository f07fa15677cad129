"""Gaia and Hipparcos, published without Spark: the catalogs of the demo."""

from __future__ import annotations

from pathlib import Path

import pytest
from hipslake.engine.this_process import ThisProcess
from hipslake.steps.ingest import histogram, write
from hipslake.steps.ingest.request import HistogramReport, HistogramRequest, WriteReport, WriteRequest
from hipslake.steps.report import perform
from hipslake.steps.run import RunFolder
from hipslake_demo.landing import write_landing

from tests.airflow_home import PROJECT
from tests.steps import in_process

SPECS = PROJECT / "include" / "specs"


def publish_real_catalogs(folder: Path) -> Path:
    """Land and ingest both; return the warehouse."""
    write_landing(folder / "landing")
    for name in ("gaia_dr3", "hipparcos_hats"):
        publish_real_catalog(name, folder / "landing", folder / "warehouse")
    return folder / "warehouse"


def publish_real_catalog(name: str, landing: Path, warehouse: Path) -> Path:
    """Ingest what has landed of one; return its folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HIPSLAKE_LANDING", str(landing))
        _ingest(in_process.start(warehouse, SPECS / "catalogs" / f"{name}.yaml", name))
    return warehouse / "catalogs" / name


def _ingest(folder: RunFolder) -> None:
    engine = ThisProcess()
    in_process.freeze(folder)
    counting, writing = HistogramRequest(run_uri=folder.uri), WriteRequest(run_uri=folder.uri)
    perform(lambda asked: histogram.run(asked, engine), counting, HistogramReport)
    in_process.make_plan(folder)
    perform(lambda asked: write.run(asked, engine), writing, WriteReport)
    for step in (in_process.make_margins, in_process.check, in_process.commit, in_process.show):
        step(folder)
