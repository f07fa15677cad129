"""Runs of specs with `format: delta`: the steps are those of Iceberg tables, and leave what these would."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hipslake.api.table import Table
from hipslake.specs.spec_folder import load_spec
from hipslake.specs.table_spec import TableSpec
from hipslake.steps.committed import table_version
from hipslake.steps.sink.request import SinkRequest
from hipslake.steps.sink.sink_size import bytes_to_sink

from tests.steps.nights import FIRST, Survey
from tests.steps.sink.following import FOLLOWS, assert_follows, corrected
from tests.steps.sinks import COLUMNS, INCREMENTS, Lake, interval, landed, told


class DeltaRuns(Lake):
    """A warehouse with one spec of a Delta table."""

    def write_spec(self, text: str) -> None:
        self.spec.parent.mkdir(exist_ok=True)
        self.spec.write_text(f"name: stars\nformat: delta\ntable: survey.stars\n{text}")

    @property
    def location(self) -> Path:
        return Path(self.warehouse, "delta", "survey", "stars")

    def rows(self, *columns: str) -> pa.Table:
        return Table.open(self.location).read().sort_by("id").select(list(columns))

    def snapshots(self) -> int:
        return len(list((self.location / "_delta_log").glob("*.json")))


@pytest.fixture
def delta(lake: Lake) -> DeltaRuns:
    """The warehouse of a survey."""
    return DeltaRuns(lake.place)


def test_each_run_takes_up_what_is_missing_once(delta: DeltaRuns, survey: Survey) -> None:
    delta.write_spec(INCREMENTS)
    survey.night(0)
    first = delta.run()
    assert (first.commits, first.rows_out, first.created) == (1, 400, True)
    survey.night(2)
    survey.night(1)
    second = delta.run()
    assert [each.start.day for each in second.intervals] == [FIRST.day + 1, FIRST.day + 2]
    assert delta.rows(*COLUMNS).combine_chunks().equals(landed(survey, 0, 1, 2))
    third = delta.resolve()
    assert told(third).orders == ()
    assert bytes_to_sink(SinkRequest(run_uri=third.uri)) == 0
    assert delta.sink(third).snapshot_id is None
    version = table_version(load_spec(delta.spec, TableSpec).place, delta.warehouse, "survey.stars")
    assert version is not None
    assert (version.rows, version.version) == (1200, "3")


def test_a_night_that_was_ingested_anew_takes_the_place_of_its_first_rows(
    delta: DeltaRuns, survey: Survey
) -> None:
    delta.write_spec(INCREMENTS)
    for number in (0, 1):
        survey.night(number, rows=100)
    delta.run()
    survey.land(1, corrected(survey.landed[1], 1))
    survey.append(1)
    assert delta.run(window=interval(1)).commits == 1
    assert delta.rows(*COLUMNS).combine_chunks().equals(landed(survey, 0, 1))


def test_a_table_follows_whatever_happens_to_the_catalog(delta: DeltaRuns, survey: Survey) -> None:
    survey.more = "append: add_file"
    delta.write_spec(FOLLOWS)
    survey.night(0, rows=200)
    assert delta.run().rows_out == 200
    assert_follows(delta, survey)
    survey.night(1, rows=150)
    delta.run()
    assert_follows(delta, survey)
    survey.land(0, corrected(survey.landed[0], 1))
    survey.append(0)
    changes = survey.catalog.changes(2, key=["id"]).counts()
    report = delta.run()
    assert report.rows_updated == changes["update_before"] + changes["delete"]
    assert_follows(delta, survey)
    before = delta.snapshots()
    survey.compact(min_files=2)
    assert delta.run().commits == 0
    assert delta.snapshots() == before
    survey.catalog.rollback(2)
    assert delta.run().commits == 1
    assert_follows(delta, survey)
    delta.run(force=True)
    assert_follows(delta, survey)


def test_files_that_are_only_looked_through_count_less(delta: DeltaRuns, survey: Survey) -> None:
    """A vector says which of their rows go, and nothing of them is written."""
    upsert = f"{INCREMENTS}mode: upsert\nkey: id\n"
    delta.write_spec(upsert)
    survey.night(0, rows=4000)
    delta.run()
    survey.night(1, rows=40)
    whole = sum(path.stat().st_size for path in delta.location.rglob("data/**/*.parquet"))
    for write, counted in (("copy-on-write", whole), ("merge-on-read", whole // 20)):
        delta.write_spec(f"{upsert}write: {write}\n")
        folder = delta.resolve()
        total = told(folder).total_bytes
        found = bytes_to_sink(SinkRequest(run_uri=folder.uri), total + whole + 1) - total
        assert found == counted
