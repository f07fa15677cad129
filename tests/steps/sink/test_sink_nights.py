"""Sinks of increments of a catalog: what the table lacks comes, once, whenever it was published."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from hipslake import Catalog
from hipslake.errors import PlanError
from hipslake.steps.sink.request import SinkRequest
from hipslake.steps.sink.sink_size import bytes_to_sink
from hipslake.tables.iceberg.data_files import live_files
from hipslake.versions.log import VersionLog

from tests.steps.nights import FIRST, Survey, night_rows
from tests.steps.sinks import COLUMNS, INCREMENTS, Lake, interval, landed, told
from tests.tables.compaction import compacting
from tests.tables.compaction.compacting import compact

pytestmark = pytest.mark.sampled(2)


def test_each_run_takes_up_what_is_missing_once(lake: Lake, survey: Survey) -> None:
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


def test_a_night_that_comes_late_is_taken_up_by_the_next_run(lake: Lake, survey: Survey) -> None:
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


def test_a_night_that_was_ingested_anew_takes_the_place_of_its_first_rows(lake: Lake, survey: Survey) -> None:
    lake.write_spec(INCREMENTS)
    for number in (0, 1, 2):
        survey.night(number)
    lake.run()
    survey.night(1, rows=150, seed=9)
    again = lake.run()
    assert [each.start for each in again.intervals] == [FIRST + timedelta(days=1)]
    assert again.rows_updated == 400
    assert lake.rows(*COLUMNS).equals(landed(survey, 0, 1, 2))


@pytest.mark.parametrize("mode", ["append", "overwrite-interval\ninterval: seen"])
def test_a_night_that_has_become_empty_has_no_rows_any_more(lake: Lake, survey: Survey, mode: str) -> None:
    lake.write_spec(f"{INCREMENTS}mode: {mode}\n")
    for number, rows in ((0, 40), (1, 40), (1, 0)):
        seen = pa.array([FIRST + timedelta(days=number)] * rows, pa.timestamp("us", "UTC"))
        survey.land(number, night_rows(number, rows).append_column("seen", seen))
        survey.append(number)
        report = lake.run()
    assert (report.commits, report.rows_out, report.rows_updated) == (1, 0, 40)
    assert lake.rows(*COLUMNS).equals(landed(survey, 0).select(COLUMNS))
    assert told(lake.resolve()).orders == ()


def test_a_compaction_of_the_catalog_is_nothing_to_sink(lake: Lake, survey: Survey) -> None:
    survey.more = "append: add_file"
    lake.write_spec(INCREMENTS)
    for number in (0, 1):
        survey.night(number)
    lake.run()
    assert survey.compact(min_files=2).version == 3
    assert told(lake.resolve()).orders == ()


def test_force_sinks_a_window_again_and_leaves_the_table_as_it_was(lake: Lake, survey: Survey) -> None:
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


def test_an_edit_of_the_spec_is_for_nights_to_come(lake: Lake, survey: Survey) -> None:
    lake.write_spec(INCREMENTS)
    survey.night(0)
    lake.run()
    lake.write_spec(INCREMENTS.replace("rows: increment", 'rows: increment, filters: "mag < 18"'))
    survey.night(1)
    assert lake.run().commits == 1
    night = lake.rows(*COLUMNS)
    assert night.num_rows == 400 + sum(mag < 18 for mag in survey.landed[1]["mag"].to_pylist())


def test_an_upsert_takes_nights_one_after_the_other(lake: Lake, survey: Survey) -> None:
    """The same objects in two nights of one run are no duplicates: the later night has the last word."""
    lake.write_spec(INCREMENTS + "mode: upsert\nkey: id\n")
    tables = [night_rows(number).set_column(0, "id", pa.array(range(400))) for number in (0, 1)]
    for number, table in enumerate(tables):
        survey.land(number, table)
        survey.append(number)
    report = lake.run()
    assert (report.commits, report.rows_updated) == (2, 400)
    assert lake.rows(*COLUMNS).equals(tables[1].combine_chunks())


def test_nights_behind_one_that_an_upsert_refuses_wait_for_it(lake: Lake, survey: Survey) -> None:
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


def test_size_is_judged_by_what_is_sunk(lake: Lake, survey: Survey) -> None:
    lake.write_spec(INCREMENTS)
    survey.night(0, rows=4000)
    lake.run()
    survey.night(1, rows=40)
    metadata = Catalog.open(survey.root).metadata
    folder = lake.resolve()
    orders = told(folder)
    assert orders.total_bytes == pytest.approx(metadata.total_bytes * 40 / 4040, abs=1)
    assert bytes_to_sink(SinkRequest(run_uri=folder.uri), 1 << 40) == orders.total_bytes


def test_an_upsert_is_judged_by_the_files_that_its_keys_may_lie_in(lake: Lake, survey: Survey) -> None:
    lake.write_spec(INCREMENTS + "mode: upsert\nkey: id\n")
    for number in (0, 1, 2):
        survey.night(number, rows=4000 if number else 400)
    lake.run()
    survey.land(3, night_rows(0).slice(0, 40))  # seen again: keys of the first night
    survey.append(3)
    folder = lake.resolve()
    orders = told(folder)
    sizes = {file.file_path: file.file_size_in_bytes for file in live_files(lake.table)}
    report = lake.run()
    touched = sizes.keys() - {file.file_path for file in live_files(lake.table)}
    assert report.rows_updated == 40
    old = bytes_to_sink(SinkRequest(run_uri=folder.uri), orders.total_bytes + 1000) - orders.total_bytes
    assert 0 < sum(sizes[path] for path in touched) <= old < 0.3 * sum(sizes.values())


def test_a_run_that_was_killed_between_two_nights_goes_on_where_it_stopped(
    lake: Lake, survey: Survey
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


def test_a_run_that_was_killed_after_its_commit_still_tells_of_it(lake: Lake, survey: Survey) -> None:
    lake.write_spec(INCREMENTS)
    survey.night(0)
    folder = lake.resolve()
    first = lake.sink(folder)
    Path(folder.uri, "reports", "sink.json").unlink()
    again = lake.sink(folder)  # as its retry does: consumers have not heard of it
    assert (again.commits, again.snapshot_id, again.rows_in_table) == (0, first.snapshot_id, 400)
    assert (again.table, again.location) == (first.table, first.location)


def mixed(lake: Lake) -> None:
    """Bring the nights of a table into one file, and forget how they came there."""
    iceberg = {"uri": f"sqlite:///{lake.place}/state/iceberg.db"}
    compact(compacting.request(lake.place, table="survey.stars", iceberg=iceberg, full=True))
    table = lake.table
    current = table.metadata.current_snapshot_id
    old = [one.snapshot_id for one in table.snapshots() if one.snapshot_id != current]
    table.maintenance.expire_snapshots().by_ids(old).commit()
    assert not any("rewritten" in name for name in lake.table.properties)


def test_a_night_in_a_file_with_others_is_told_by_its_catalog_when_no_snapshot_does(
    lake: Lake, survey: Survey
) -> None:
    lake.write_spec(INCREMENTS.partition("partition")[0])
    for number in (0, 1, 2):
        survey.night(number)
    lake.run()
    mixed(lake)
    survey.night(1, rows=150, seed=9)
    again = lake.run()
    assert again.rows_updated == 400
    assert again.rows_rewritten >= 400  # of the other nights
    assert lake.rows(*COLUMNS).equals(landed(survey, 0, 1, 2))
    # The version that the first night was sunk from goes; a later one has its rows as well.
    mixed(lake)
    survey.night(0, rows=170, seed=8)
    survey.catalog.vacuum(keep_versions=2, keep_days=0, dry_run=False)
    assert 3 in VersionLog(survey.catalog.storage).vacuumed()
    assert lake.run().rows_updated == 400
    assert lake.rows(*COLUMNS).equals(landed(survey, 0, 1, 2))


def test_a_night_of_which_nothing_tells_any_more_is_refused(lake: Lake, survey: Survey) -> None:
    lake.write_spec(INCREMENTS.partition("partition")[0])
    for number in (0, 1):
        survey.night(number)
    lake.run()
    mixed(lake)
    before = lake.rows(*COLUMNS)
    survey.night(1, rows=150, seed=9)
    survey.catalog.vacuum(keep_versions=1, keep_days=0, dry_run=False)
    with pytest.raises(PlanError, match=r"no version that is kept has the rows of version 2.*by hand"):
        lake.run()
    assert lake.rows(*COLUMNS).equals(before)


def test_rows_that_others_deleted_before_all_snapshots_expired_are_asked_about(
    lake: Lake, survey: Survey
) -> None:
    lake.write_spec(INCREMENTS.partition("partition")[0])
    for number in (0, 1):
        survey.night(number)
    lake.run()
    lake.table.delete("id < 100")
    mixed(lake)
    survey.night(0, rows=150, seed=9)
    with pytest.raises(PlanError, match="100 of its 400 rows are not in the table by their values"):
        lake.run()
    assert lake.run(force=True, window=interval(0, origin="params")).rows_updated == 300
    assert lake.rows(*COLUMNS).equals(landed(survey, 0, 1))
