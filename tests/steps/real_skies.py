"""Gaia and Hipparcos, published without Spark: the catalogs of the demo."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hipslake.engine.this_process import ThisProcess
from hipslake.steps.ingest import histogram, write
from hipslake.steps.ingest.request import HistogramReport, HistogramRequest, WriteReport, WriteRequest
from hipslake.steps.report import perform
from hipslake.steps.run import RunFolder
from hipslake_demo.landing import write_landing

from tests.airflow_home import PROJECT
from tests.once import made_once
from tests.pictures import draw_truly
from tests.steps import in_process

SPECS = PROJECT / "include" / "specs"
CATALOGS = ("gaia_dr3", "hipparcos", "hipparcos_hats")


def real_landing(factory: pytest.TempPathFactory) -> Path:
    """What has landed, as the demo lands it; of all tests of the run."""
    return made_once(factory, "landing", write_landing)


def real_catalogs(factory: pytest.TempPathFactory) -> Path:
    """The warehouse that holds the catalogs, of all tests of the run: they only read it."""
    landing = real_landing(factory)

    def publish(warehouse: Path) -> None:
        with (
            pytest.MonkeyPatch.context() as patch
        ):  # whoever asks first: with sky maps, as whole runs have them
            draw_truly(patch)
            for name in CATALOGS:
                publish_real_catalog(name, landing, warehouse)

    return made_once(factory, "real-catalogs", publish)


def copy_real_catalog(name: str, factory: pytest.TempPathFactory, warehouse: Path) -> Path:
    """A copy of one that a test may change, in a warehouse; its folder."""
    folder = warehouse / "catalogs" / name
    shutil.copytree(real_catalogs(factory) / "catalogs" / name, folder, symlinks=True)
    return folder


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
