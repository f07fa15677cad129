"""Sinks of a catalog by intervals and by whole versions; what is refused, and what earlier runs left."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from hipslake.errors import (
    CatalogNotFoundError,
    FilterError,
    InputError,
    SchemaMismatchError,
    SpecError,
)
from hipslake.steps.run import RunFolder, Window
from hipslake.steps.sink.request import FrozenSink

from tests.steps import in_process
from tests.steps.nights import FIRST, Survey, night_rows
from tests.steps.sinks import COLUMNS, INCREMENTS, Lake, interval, landed, told


class TestIntervals:
    """Mode overwrite-interval."""

    TIMED = "source: {catalog: stars, rows: increment}\nmode: overwrite-interval\ninterval: seen\n"

    def night(self, survey: Survey, number: int, rows: int, seed: int = 0) -> None:
        table = night_rows(number, rows, seed)
        seconds = [FIRST + timedelta(days=number, seconds=second) for second in range(rows)]
        table = table.append_column("seen", pa.array(seconds, pa.timestamp("us", tz="UTC")))
        survey.land(number, table)
        survey.append(number)

    def test_a_night_replaces_its_interval_and_an_empty_one_removes_it(
        self, lake: Lake, survey: Survey
    ) -> None:
        lake.write_spec(self.TIMED)
        for number in (0, 1, 2):
            self.night(survey, number, 100)
        lake.run()
        self.night(survey, 1, 30, seed=4)
        assert lake.run().rows_updated == 100
        assert lake.rows(*COLUMNS).equals(landed(survey, 0, 1, 2).select(COLUMNS))
        self.night(survey, 1, 0)
        gone = lake.run()
        assert (gone.rows_out, gone.rows_updated, gone.commits) == (0, 30, 1)
        assert lake.rows(*COLUMNS).equals(landed(survey, 0, 2).select(COLUMNS))
        assert told(lake.resolve()).orders == ()

    def test_a_night_that_is_refused_keeps_no_other_out_and_is_told(self, lake: Lake, survey: Survey) -> None:
        lake.write_spec(self.TIMED)
        self.night(survey, 0, 100)
        survey.land(3, survey.landed[0])
        survey.append(3)
        self.night(survey, 4, 50)
        report = lake.run()
        assert lake.rows(*COLUMNS).equals(landed(survey, 0, 4).select(COLUMNS))
        assert (report.commits, report.rows_in_table, report.complete) == (2, 150, False)
        [refused] = report.refused
        assert (refused.start, refused.kind) == (FIRST + timedelta(days=3), "InputError")
        assert "rows or more of the source have a 'seen'" in refused.message
        assert "Of 3 intervals, 2 are in the table, and these are not: stars/2026-10-04" in report.text
        with pytest.raises(InputError, match="rows or more of the source have a 'seen'"):
            lake.run()  # it alone is missing
        self.night(survey, 3, 70)
        assert lake.run().complete
        assert lake.rows(*COLUMNS).equals(landed(survey, 0, 3, 4).select(COLUMNS))

    def test_an_interval_without_an_end_is_refused(self, lake: Lake, survey: Survey) -> None:
        lake.write_spec(self.TIMED)
        survey.land(0, night_rows(0).append_column("seen", pa.array([FIRST] * 400)))
        survey.runs += 1
        window = Window(start=FIRST, origin="params")
        folder = in_process.start(survey.warehouse, survey.spec, "open", window=window)
        in_process.freeze(folder)
        in_process.count(folder)
        in_process.append(folder)
        with pytest.raises(SpecError, match="does not know where the one from 2026-10-01"):
            lake.resolve()
        with pytest.raises(SpecError, match="does not know where the one from 2026-10-01"):
            lake.resolve(window=window)  # it would replace all that came later
        assert lake.run(window=interval(0, origin="params")).rows_out == 400


class TestWholes:
    """All rows of a version."""

    def test_a_new_version_takes_the_place_of_the_one_before(self, lake: Lake, tmp_path: Path) -> None:
        lake.write_spec('source: {catalog: stars}\npartition: ["healpix[1]"]\nsort: [mag]\n')
        spec = in_process.write_spec(tmp_path / "stars.yaml", f"{tmp_path}/landing/*.parquet")
        first = in_process.write_source(tmp_path / "landing")
        in_process.ingest(in_process.start(lake.warehouse, spec, "a"))
        assert lake.run().rows_out == 3000
        assert lake.rows("id", "mag").equals(first.select(["id", "mag"]))
        assert told(lake.resolve()).orders == ()
        second = in_process.write_source(tmp_path / "landing", rows=2000, seed=8)
        in_process.ingest(in_process.start(lake.warehouse, spec, "b"))
        assert lake.run().rows_updated == 3000
        assert lake.rows("id", "mag").equals(second.select(["id", "mag"]))

    def test_a_version_that_is_named_stays_the_one(self, lake: Lake, survey: Survey) -> None:
        lake.write_spec("source: {catalog: stars, version: 1}\n")
        survey.night(0)
        survey.night(1)
        lake.run()
        assert lake.rows(*COLUMNS).equals(landed(survey, 0))


class TestErrors:
    """What a user has done wrong is said before anything is written."""

    @pytest.mark.parametrize(
        ("text", "error", "says"),
        [
            ("source: {catalog: stras}\n", CatalogNotFoundError, "stras"),
            (
                "source: {catalog: stars, columns: [id, magg]}\n",
                SchemaMismatchError,
                "magg.*did you mean 'mag'",
            ),
            ('source: {catalog: stars, filters: "magg < 3"}\n', FilterError, "did you mean 'mag'"),
            (
                'source: {catalog: stars}\npartition: ["day(mag)"]\n',
                SpecError,
                "day is for dates and timestamps",
            ),
            ("source: {catalog: stars}\npartition: [nigth]\n", SchemaMismatchError, "no column 'nigth'"),
            ("source: {catalog: stars}\nsort: [nigth]\n", SchemaMismatchError, "no column 'nigth'"),
            ("source: {catalog: stars}\nmode: upsert\nkey: oid\n", SchemaMismatchError, "no column 'oid'"),
        ],
    )
    def test_mistakes_name_what_there_is(
        self, lake: Lake, survey: Survey, text: str, error: type[Exception], says: str
    ) -> None:
        survey.night(0)
        lake.write_spec(text)
        with pytest.raises(error, match=says):
            lake.run()

    def test_a_catalog_without_increments_is_sunk_whole(self, lake: Lake, tmp_path: Path) -> None:
        in_process.write_source(tmp_path / "landing")
        spec = in_process.write_spec(tmp_path / "stars.yaml", f"{tmp_path}/landing/*.parquet")
        in_process.ingest(in_process.start(lake.warehouse, spec, "a"))
        lake.write_spec(INCREMENTS.replace(", night", ""))
        with pytest.raises(SpecError, match=r"has no increments.*write 'rows: all'"):
            lake.resolve()


def test_old_run_folders_go_and_those_that_are_not_of_the_table_stay(lake: Lake, survey: Survey) -> None:
    lake.write_spec(INCREMENTS)
    survey.night(0)
    old, young = lake.resolve("old"), lake.resolve("young")
    run = old.read(RunFolder.RUN, FrozenSink)
    old.write(RunFolder.RUN, run.model_copy(update={"created": datetime.now(UTC) - timedelta(days=31)}))
    lake.resolve()
    assert not Path(old.uri).exists()
    assert Path(young.uri).exists()
    assert Path(lake.warehouse, "_runs", "catalog_ingest__stars").exists()


def test_what_a_dead_write_left_is_swept_by_the_next_run(lake: Lake, survey: Survey) -> None:
    lake.write_spec(INCREMENTS)
    survey.night(0)
    lake.run()
    root = Path(lake.table.location().removeprefix("file://"))
    dead = "20200101T0000-0123456789ab"
    for folder in (root / "data" / dead, root / "_writes" / dead):
        folder.mkdir(parents=True)
        (folder / "left.parquet").write_bytes(b"PAR1")
        os.utime(folder / "left.parquet", (time.time() - 1e6, time.time() - 1e6))
    lake.resolve()
    assert not (root / "data" / dead).exists()
    assert not (root / "_writes" / dead).exists()
