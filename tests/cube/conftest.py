"""A small cube on disk."""

from __future__ import annotations

from pathlib import Path

import pytest
from hipslake.cube.store.operations import build
from hipslake.storage.folder import Storage

from tests.cube.small_cube import MORE, ROLES, SEED


@pytest.fixture
def place(tmp_path: Path) -> Storage:
    """Where a cube may be built."""
    return Storage.at(tmp_path / "cube")


@pytest.fixture
def cube(place: Storage) -> Storage:
    """The small cube, built."""
    build(place, "c", ROLES, {"seed": SEED, "more": MORE})
    return place
