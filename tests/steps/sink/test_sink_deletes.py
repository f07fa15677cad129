"""Tables that follow a catalog of which rows are deleted: they have the rows that the catalog has."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc
import pytest

from tests.steps.nights import Survey
from tests.steps.sinks import COLUMNS, INCREMENTS, Lake, landed, told
from tests.steps.upserts import Record, UpsertSurvey

FOLLOWS = "source: {catalog: stars, changes: true}\nmode: upsert\nkey: id\n"


def test_nights_of_which_rows_were_deleted_are_sunk_again(lake: Lake, survey: Survey) -> None:
    lake.write_spec(INCREMENTS)
    for number in (0, 1, 2):
        survey.night(number, rows=100)
    lake.run()
    survey.catalog.delete(filters="night = 1 and mag < 18", force=True)
    report = lake.run()
    assert (report.commits, report.rows_updated) == (1, 100)
    kept = landed(survey, 0, 1, 2).filter((pc.field("night") != 1) | (pc.field("mag") >= 18))
    assert lake.rows(*COLUMNS).equals(kept.combine_chunks())
    assert told(lake.resolve()).orders == ()
    survey.catalog.delete(region="cone 80 20 1deg", force=True)
    lake.run()
    left = survey.catalog.read().select(COLUMNS).sort_by("id").combine_chunks()
    assert left.num_rows < kept.num_rows
    assert lake.rows(*COLUMNS).equals(left)
    survey.night(1, rows=30, seed=4)  # it comes anew, whatever was deleted of it
    lake.run()
    left = survey.catalog.read().select(COLUMNS).sort_by("id").combine_chunks()
    assert lake.rows(*COLUMNS).equals(left)


@pytest.mark.parametrize("follows", [FOLLOWS, "source: {catalog: stars, rows: all}\n"])
def test_a_table_that_follows_records_follows_deletes(tmp_path: Path, lake: Lake, follows: str) -> None:
    survey = UpsertSurvey(tmp_path)
    lake.write_spec(follows)
    survey.upsert(0, [Record("I", key, key, 10 + key / 10, 5.0, float(key), 0) for key in range(60)])
    lake.run()
    survey.catalog.delete(filters="mag >= 10 and mag < 20", force=True)
    lake.run()
    assert lake.rows("id")["id"].to_pylist() == [*range(10), *range(20, 60)]
    survey.upsert(1, [Record("U", 12, 12_000, 11.2, 5.0, 0.5, 1)])
    lake.run()
    assert lake.rows("id")["id"].to_pylist() == [*range(10), 12, *range(20, 60)]
