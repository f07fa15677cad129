"""`hipslake.ingest` and `hipslake.publish` in a Spark session of the program."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import hipslake
import numpy as np
import pyarrow as pa

from tests.api.published_files import data_files

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import SparkSession

SPEC = {"name": "stars", "position": {"ra": "ra", "dec": "dec"}, "threshold": "300 rows", "mapping_order": 5}

DERIVED = {"drop": ["ra"], "derive": {"h": "ra / 15", "half": "id // 2", "far": "where(h > 3, 'yes', null)"}}


def test_a_session_leaves_the_same_bytes(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(5)
    rows = pa.table({"id": np.arange(2000), "ra": rng.uniform(0, 90, 2000), "dec": rng.uniform(0, 60, 2000)})
    spec = SPEC | {"margin": {"arcsec": [60]}, "index": ["id"]}
    here = hipslake.ingest(rows, spec=spec, warehouse=tmp_path / "here", spark=False)
    there = hipslake.ingest(rows, spec=spec, warehouse=tmp_path / "there", spark=spark)
    assert data_files(there) == data_files(here)
    shaped = spec | {"source": {"columns": DERIVED}, "index": ["half"], "position": {"ra": "h", "dec": "dec"}}
    shaped["position"]["unit"] = "hour"
    here_too = hipslake.ingest(rows, spec=shaped, warehouse=tmp_path / "here_too", spark=False)
    there_too = hipslake.ingest(rows, spec=shaped, warehouse=tmp_path / "there_too", spark=spark)
    assert data_files(there_too) == data_files(here_too)
    np.testing.assert_array_equal(there_too.read().sort_by("id")["h"], rows["ra"].to_numpy() / 15)
    # Above the size for Spark the session that the program has is taken, and stays open.
    monkeypatch.setenv("HIPSLAKE_SPARK_ABOVE_BYTES", "1")
    found = hipslake.ingest(rows, spec=spec, warehouse=tmp_path / "above")
    assert data_files(found) == data_files(here)
    assert spark.range(3).count() == 3
