"""Whole systems: Airflow with a database, and the environment of the peers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.steps.real_skies import publish_real_catalog
from tests.system.dag_runs import Lake


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder, and those that need the peers."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.system)
            if "peers_python" in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.peers)


@pytest.fixture(scope="session")
def landing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Gaia and Hipparcos, as the demo lands them."""
    from hipslake_demo.landing import write_landing

    folder = tmp_path_factory.mktemp("landing")
    write_landing(folder)
    return folder


@pytest.fixture(scope="session")
def plain_gaia(tmp_path_factory: pytest.TempPathFactory, landing: Path) -> Path:
    """The folder of Gaia as this process ingests it, without Airflow and Spark."""
    return publish_real_catalog("gaia_dr3", landing, tmp_path_factory.mktemp("plain") / "warehouse")


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory, landing: Path, airflow: Path) -> Lake:
    """The catalogs that ship: Gaia ingested by its DAG on local Spark, the others by this process.

    Tests of the jobs hold that Spark leaves what this process does.
    """
    place = tmp_path_factory.mktemp("lake")
    (place / "logs").mkdir()
    lake = Lake(landing, place / "warehouse", place / "logs")
    lake.ingest("gaia_dr3")
    for name in ("hipparcos", "hipparcos_hats"):
        publish_real_catalog(name, landing, lake.warehouse)
    return lake
