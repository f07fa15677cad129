"""One Spark session for the whole test run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that start Spark."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session on two local cores; its Python workers find the library and the tests."""
    from hipslake.spark.session import open_session

    paths = [str(ROOT / "include"), str(ROOT / "plugins"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("HIPSLAKE_SPARK_MASTER", "local[2]")
        environment.setenv("PYTHONPATH", os.pathsep.join(path for path in paths if path))
        session = open_session("tests")
        yield session
        session.stop()
