"""What several tests of tables start from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hipslake.steps.sink import source_rows
from hipslake.tables.iceberg import commit as committing
from pyiceberg.catalog.sql import SqlCatalog

from tests.tables.faults import REAL
from tests.tables.sinking import Lake


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A warehouse without tables."""
    return Lake(tmp_path)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whether a commit stands is looked up once, not for minutes; afterwards the catalog answers again."""
    monkeypatch.setattr(committing, "_LOOKS", 1)
    yield
    SqlCatalog.commit_table = REAL  # type: ignore[method-assign]


@pytest.fixture
def many_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each small file is read by a task of its own."""
    monkeypatch.setattr(source_rows, "TASK_BYTES", 1)
    monkeypatch.setattr(source_rows, "_TASKS_PER_CORE", 100)
