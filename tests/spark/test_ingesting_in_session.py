"""`hipslake.ingest` and `hipslake.publish` in a Spark session of the program."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hipslake
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.api import step_runner
from hipslake.steps.registry import STEPS, Step

from tests.api.published_files import data_files
from tests.stores.s3_server import running_s3

if TYPE_CHECKING:
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


@pytest.mark.parametrize("more", [{}, {"column_groups": [{"name": "main"}], "layout": "hipscat"}])
def test_what_was_counted_here_is_written_in_spark_where_it_does_not_fit(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]
) -> None:
    rng = np.random.default_rng(6)
    rows = pa.table({"id": np.arange(5000), "ra": rng.uniform(0, 90, 5000), "dec": rng.uniform(0, 60, 5000)})
    here = hipslake.ingest(rows, spec=SPEC | more, warehouse=tmp_path / "here", spark=False)
    in_spark: list[str] = []
    in_session = step_runner.StepRunner._in_session

    def noted(runner: step_runner.StepRunner, step: Step) -> Any:
        in_spark.append(step.name)
        return in_session(runner, step)

    for name in ("histogram", "write"):
        monkeypatch.setitem(STEPS, name, replace(STEPS[name], spark_above_bytes=1))
    monkeypatch.setattr(step_runner.StepRunner, "_in_session", noted)
    monkeypatch.setattr(step_runner, "_has_a_session", lambda: False)
    monkeypatch.setattr(step_runner, "available_memory", lambda: 1000)
    there = hipslake.ingest(rows, spec=SPEC | more, warehouse=tmp_path / "there")
    assert in_spark == ["write"]
    assert data_files(there) == data_files(here)


PROGRAM = """
import sys
from dataclasses import replace
import hipslake
from hipslake.api import step_runner
from hipslake.steps.registry import STEPS

for name in ("histogram", "write"):
    STEPS[name] = replace(STEPS[name], spark_above_bytes=1)
step_runner.available_memory = lambda: 1000
catalog = hipslake.ingest(sys.argv[1], spec=SPEC, warehouse=sys.argv[2])
assert "pyspark" in sys.modules
assert not catalog.verify().problems
print(sorted(catalog.read()["id"].to_pylist()) == list(range(5000)))
"""


def test_executors_find_in_a_store_what_the_program_has_counted(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    rows = pa.table({"id": np.arange(5000), "ra": rng.uniform(0, 90, 5000), "dec": rng.uniform(0, 60, 5000)})
    pq.write_table(rows, tmp_path / "stars.parquet")
    with running_s3() as server, server.reached():
        arguments = [str(tmp_path / "stars.parquet"), f"s3://{server.make_bucket()}/warehouse"]
        environment = os.environ | {"HIPSLAKE_SPARK_MASTER": "local[2]"}
        ran = subprocess.run(
            [sys.executable, "-c", PROGRAM.replace("SPEC", repr(SPEC)), *arguments],
            env=environment,
            check=False,
            capture_output=True,
            text=True,
        )
    assert (ran.returncode, ran.stdout.strip()) == (0, "True"), ran.stderr[-3000:]
