"""Fixtures for tests on the sphere; property tests without a clock, as machines are shared."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")


@pytest.fixture(scope="session")
def peers_python() -> str:
    """The interpreter of the environment that holds hats."""
    root = Path(__file__).parents[2]
    python = Path(os.environ.get("HIPSLAKE_PEERS_PYTHON") or root / ".venv-peers" / "bin" / "python")
    if not python.exists():
        pytest.skip(f"no peers' environment at {python}; set HIPSLAKE_PEERS_PYTHON to its interpreter")
    return str(python)
