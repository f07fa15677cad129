"""A table to compact."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tables.compaction.compacting import stars
from tests.tables.sinking import Lake


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A table of 6 appends."""
    lake = Lake(tmp_path)
    for night in range(6):
        lake.sink(lake.spec(), stars(500, seed=night))
    return lake
