"""The steps of a sink from a catalog: what a table lacks is what comes, whenever it was published."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake import Catalog
from hipslake.errors import (
    CatalogNotFoundError,
    FilterError,
    InputError,
    SchemaMismatchError,
    SourceNotFoundError,
    SpecError,
)
from hipslake.spark.sink_size import bytes_to_sink
from hipslake.steps.run import RunFolder, Window
from hipslake.steps.sink import FrozenSink
from hipslake.tables.data_files import live_files

from tests.steps import in_process
from tests.steps.nights import FIRST, Survey, night_rows
from tests.steps.sinks import Lake, told

COLUMNS = ("id", "ra", "dec", "mag", "night")
INCREMENTS = 'source: {catalog: stars, rows: increment}\npartition: ["healpix[2]", night]\n'


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


@pytest.fixture
def survey(tmp_path: Path) -> Survey:
    return Survey(tmp_path)


def landed(survey: Survey, *numbers: int) -> pa.Table:
    """What the nights brought."""
    return pa.concat_tables([survey.landed[number] for number in numbers]).sort_by("id").combine_chunks()


def interval(number: int, nights: int = 1, origin: str = "data_interval") -> Window:
    start = FIRST + timedelta(days=number)
    return Window.model_validate({"start": start, "end": start + timedelta(days=nights), "origin": origin})


class TestNights:
    """Increments of a catalog."""

    def test_each_run_takes_up_what_is_missing_once(self, lake: Lake, survey: Survey) -> None:
        lake.write_spec(INCREMENTS)
        survey.night(0)
        first = lake.run()
        assert (first.commits, first.rows_out, first.created) == (1, 400, True)
        assert first.files == first.expected_files == first.intervals[0].expected_files
        survey.night(2)  # two nights come in one run, out of order, in the order of time
        survey.night(1)
        second = lake.run()
        assert [each.start for each in second.intervals] == [FIRST + timedelta(days=n) for n in (1, 2)]
        assert [each.end for each in second.intervals] == [FIRST + timedelta(days=n) for n in (2, 3)]
        assert lake.rows(*COLUMNS).equals(landed(survey, 0, 1, 2))
        third = lake.resolve()
        assert told(third).orders == ()
        assert "The table has what version 3 of stars holds" in told(third).why_none
        assert lake.sink(third).snapshot_id is None
        assert lake.snapshots() == 3

    def test_a_night_that_comes_late_is_taken_up_by_the_next_run(self, lake: Lake, survey: Survey) -> None:
        lake.write_spec(INCREMENTS)
        survey.night(0)
        lake.run(window=interval(0))
        early = lake.resolve(window=interval(1))  # before the ingest of its night
        assert told(early).orders == ()
        survey.night(1)
        survey.night(2)
        later = lake.run(window=interval(1))
        assert later.commits == 1  # not what comes after its interval
        assert lake.run(window=interval(3)).commits == 1
        assert lake.rows(*COLUMNS).equals(landed(survey, 0, 1, 2))

    def test_a_night_that_was_ingested_anew_takes_the_place_of_its_first_rows(
        self, lake: Lake, survey: Survey
    ) -> None:
        lake.write_spec(INCREMENTS)
        for number in (0, 1, 2):
            survey.night(number)
        lake.run()
        survey.night(1, rows=150, seed=9)
        again = lake.run()
        assert [each.start for each in again.intervals] == [FIRST + timedelta(days=1)]
        assert again.rows_updated == 400
        assert lake.rows(*COLUMNS).equals(landed(survey, 0, 1, 2))

    def test_a_compaction_of_the_catalog_is_nothing_to_sink(self, lake: Lake, survey: Survey) -> None:
        survey.more = "append: add_file"
        lake.write_spec(INCREMENTS)
        for number in (0, 1):
            survey.night(number)
        lake.run()
        assert survey.compact(min_files=2).version == 3
        assert told(lake.resolve()).orders == ()

    def test_force_sinks_a_window_again_and_leaves_the_table_as_it_was(
        self, lake: Lake, survey: Survey
    ) -> None:
        lake.write_spec(INCREMENTS)
        for number in (0, 1, 2):
            survey.night(number)
        lake.run()
        asked = interval(1, origin="params")
        assert told(lake.resolve(window=asked)).orders == ()
        forced = lake.run(window=asked, force=True)
        assert [each.start for each in forced.intervals] == [FIRST + timedelta(days=1)]
        assert (forced.rows_out, forced.rows_updated) == (400, 400)
        assert lake.rows(*COLUMNS).equals(landed(survey, 0, 1, 2))

    def test_an_edit_of_the_spec_is_for_nights_to_come(self, lake: Lake, survey: Survey) -> None:
        lake.write_spec(INCREMENTS)
        survey.night(0)
        lake.run()
        lake.write_spec(INCREMENTS.replace("rows: increment", 'rows: increment, filters: "mag < 18"'))
        survey.night(1)
        assert lake.run().commits == 1
        night = lake.rows(*COLUMNS)
        assert night.num_rows == 400 + sum(mag < 18 for mag in survey.landed[1]["mag"].to_pylist())

    def test_an_upsert_takes_nights_one_after_the_other(self, lake: Lake, survey: Survey) -> None:
        """The same objects in two nights of one run are no duplicates: the later night has the last word."""
        lake.write_spec(INCREMENTS + "mode: upsert\nkey: id\n")
        tables = [night_rows(number).set_column(0, "id", pa.array(range(400))) for number in (0, 1)]
        for number, table in enumerate(tables):
            survey.land(number, table)
            survey.append(number)
        report = lake.run()
        assert (report.commits, report.rows_updated) == (2, 400)
        assert lake.rows(*COLUMNS).equals(tables[1].combine_chunks())

    def test_nights_behind_one_that_an_upsert_refuses_wait_for_it(self, lake: Lake, survey: Survey) -> None:
        lake.write_spec(INCREMENTS + "mode: upsert\nkey: id\n")
        for number in (0, 1, 2):
            survey.night(number)
        twice = night_rows(1).set_column(0, "id", pa.array([7] * 400))
        survey.land(1, twice)
        survey.append(1)
        folder = lake.resolve()
        report = lake.sink(folder)
        assert [each.start for each in report.intervals] == [FIRST]
        assert [(each.start, each.kind) for each in report.refused] == [
            (FIRST + timedelta(days=1), "InputError"),
            (FIRST + timedelta(days=2), ""),
        ]
        assert "those behind a refused one wait" in report.text
        assert lake.rows(*COLUMNS).equals(landed(survey, 0))
        again = lake.sink(folder)  # as when the task is cleared: it is not taken over as done
        assert (again.reused, again.snapshot_id, again.rows_in_table) == (False, report.snapshot_id, 400)
        survey.night(1, seed=3)
        assert lake.run().complete
        assert lake.rows(*COLUMNS).equals(landed(survey, 0, 1, 2))

    def test_size_is_judged_by_what_is_sunk(self, lake: Lake, survey: Survey) -> None:
        lake.write_spec(INCREMENTS)
        survey.night(0, rows=4000)
        lake.run()
        survey.night(1, rows=40)
        metadata = Catalog.open(survey.root).metadata
        orders = told(lake.resolve())
        assert orders.total_bytes == pytest.approx(metadata.total_bytes * 40 / 4040, abs=1)
        assert bytes_to_sink(orders, 1 << 40) == orders.total_bytes

    def test_an_upsert_is_judged_by_the_files_that_its_keys_may_lie_in(
        self, lake: Lake, survey: Survey
    ) -> None:
        lake.write_spec(INCREMENTS + "mode: upsert\nkey: id\n")
        for number in (0, 1, 2):
            survey.night(number, rows=4000 if number else 400)
        lake.run()
        survey.land(3, night_rows(0).slice(0, 40))  # seen again: keys of the first night
        survey.append(3)
        orders = told(lake.resolve())
        sizes = {file.file_path: file.file_size_in_bytes for file in live_files(lake.table)}
        report = lake.run()
        touched = sizes.keys() - {file.file_path for file in live_files(lake.table)}
        assert report.rows_updated == 40
        old = bytes_to_sink(orders, orders.total_bytes + 1000) - orders.total_bytes
        assert 0 < sum(sizes[path] for path in touched) <= old < 0.3 * sum(sizes.values())

    def test_a_run_that_was_killed_between_two_nights_goes_on_where_it_stopped(
        self, lake: Lake, survey: Survey
    ) -> None:
        lake.write_spec(INCREMENTS)
        for number in (0, 1):
            survey.night(number)
        folder = lake.resolve()
        first, _ = told(folder).orders
        only = told(folder).model_copy(update={"orders": (first,), "fingerprint": "a part"})
        other = lake.resolve("killed")
        other.write("sink/orders.json", only)
        lake.sink(other)
        report = lake.sink(folder)  # as its retry does
        assert [each.skipped for each in report.intervals] == [True, False]
        assert (report.rows_out, report.rows_in_table) == (400, 800)  # consumers hear of both
        assert lake.rows(*COLUMNS).equals(landed(survey, 0, 1))

    def test_a_run_that_was_killed_after_its_commit_still_tells_of_it(
        self, lake: Lake, survey: Survey
    ) -> None:
        lake.write_spec(INCREMENTS)
        survey.night(0)
        folder = lake.resolve()
        first = lake.sink(folder)
        Path(folder.uri, "reports", "sink.json").unlink()
        again = lake.sink(folder)  # as its retry does: consumers have not heard of it
        assert (again.commits, again.snapshot_id, again.rows_in_table) == (0, first.snapshot_id, 400)
        assert (again.table, again.location) == (first.table, first.location)


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
        in_process.count_by_tasks(folder)
        in_process.append(folder)
        with pytest.raises(SpecError, match="does not know where the one from 2026-10-01"):
            lake.resolve()
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


class TestFiles:
    """Files in place of a catalog."""

    def write(self, tmp_path: Path, name: str, rows: int, start: int = 0) -> None:
        path = tmp_path / "landing" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        seen = [FIRST + timedelta(seconds=second) for second in range(rows)]
        columns = {"id": range(start, start + rows), "seen": pa.array(seen, pa.timestamp("us", tz="UTC"))}
        pq.write_table(pa.table(columns), path)

    def test_files_without_an_interval_are_what_the_table_has_of_them(
        self, lake: Lake, tmp_path: Path
    ) -> None:
        lake.write_spec(f"source: {{files: {{uri: '{tmp_path}/landing/*.parquet', format: parquet}}}}\n")
        self.write(tmp_path, "a.parquet", 10)
        assert lake.run_files().rows_out == 10
        assert lake.run_files().snapshot_id is None
        self.write(tmp_path, "b.parquet", 5, start=10)
        assert lake.run_files().rows_updated == 10
        assert lake.rows("id")["id"].to_pylist() == list(range(15))

    def test_the_files_of_an_interval_replace_it_and_an_empty_one_has_to_be_allowed(
        self, lake: Lake, tmp_path: Path
    ) -> None:
        lake.write_spec(
            f"source: {{files: {{uri: '{tmp_path}/landing/{{{{ night }}}}.parquet', format: parquet}}}}\n"
            "mode: overwrite-interval\ninterval: seen\n"
        )
        window = interval(0)
        with pytest.raises(SpecError, match="give window_start and window_end"):
            lake.resolve()
        with pytest.raises(SourceNotFoundError):
            lake.run_files(window=window)
        assert lake.run_files(window=window, allow_empty=True).snapshot_id is None
        self.write(tmp_path, "2026-10-01.parquet", 10)
        assert lake.run_files(window=window).rows_out == 10
        self.write(tmp_path, "2026-10-01.parquet", 4)
        assert lake.run_files(window=window).rows_updated == 10
        (tmp_path / "landing" / "2026-10-01.parquet").unlink()
        gone = lake.run_files(window=window, allow_empty=True)
        assert (gone.rows_out, gone.rows_updated) == (0, 4)
        assert lake.rows("id").num_rows == 0


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
