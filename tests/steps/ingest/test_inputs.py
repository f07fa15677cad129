"""Inputs: what a run is going to read, and what it says of names that match and are not read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.steps.in_process import freeze, start, write_source, write_spec


def test_hidden_files_and_folders_that_match_are_reported_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    landing = tmp_path / "landing"
    write_source(landing, rows=30, files=1)
    (landing / ".part-9.parquet").write_bytes(b"not whole yet")
    (landing / "x.parquet").mkdir()
    spec = write_spec(tmp_path / "stars.yaml", f"{landing}/*.parquet")
    report = freeze(start(tmp_path / "warehouse", spec))
    assert report.files == 1
    assert report.passed_over == (f"{landing}/.part-9.parquet", f"{landing}/x.parquet")
    assert report.summary()["passed_over_count"] == 2
    assert "2 names match and are not read" in caplog.text
