"""Fixtures for tests of catalogs on disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def peers_python() -> str:
    """The interpreter of the environment that holds LSDB, hats and DuckDB."""
    root = Path(__file__).parents[2]
    python = Path(os.environ.get("HIPSLAKE_PEERS_PYTHON") or root / ".venv-peers" / "bin" / "python")
    if not python.exists():
        pytest.skip(f"no peers' environment at {python}; set HIPSLAKE_PEERS_PYTHON to its interpreter")
    return str(python)
