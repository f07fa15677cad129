"""What several tests of Delta tables start from."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tables.delta.delta_lake import DeltaLake


@pytest.fixture
def delta(tmp_path: Path) -> DeltaLake:
    """A warehouse without tables."""
    return DeltaLake(tmp_path)
