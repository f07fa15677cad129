"""Whole systems: Airflow with a database, and the environment of the peers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.steps.real_skies import copy_real_catalog, real_catalogs, real_landing
from tests.stores.proxy import Proxy, running_proxy
from tests.stores.s3_server import S3Server
from tests.system.dag_runs import Lake
from tests.system.runs import DEAD_AT_ONCE


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder, and those that need the peers."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.system)
            if "peers_python" in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.peers)


@pytest.fixture
def s3_proxy(s3_server: S3Server) -> Iterator[Proxy]:
    """A proxy before the server, by which only those reach it who are told to."""
    with running_proxy(s3_server.endpoint) as proxy:
        yield proxy


@pytest.fixture
def dead_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let runs whose process is gone count as dead when the next one looks."""
    for name, value in DEAD_AT_ONCE.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="session")
def landing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Gaia and Hipparcos, as the demo lands them."""
    return real_landing(tmp_path_factory)


@pytest.fixture(scope="session")
def plain_gaia(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of Gaia as a process of the tests ingests it, without Airflow and Spark."""
    return real_catalogs(tmp_path_factory) / "catalogs" / "gaia_dr3"


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory, landing: Path, airflow: Path) -> Lake:
    """The catalogs that ship: Gaia ingested by its DAG on local Spark, the others by a process of the tests.

    Tests of the jobs hold that Spark leaves what this process does.
    """
    place = tmp_path_factory.mktemp("lake")
    (place / "logs").mkdir()
    lake = Lake(landing, place / "warehouse", place / "logs")
    lake.ingest("gaia_dr3")
    for name in ("hipparcos", "hipparcos_hats"):
        copy_real_catalog(name, tmp_path_factory, lake.warehouse)
    return lake
