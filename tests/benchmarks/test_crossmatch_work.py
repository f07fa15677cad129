"""The program that the cross-match is held against: told of the right files, it finds the same pairs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.crossmatch import MARGIN, RADIUS, list_work
from benchmarks.scipy_crossmatch import match_home
from tests.steps.sources_of_objects import Lake


def test_the_program_finds_the_pairs_of_the_library_in_the_files_that_it_is_told(tmp_path: Path) -> None:
    lake, rng = Lake(tmp_path), np.random.default_rng(3)
    rows = 3000
    ra, dec = rng.normal(80, 0.5, rows), rng.normal(30, 0.5, rows)
    stars = pa.table({"source_id": np.arange(rows), "ra": ra, "dec": dec})
    moved = pa.table(
        {
            "source_id": np.arange(rows),
            "ra": ra + rng.normal(0, 1e-4, rows),
            "dec": dec + rng.normal(0, 1e-4, rows),
        }
    )
    parquet = {"row_group_rows": 100}
    left = lake.ingest("stars_a", stars, threshold="300 rows", parquet=parquet)
    right = lake.ingest("stars_b", moved, threshold="170 rows", parquet=parquet, margin={"arcsec": [MARGIN]})
    list_work(Path(lake.warehouse), tmp_path / "work.json")
    work = json.loads((tmp_path / "work.json").read_text())
    (tmp_path / "pairs").mkdir()
    found = sum(match_home((work, home, RADIUS, 1, tmp_path / "pairs")) for home in work["homes"])
    pairs = pq.read_table(sorted((tmp_path / "pairs").iterdir()), columns=["source_id", "source_id_stars_b"])
    expected = left.crossmatch(
        right, radius_arcsec=RADIUS, columns=["source_id"], other_columns=["source_id"]
    )
    assert found == pairs.num_rows == expected.num_rows > rows // 2
    assert pairs.sort_by("source_id").equals(
        expected.select(["source_id", "source_id_stars_b"]).sort_by("source_id")
    )
