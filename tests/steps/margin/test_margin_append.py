"""Margins follow appends: after every night they are what brute force makes of all rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.steps.margins import stored_margin
from tests.steps.nights import Survey, night_rows

pytestmark = pytest.mark.sampled(2)

MARGIN = "margin: {arcsec: [3600, 30000]}\n"


@pytest.fixture(
    params=[
        "hats",
        pytest.param("hipscat", marks=pytest.mark.slow),
        pytest.param("hats, add_file", marks=pytest.mark.slow),
        "hipscat, add_file",
    ]
)
def survey(tmp_path: Path, request: pytest.FixtureRequest) -> Survey:
    layout, _, mode = str(request.param).partition(", ")
    return Survey(tmp_path, layout=layout, more=MARGIN + (f"append: {mode}" if mode else ""))


def assert_margins_equal(survey: Survey, other: Survey) -> None:
    """Row for row, but for the numbers of the rows: increments are others."""
    for ours, theirs in zip(survey.catalog.metadata.margins, other.catalog.metadata.margins, strict=True):
        assert (ours.name, ours.rows, ours.pixels) == (theirs.name, theirs.rows, theirs.pixels)
        mine, expected = stored_margin(survey.catalog, ours), stored_margin(other.catalog, theirs)
        for pixel, rows in mine.items():
            keys = [("_healpix_29", "ascending"), ("id", "ascending")]
            left, right = (table.drop_columns(["_row"]).sort_by(keys) for table in (rows, expected[pixel]))
            assert left.combine_chunks().equals(right.combine_chunks())


def test_nights_have_the_margins_of_one_ingest_of_all(survey: Survey, tmp_path: Path) -> None:
    for number in (3, 0, 7, 1):
        survey.night(number, rows=200)
        survey.assert_holds_what_landed()
    together = Survey(tmp_path / "together", layout=survey.layout, more=survey.more)
    together.land(0, pa.concat_tables([survey.landed[number] for number in (3, 0, 7, 1)]))
    together.append(0)
    together.assert_holds_what_landed()
    assert_margins_equal(survey, together)


def test_margins_of_leaves_that_are_split_over_and_over(survey: Survey) -> None:
    survey.threshold = "40 rows"
    survey.night(0, rows=60)
    survey.night(1, rows=900)
    survey.assert_holds_what_landed()
    survey.night(2, rows=60)
    survey.assert_holds_what_landed()


def test_margins_of_a_night_that_comes_again(survey: Survey) -> None:
    for number in range(3):
        survey.night(number, rows=150)
    survey.night(1, rows=90, seed=9)
    survey.assert_holds_what_landed()
    survey.night(2, rows=0)
    survey.assert_holds_what_landed()


def test_margins_where_leaves_vanish(survey: Survey) -> None:
    survey.threshold = "30 rows"
    survey.night(0, rows=100)
    survey.night(20, rows=200)
    survey.night(20, rows=5, seed=1)
    survey.assert_holds_what_landed()
    survey.night(20, rows=0)
    survey.assert_holds_what_landed()
    survey.night(0, rows=0)
    catalog = survey.catalog
    assert [margin.rows for margin in catalog.metadata.margins] == [0, 0]
    survey.night(3, rows=100)
    survey.assert_holds_what_landed()


def test_new_sky_gets_margins(survey: Survey) -> None:
    survey.night(0, rows=100)
    rng = np.random.default_rng(4)
    for number, dec in enumerate((89.9, -89.9, 41.81), start=1):
        crowd = pa.array(dec + rng.normal(0, 0.02, 80))
        survey.land(number, night_rows(number, rows=80).set_column(2, "dec", crowd))
        survey.append(number)
        survey.assert_holds_what_landed()


def test_a_column_that_comes_later_is_null_in_margins_before(survey: Survey) -> None:
    survey.night(0, rows=200)
    survey.land(1, night_rows(1, rows=200).append_column("colour", pa.array(np.ones(200))))
    survey.append(1)
    catalog = survey.catalog
    catalog.verify().raise_if_failed()
    for margin in catalog.metadata.margins:
        rows = pa.concat_tables(stored_margin(catalog, margin).values())
        later = pa.compute.equal(rows["night"], 1)
        assert rows.filter(later)["colour"].null_count == 0
        assert rows.filter(pa.compute.invert(later))["colour"].null_count > 0


def test_compaction_leaves_margins_as_they_are(tmp_path: Path) -> None:
    survey = Survey(tmp_path, more=MARGIN + "append: add_file")
    for number in range(3):
        survey.night(number, rows=60)
    before = survey.catalog.metadata.margins
    assert survey.compact().version is not None
    assert survey.catalog.metadata.margins == before
    survey.assert_holds_what_landed()
    survey.night(1, rows=30, seed=5)
    survey.assert_holds_what_landed()
