"""A whole deployment, which the tests of this folder share; it takes minutes to start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.agreeing import source
from tests.trust.workload import Workload, landed_deployment


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.cluster)


@pytest.fixture(scope="session")
def workload(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workload]:
    """A deployment on which Gaia has landed, and nothing has run yet."""
    with landed_deployment(tmp_path_factory) as (deployment, landing):
        yield Workload(deployment, source(landing, "gaia_dr3"))
