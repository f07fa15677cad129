"""Appends that overtake each other: margins are right in the end, whoever was first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hipslake.errors import SpecError
from hipslake.steps.append import run as append_run
from hipslake.steps.append.request import AppendReport
from hipslake.steps.margin import run as margin_run

from tests.steps import in_process
from tests.steps.margins import assert_margins_are_exact
from tests.steps.nights import Survey, night_rows

pytestmark = pytest.mark.sampled(2)

MARGIN = "margin: {arcsec: [1800]}\n"


@pytest.fixture(params=["", "append: add_file"])
def survey(tmp_path: Path, request: pytest.FixtureRequest) -> Survey:
    return Survey(tmp_path, threshold="60 rows", more=MARGIN + str(request.param))


def crowd(number: int, ra: float, dec: float, width: float, rows: int) -> pa.Table:
    """A night that saw one place only."""
    rng = np.random.default_rng([number, rows])
    table = night_rows(number, rows)
    for name, values in (("ra", rng.normal(ra, width, rows) % 360), ("dec", rng.normal(dec, width, rows))):
        table = table.set_column(table.schema.get_field_index(name), name, pa.array(values))
    return table


def overtaken(monkeypatch: pytest.MonkeyPatch, module: Any, first: Callable[[], object]) -> None:
    """Let something else be committed between the merge and the commit of the next run."""
    commit = module.commit_where_it_fits

    def late(*arguments: Any) -> Any:
        monkeypatch.setattr(module, "commit_where_it_fits", commit)
        first()
        return commit(*arguments)

    monkeypatch.setattr(module, "commit_where_it_fits", late)


def append_overtaken(
    survey: Survey, monkeypatch: pytest.MonkeyPatch, mine: pa.Table, theirs: pa.Table
) -> AppendReport:
    """Append night 1 while night 2 gets in between."""
    survey.land(1, mine)
    survey.land(2, theirs)
    own, other = survey.start(1), survey.start(2)
    overtaken(monkeypatch, append_run, lambda: in_process.append(other))
    return in_process.append(own)


def test_nights_far_from_each_other_are_merged_once(survey: Survey, monkeypatch: pytest.MonkeyPatch) -> None:
    survey.land(0, pa.concat_tables([crowd(0, 30, 10, 2, 100), crowd(100, 200, -40, 2, 100)]))
    survey.append(0)
    report = append_overtaken(survey, monkeypatch, crowd(1, 30, 10, 0.5, 40), crowd(2, 200, -40, 0.5, 40))
    survey.assert_holds_what_landed()
    assert report.merges == 1


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        # Both come to the same free sky, near to each other, and not.
        (crowd(1, 120.0, 5.0, 0.2, 20), crowd(2, 120.6, 5.0, 0.2, 20)),
        (crowd(1, 120.0, 5.0, 0.01, 3), crowd(2, 140.0, 9.0, 0.01, 3)),
        # One divides a leaf at whose border the other adds rows.
        (crowd(1, 45.0, 0.1, 0.1, 10), crowd(2, 45.0, -2.0, 1.0, 200)),
        (crowd(1, 45.0, -2.0, 1.0, 200), crowd(2, 45.0, 0.1, 0.1, 10)),
        # Both at the corner where three base pixels meet.
        (crowd(1, 0.0, 41.8, 0.3, 30), crowd(2, 0.0, 41.8, 0.3, 30)),
        # One comes to a place in the margin of the other's new leaf, but not into the leaf.
        (crowd(1, 90.2, 20.0, 0.02, 5), crowd(2, 89.8, 20.0, 0.02, 5)),
    ],
)
def test_nights_near_each_other_have_right_margins(
    survey: Survey, monkeypatch: pytest.MonkeyPatch, mine: pa.Table, theirs: pa.Table
) -> None:
    survey.land(0, crowd(0, 45.0, 0.0, 3.0, 150))
    survey.append(0)
    append_overtaken(survey, monkeypatch, mine, theirs)
    survey.assert_holds_what_landed()


@pytest.mark.parametrize("first", ["the border", "the division"])
def test_a_free_pixel_is_divided_while_rows_come_to_its_border(
    survey: Survey, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """No file says so: the one makes a margin of a pixel, the other leaves none in any of its parts."""
    at_border = crowd(1, 22.4, 19.4, 0.01, 5)  # of base pixel 0, seen from base pixel 4
    dividing = pa.concat_tables([crowd(2, 45.0, 19.47, 0.01, 40), crowd(200, 45.0, 66.44, 0.01, 40)])
    survey.land(0, crowd(0, 0.0, 0.0, 0.1, 20))
    survey.append(0)
    mine, theirs = (dividing, at_border) if first == "the border" else (at_border, dividing)
    report = append_overtaken(survey, monkeypatch, mine, theirs)
    survey.assert_holds_what_landed()
    assert report.merges == 2


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))])
def test_whatever_comes_between_margins_are_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    survey = Survey(tmp_path, threshold="25 rows", more="margin: {arcsec: [1800, 20000]}")

    def some(number: int) -> pa.Table:
        ra, dec, width = rng.uniform(40, 50), rng.uniform(-5, 5), 10 ** rng.uniform(-2, 1)
        return crowd(number, ra, dec, width, int(rng.integers(0, 60)))

    survey.land(0, crowd(0, 45.0, 0.0, 3.0, 60))
    survey.append(0)
    append_overtaken(survey, monkeypatch, some(1), some(2))
    survey.assert_holds_what_landed()
    append_overtaken(survey, monkeypatch, some(1), some(2))  # both come again, as others
    survey.assert_holds_what_landed()


def test_a_margin_that_is_built_meanwhile_is_followed(
    survey: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    survey.night(0, rows=100)
    survey.land(1, night_rows(1, 100))
    own = survey.start(1)
    overtaken(monkeypatch, append_run, lambda: survey.catalog.build_margin(7200))
    assert in_process.append(own).merges == 2
    survey.assert_holds_what_landed()
    assert [margin.radius_arcsec for margin in survey.catalog.metadata.margins] == [1800.0, 7200.0]


def test_a_margin_is_built_again_if_rows_came_meanwhile(
    survey: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    survey.night(0, rows=100)
    survey.land(1, night_rows(1, 100))
    other = survey.start(1)
    overtaken(monkeypatch, margin_run, lambda: in_process.append(other))
    catalog = survey.catalog.build_margin(7200)
    assert catalog.version == 3
    assert len(assert_margins_are_exact(catalog)) == 2
    survey.night(2, rows=100)
    survey.assert_holds_what_landed()


def test_two_who_build_the_same_margin_leave_one(survey: Survey, monkeypatch: pytest.MonkeyPatch) -> None:
    survey.night(0, rows=100)
    overtaken(monkeypatch, margin_run, lambda: survey.catalog.build_margin(7200))
    catalog = survey.catalog.build_margin(7200)
    assert catalog.version == 2
    assert [margin.radius_arcsec for margin in catalog.metadata.margins] == [1800.0, 7200.0]
    catalog.verify().raise_if_failed()


def test_a_compaction_meanwhile_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    survey = Survey(tmp_path, more=MARGIN + "append: add_file")
    survey.night(0, rows=60)
    survey.night(1, rows=60)
    survey.land(2, crowd(2, 300.0, -60.0, 0.5, 20))
    own = survey.start(2)
    overtaken(monkeypatch, append_run, survey.compact)
    in_process.append(own)
    survey.assert_holds_what_landed()


def test_a_spec_that_asks_for_another_margin_is_told_to_build_it(survey: Survey) -> None:
    survey.night(0, rows=60)
    survey.more = survey.more.replace("[1800]", "[1800, 30]")
    survey.land(1, night_rows(1, 60))
    with pytest.raises(SpecError, match=r'margin of 30".*catalog_margin__stars'):
        survey.append(1)
    survey.catalog.build_margin(30)
    survey.append(1)
    survey.assert_holds_what_landed()
