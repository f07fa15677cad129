"""Appends that others overtake between their merge and their commit: what stands in the end is right."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.catalog.leftovers import missing
from tests.steps import in_process
from tests.steps.append.overtaking import Overtake
from tests.steps.nights import FIRST, Survey, night_rows

pytestmark = pytest.mark.sampled(2)


@pytest.fixture(params=["rewrite", "add_file"])
def survey(tmp_path: Path, request: pytest.FixtureRequest) -> Survey:
    survey = Survey(tmp_path, more=f"append: {request.param}")
    for number in range(3):
        survey.night(number, rows=60)
    return survey


def test_two_runs_that_fill_an_empty_night_at_once(survey: Survey, overtake: Overtake) -> None:
    survey.night(1, rows=0)
    survey.land(1, night_rows(1, 60, 1))
    first = survey.start(1)
    folder = survey.place / "landing" / f"night={FIRST + timedelta(days=1):%Y-%m-%d}"
    pq.write_table(night_rows(5, 77), folder / "more.parquet")
    second = survey.start(1)
    report = overtake(first, lambda: in_process.append(second))
    assert report.merges == 2
    survey.assert_holds_what_landed()


@pytest.mark.parametrize("night", [1, 3])
def test_a_rollback(survey: Survey, overtake: Overtake, night: int) -> None:
    survey.land(night, night_rows(night, 100, 3))
    overtake(survey.start(night), lambda: survey.catalog.rollback(1))
    survey.landed = {number: survey.landed[number] for number in (0, night)}
    survey.assert_holds_what_landed()
    survey.night(2, rows=90)
    survey.assert_holds_what_landed()


@pytest.mark.parametrize("night", [1, 3])
def test_a_compaction_and_a_vacuum(survey: Survey, overtake: Overtake, night: int) -> None:
    def others() -> None:
        survey.compact()
        survey.catalog.vacuum(keep_versions=1, keep_days=0, dry_run=False)

    survey.land(night, night_rows(night, 100, 3))
    overtake(survey.start(night), others)
    survey.assert_holds_what_landed()
    survey.catalog.vacuum(keep_versions=1, keep_days=0, dry_run=False)
    survey.assert_holds_what_landed()
    assert missing(survey.root) == set()


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        ({"x": pa.int64()}, {"y": pa.int64()}),
        ({"x": pa.int16()}, {"x": pa.int32()}),
        ({}, {"x": pa.int32()}),
    ],
)
def test_a_night_with_other_columns(
    survey: Survey, overtake: Overtake, mine: dict[str, pa.DataType], theirs: dict[str, pa.DataType]
) -> None:
    survey.spec_text = survey.spec.read_text().replace(
        "format: parquet", 'format: parquet\n  missing_columns: "null"'
    )
    folders = []
    for number, columns in ((3, mine), (23, theirs)):  # on other parts of the sky
        table = night_rows(number, 30)
        for name, kind in columns.items():
            table = table.append_column(name, pa.array(np.arange(30), kind))
        survey.land(number, table)
        folders.append(survey.start(number))
    overtake(folders[0], lambda: in_process.append(folders[1]))
    survey.catalog.verify().raise_if_failed()
    rows = survey.catalog.read()
    for number, columns in ((3, mine), (23, theirs)):
        here = rows.filter(pc.equal(rows["night"], number)).sort_by("id")
        assert all(here[name].to_pylist() == list(range(30)) for name in columns)
