"""A source, a spec and a warehouse for tests of steps."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.steps import in_process
from tests.steps.nights import Survey
from tests.steps.sinks import Lake


@pytest.fixture
def source(tmp_path: Path) -> pa.Table:
    """3,000 stars in three Parquet files under `landing/`."""
    return in_process.write_source(tmp_path / "landing")


@pytest.fixture
def spec_file(tmp_path: Path, source: pa.Table) -> Path:
    """The spec of these files."""
    return in_process.write_spec(tmp_path / "stars.yaml", f"{tmp_path}/landing/*.parquet")


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """An empty warehouse."""
    return tmp_path / "warehouse"


@pytest.fixture
def root(warehouse: Path, spec_file: Path, tmp_path: Path) -> Path:
    """The catalog `stars` with two versions."""
    for run_id, threshold in (("first", "400 rows"), ("second", "200 rows")):
        in_process.write_spec(spec_file, f"{tmp_path}/landing/*.parquet", threshold=threshold)
        in_process.ingest(in_process.start(warehouse, spec_file, run_id))
    return warehouse / "catalogs" / "stars"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A warehouse with one table spec."""
    return Lake(tmp_path)


@pytest.fixture
def survey(tmp_path: Path) -> Survey:
    """A catalog that takes a night at a time; none yet."""
    return Survey(tmp_path)
