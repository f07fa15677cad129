"""Gaia and Hipparcos, published in a folder: the catalogs of the demo, Hipparcos with a margin."""

from __future__ import annotations

from pathlib import Path

import pytest
from hipslake import Catalog
from hipslake.engine.this_process import ThisProcess
from hipslake.spark import histogram, partitions
from hipslake.steps.histogram import HistogramReport, HistogramRequest
from hipslake.steps.pointers import point_at_newest
from hipslake.steps.report import perform
from hipslake.steps.run import RunFolder
from hipslake.steps.write import WriteReport, WriteRequest
from hipslake.versions.log import VersionLog
from hipslake_demo.landing import write_landing

from tests.airflow_home import PROJECT
from tests.catalog.margins_by_hand import with_margin
from tests.steps import in_process

SPECS = PROJECT / "include" / "specs"
MARGIN_ARCSEC = 300.0  # Barnard's star moves 257 from 1991 to 2016


def publish_real_catalogs(folder: Path) -> Path:
    """Ingest both; return the warehouse."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HIPSLAKE_LANDING", str(folder / "landing"))
        write_landing(folder / "landing")
        warehouse = folder / "warehouse"
        for name in ("gaia_dr3", "hipparcos_hats"):
            _ingest(in_process.start(warehouse, SPECS / "catalogs" / f"{name}.yaml", name))
    add_margin(Catalog.open(warehouse / "catalogs" / "hipparcos_hats"), MARGIN_ARCSEC)
    return warehouse


def _ingest(folder: RunFolder) -> None:
    engine = ThisProcess()
    in_process.freeze(folder)
    counting, writing = HistogramRequest(run_uri=folder.uri), WriteRequest(run_uri=folder.uri)
    perform(lambda asked: histogram.run(asked, engine), counting, HistogramReport)
    in_process.make_plan(folder)
    perform(lambda asked: partitions.run(asked, engine), writing, WriteReport)
    for step in (in_process.check, in_process.commit, in_process.show):
        step(folder)


def add_margin(catalog: Catalog, radius_arcsec: float) -> None:
    """Publish the next version, which has a margin."""
    metadata = with_margin(catalog.storage, catalog.metadata, radius_arcsec)
    metadata = metadata.model_copy(update={"version": catalog.version + 1, "parent": catalog.version})
    log = VersionLog(catalog.storage)
    assert log.commit(metadata.version, metadata.to_json(), metadata.write_id) == "committed"
    point_at_newest(catalog.storage, hats_view=True)
