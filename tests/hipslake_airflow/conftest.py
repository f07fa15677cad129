"""Airflow with a database for tests of operators, sensors and hooks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import airflow_home


@pytest.fixture(scope="session")
def airflow() -> Path:
    """The Airflow home, with its database made."""
    airflow_home.migrate()
    return airflow_home.HOME
