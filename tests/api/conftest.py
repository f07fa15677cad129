"""A survey of a few thousand stars, and catalogs that the steps of the DAG have made of it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.steps import in_process


@pytest.fixture
def stars(tmp_path: Path) -> pa.Table:
    """3,000 stars, which also lie in three Parquet files under `landing/`."""
    return in_process.write_source(tmp_path / "landing")
