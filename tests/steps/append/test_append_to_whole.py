"""Nights that come to what mode replace has made: its rows get their numbers with the first of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake import Catalog
from hipslake.catalog.row_sets import ORDINAL_SHIFT

from tests.catalog.leftovers import missing, orphans
from tests.steps import in_process
from tests.steps.margins import assert_margins_are_exact
from tests.steps.nights import Survey, night_rows

pytestmark = pytest.mark.sampled(2)

WHOLE = 100
"""The number of the night that the rows of the whole are told by; it is none."""


@pytest.fixture(params=["hats", "hipscat"])
def survey(tmp_path: Path, request: pytest.FixtureRequest) -> Survey:
    """A whole of two margins, in place of a first night."""
    survey = Survey(tmp_path, layout=str(request.param), more="margin: {arcsec: [3600]}")
    rows = night_rows(WHOLE, rows=1500)
    (tmp_path / "whole").mkdir()
    for at in range(3):
        pq.write_table(rows.slice(500 * at, 500), tmp_path / "whole" / f"{at}.parquet")
    (tmp_path / "first").mkdir()
    spec = in_process.write_spec(
        tmp_path / "first" / "stars.yaml",
        f"{tmp_path}/whole/*.parquet",
        threshold=survey.threshold,
        layout=survey.layout,
        more=survey.more,
    )
    in_process.ingest(in_process.start(survey.warehouse, spec, "whole"))
    survey.landed[WHOLE] = rows
    return survey


def numbers(catalog: Catalog) -> pa.Table:
    """The ordinal of every row, by its id; `_row` tells rows apart."""
    rows = catalog.read(columns=["id", "_row"]).sort_by("id")
    assert len(np.unique(rows["_row"].to_numpy())) == len(rows)
    return rows.set_column(1, "ordinal", pa.array(rows["_row"].to_numpy() >> ORDINAL_SHIFT))


def test_the_first_night_numbers_what_was_there(survey: Survey) -> None:
    before = survey.catalog
    assert not before.metadata.numbers_rows
    survey.night(0)
    survey.assert_holds_what_landed()
    assert survey.catalog.metadata.numbers_rows
    told = numbers(survey.catalog)
    of_night = np.isin(told["id"].to_numpy(), survey.landed[0]["id"].to_numpy())
    assert (told["ordinal"].to_numpy() == of_night).all()
    assert [increment.key is None for increment in survey.catalog.increments] == [True, False]
    assert Catalog.open(survey.root, version=1).read().equals(before.read())
    assert missing(survey.root) == set()


def test_leaves_are_those_of_one_ingest_of_all(survey: Survey, tmp_path: Path) -> None:
    survey.night(0)
    together = Survey(tmp_path / "together", layout=survey.layout)
    together.land(0, pa.concat_tables([survey.landed[0], survey.landed[WHOLE]]))
    together.append(0)
    assert survey.catalog.pixels == together.catalog.pixels


def test_later_nights_leave_numbers_and_leaves_alone(survey: Survey) -> None:
    survey.night(0)
    first = numbers(survey.catalog)
    files = set(survey.catalog.metadata.groups[0].table(survey.catalog.storage)["path"].to_pylist())
    survey.night(7, rows=40)
    survey.night(0, rows=300, seed=1)
    survey.assert_holds_what_landed()
    after = numbers(survey.catalog)
    whole = survey.landed[WHOLE]["id"]
    assert {0} == {n for n, there in zip(*columns_of(after, whole), strict=True) if there}
    assert {0} == {n for n, there in zip(*columns_of(first, whole), strict=True) if there}
    stayed = set(survey.catalog.metadata.groups[0].table(survey.catalog.storage)["path"].to_pylist()) & files
    assert stayed


def columns_of(told: pa.Table, ids: pa.ChunkedArray) -> tuple[list[int], list[bool]]:
    """The ordinals, and which of them are of rows with some ids."""
    return told["ordinal"].to_pylist(), np.isin(told["id"].to_numpy(), ids.to_numpy()).tolist()


def test_what_the_whole_alone_needed_is_vacuumed(survey: Survey) -> None:
    survey.night(0)
    survey.catalog.vacuum(keep_versions=1, keep_days=0, dry_run=False)
    survey.assert_holds_what_landed()
    assert_margins_are_exact(survey.catalog)
    assert missing(survey.root) == set()
    assert not [path for path in orphans(survey.root) if "/_versions/" not in path]
