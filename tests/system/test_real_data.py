"""Gaia and Hipparcos, ingested as they ship: every reader sees the source's rows, in files of due size."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hipslake import Catalog

from tests.airflow_home import PROJECT
from tests.peers.running import run_peer
from tests.system.dag_runs import Lake
from tests.system.environment import environment

HERE = Path(__file__).parent
ROWS = {"gaia_dr3": 482_176, "hipparcos": 117_955, "hipparcos_hats": 117_955}
KIB = 1024


def program(script: str, lake: Lake) -> list[str]:
    """A script on the landing folder and the catalogs."""
    return [str(HERE / script), str(lake.landing), str(lake.warehouse / "catalogs")]


def assert_agree(printed: str) -> list[dict[str, Any]]:
    """What was read, as such a script prints it."""
    told: list[dict[str, Any]] = json.loads(printed.splitlines()[-1])
    for reading in told:
        assert reading["difference"] == "", reading
        assert reading["rows"] == ROWS[reading["catalog"]], reading
        assert reading["valid"], reading
        assert reading["columns"][0] == "_healpix_29", reading
    return told


def test_lsdb_hats_duckdb_and_pyarrow_read_the_rows_of_the_source(lake: Lake, peers_python: str) -> None:
    told = assert_agree(run_peer(peers_python, *program("peers_agree.py", lake)))
    readers = [(reading["reader"], reading["catalog"]) for reading in told]
    assert ("lsdb", "gaia_dr3") in readers
    assert ("lsdb", "hipparcos_hats") in readers
    assert len(told) == 10


def test_spark_reads_the_rows_of_the_source(lake: Lake) -> None:
    command = [sys.executable, *program("spark_agrees.py", lake)]
    done = subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(assert_agree(done.stdout)) == 4


@pytest.mark.parametrize("name", sorted(ROWS))
def test_a_published_catalog_is_verified_again_without_a_finding(lake: Lake, name: str) -> None:
    catalog = Catalog.open(lake.catalog(name))
    assert catalog.version == 1
    assert catalog.verify().ok
    assert catalog.read(columns=["_healpix_29"]).num_rows == ROWS[name]


def test_column_groups_join_to_the_rows_of_the_source(lake: Lake) -> None:
    found = Catalog.open(lake.catalog("hipparcos")).read().sort_by("HIP").to_pandas()
    whole = Catalog.open(lake.catalog("hipparcos_hats")).read().sort_by("HIP").to_pandas()
    shared = [name for name in whole.columns if name in found.columns]
    assert len(shared) == len(whole.columns) - 2  # the positions in degrees
    assert found[shared].equals(whole[shared])
    assert np.array_equal(whole["ra_icrs"], np.degrees(whole["RArad"]))


@pytest.mark.parametrize(
    ("name", "files", "most_rows", "most_bytes"),
    [
        ("gaia_dr3", "current/main/dataset/*/*/*.parquet", 20_000, None),
        ("hipparcos_hats", "current/main/dataset/*/*/*.parquet", 10_000, None),
        ("hipparcos", "current/Norder=*/Npix=*/main.parquet", None, 512 * KIB),
        ("hipparcos", "current/Norder=*/Npix=*/details.parquet", None, 384 * KIB),
    ],
)
def test_no_leaf_is_over_its_threshold(
    lake: Lake, name: str, files: str, most_rows: int | None, most_bytes: int | None
) -> None:
    leaves = sorted(lake.catalog(name).glob(files))
    assert len(leaves) > 12
    rows = [pq.read_metadata(leaf).num_rows for leaf in leaves]
    assert sum(rows) == ROWS[name]
    assert max(rows) <= (most_rows or ROWS[name])
    if most_bytes:
        assert max(leaf.stat().st_size for leaf in leaves) <= most_bytes


def test_two_groups_with_thresholds_of_their_own_have_trees_of_their_own(lake: Lake) -> None:
    catalog = Catalog.open(lake.catalog("hipparcos"))
    assert list(catalog.pixels_of("main")) != list(catalog.pixels_of("details"))


def test_the_credit_of_the_data_travels_with_it(lake: Lake) -> None:
    for name in ("metadata.json", "collection.properties", "current/main/hats.properties"):
        text = (lake.catalog("gaia_dr3") / name).read_text()
        assert "ESA/Gaia/DPAC" in text
        assert "CC BY-SA 3.0 IGO" in text


def test_nothing_is_written_outside_the_folders_of_the_run(lake: Lake) -> None:
    assert not (PROJECT / "spark-warehouse").exists()
    assert not (PROJECT / "metastore_db").exists()
