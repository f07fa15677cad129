"""The library where Airflow and Spark are not installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import hipslake
import numpy as np
import pyarrow as pa
import pytest
from hipslake.api import step_runner
from hipslake.errors import StepError

HERE = Path(__file__).parent
INCLUDE = str(Path(__file__).parents[2] / "include")


def printed(python: str, program: Path, *arguments: Path) -> str:
    environment = os.environ | {"PYTHONPATH": INCLUDE, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [python, program, *arguments], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_it_ingests_matches_verifies_and_exports(tmp_path: Path) -> None:
    found = printed(sys.executable, HERE / "without_platforms.py", tmp_path)
    assert json.loads(found) == list(range(2000))


def test_frames_of_polars_are_the_same_rows(peers_python: str) -> None:
    printed(peers_python, HERE / "peers_rows.py")


def test_what_is_for_spark_says_so_where_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_runner, "find_spec", lambda name: None)
    rows = pa.table({"ra": np.arange(9.0), "dec": np.arange(9.0)})
    spec = {"name": "stars", "position": {"ra": "ra", "dec": "dec"}}
    monkeypatch.setenv("HIPSLAKE_SPARK_ABOVE_BYTES", "1")
    with pytest.raises(StepError, match=r"pyspark is not installed.*spark=False"):
        hipslake.ingest(rows, spec=spec, warehouse=tmp_path)
    assert hipslake.ingest(rows, spec=spec, warehouse=tmp_path, spark=False).version == 1
    bigger = spec | {"spark_above_bytes": "1 GiB", "name": "others"}
    assert hipslake.ingest(rows, spec=bigger, warehouse=tmp_path).version == 1
