"""Fixtures for tests of catalogs on disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.catalog.publishing import SHAPES, Published, publish


@pytest.fixture(scope="session")
def peers_python() -> str:
    """The interpreter of the environment that holds LSDB, hats and DuckDB."""
    root = Path(__file__).parents[2]
    python = Path(os.environ.get("HIPSLAKE_PEERS_PYTHON") or root / ".venv-peers" / "bin" / "python")
    if not python.exists():
        pytest.skip(f"no peers' environment at {python}; set HIPSLAKE_PEERS_PYTHON to its interpreter")
    return str(python)


@pytest.fixture(params=SHAPES)
def published(request: pytest.FixtureRequest, tmp_path: Path) -> Published:
    """A published catalog of 3,000 stars, in each layout, with one and with two column groups."""
    return publish(tmp_path, **SHAPES[request.param])


@pytest.fixture
def grouped(tmp_path: Path) -> Published:
    """A published catalog whose two column groups are split differently."""
    return publish(tmp_path, **SHAPES["hipscat, two groups"])


@pytest.fixture
def single(tmp_path: Path) -> Published:
    """A published catalog of layout hats with one column group."""
    return publish(tmp_path, **SHAPES["hats"])
