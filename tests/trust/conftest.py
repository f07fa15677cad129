"""A whole deployment, which the tests of this folder share; it takes minutes to start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hipslake_cluster.postgres import find_postgres

from tests.system.agreeing import source
from tests.trust.deployment import BUCKET, running_deployment
from tests.trust.workload import Workload, write_specs


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.cluster)


@pytest.fixture(scope="session")
def workload(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workload]:
    """A deployment on which Gaia has landed, and nothing has run yet."""
    from hipslake_demo.landing import write_landing

    if find_postgres() is None:
        pytest.skip("there is no PostgreSQL; on Debian and Ubuntu, include/setup/setup.sh postgres gets it")
    specs, local = (tmp_path_factory.mktemp(name) for name in ("specs", "landing"))
    write_specs(specs)
    write_landing(local)
    with running_deployment(specs) as deployment:
        write_landing(f"s3://{BUCKET}/landing")
        yield Workload(deployment, source(local, "gaia_dr3"))
