"""Intervals that a program appends, and gives again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import hipslake
import pyarrow as pa
import pyarrow.csv
import pytest
from hipslake.errors import (
    EmptySourceError,
    InputError,
    SpecError,
)

from tests.api.published_files import leaves
from tests.api.stars_spec import SPEC
from tests.steps.nights import Survey, night_rows


class TestAppend:
    SPEC = SPEC | {"mode": "append", "threshold": "300 rows", "mapping_order": 4}

    @pytest.mark.sampled(2)
    @pytest.mark.parametrize("append", ["rewrite", "add_file"])
    def test_nights_are_what_the_dag_makes_of_them(self, tmp_path: Path, append: str) -> None:
        survey = Survey(tmp_path, more=f"append: {append}")
        for seed, number in enumerate((0, 2, 1, 2)):
            survey.night(number, seed=seed)
            start = datetime(2026, 10, 1, tzinfo=UTC) + timedelta(days=number)
            of_rows = hipslake.ingest(
                survey.landed[number],
                spec=self.SPEC | {"append": append},
                warehouse=tmp_path / "rows",
                interval=start,
                spark=False,
            )
            of_files = hipslake.ingest(
                spec=survey.spec,
                warehouse=tmp_path / "files",
                interval=(start, start + timedelta(days=1)),
                spark=False,
            )
            assert leaves(of_files) == leaves(of_rows) == leaves(survey.catalog)
        keys = [each.key for each in survey.catalog.increments]
        assert [each.key for each in of_rows.increments] == [each.key for each in of_files.increments] == keys
        of_rows.verify(all=True).raise_if_failed()

    def test_an_interval_that_is_given_again_replaces_its_rows(self, tmp_path: Path) -> None:
        for number, rows in ((1, 300), (2, 200), (1, 100)):
            catalog = hipslake.ingest(
                night_rows(number, rows),
                spec=self.SPEC,
                warehouse=tmp_path,
                interval=61000 + number,
                spark=False,
            )
        assert catalog.metadata.total_rows == 300
        assert catalog.version == 3

    def test_another_end_of_an_interval_is_another_increment(self, tmp_path: Path) -> None:
        rows, start = night_rows(1), datetime(2026, 10, 2, tzinfo=UTC)

        def end(days: float | None, **more: Any) -> tuple[int, str | None]:
            interval = start if days is None else (start, start + timedelta(days=days))
            catalog = hipslake.ingest(
                rows, spec=self.SPEC | more, warehouse=tmp_path, interval=interval, spark=False
            )
            assert [each.key for each in catalog.increments] == [start.isoformat()]
            assert catalog.metadata.total_rows == rows.num_rows
            return catalog.version, catalog.increments[0].end

        day, longer = (start + timedelta(days=1)).isoformat(), (start + timedelta(days=2)).isoformat()
        assert end(None) == end(1) == (1, day)
        assert end(2) == end(2) == (2, longer)
        assert end(1) == end(None) == (3, day)
        hipslake.Catalog.open(tmp_path / "catalogs" / "stars").verify(all=True).raise_if_failed()

    def test_files_are_not_added_under_two_intervals(self, tmp_path: Path, stars: pa.Table) -> None:
        files = f"{tmp_path}/landing/*.parquet"
        hipslake.ingest(files, spec=self.SPEC, warehouse=tmp_path, interval=61000, spark=False)
        with pytest.raises(InputError, match="holds 3 files of this run already"):
            hipslake.ingest(files, spec=self.SPEC, warehouse=tmp_path, interval=61001, spark=False)
        assert hipslake.Catalog.open(tmp_path / "catalogs/stars").versions() == [1]

    def test_it_needs_an_interval_and_mode_replace_has_none(self, tmp_path: Path, stars: pa.Table) -> None:
        with pytest.raises(SpecError, match="give one"):
            hipslake.ingest(stars, spec=self.SPEC, warehouse=tmp_path)
        with pytest.raises(SpecError, match="leave the interval out"):
            hipslake.ingest(stars, spec=SPEC, warehouse=tmp_path, interval=61000)

    def test_a_night_without_files_leaves_the_newest_version(self, tmp_path: Path) -> None:
        survey = Survey(tmp_path)
        with pytest.raises(EmptySourceError, match="the interval has no files"):
            hipslake.ingest(spec=survey.spec, warehouse=survey.warehouse, interval="2026-10-01")
        survey.night(0)
        catalog = hipslake.ingest(spec=survey.spec, warehouse=survey.warehouse, interval="2026-10-02")
        assert catalog.version == 1

    def test_no_rows_at_all_are_no_catalog(self, tmp_path: Path, stars: pa.Table) -> None:
        with pytest.raises(EmptySourceError, match="no row has come"):
            hipslake.ingest(
                stars.slice(0, 0), spec=self.SPEC, warehouse=tmp_path, interval=61000, spark=False
            )
        with pytest.raises(EmptySourceError, match="not one row"):
            hipslake.ingest(stars.slice(0, 0), spec=SPEC, warehouse=tmp_path, spark=False)
