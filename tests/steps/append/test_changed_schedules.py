"""A schedule is changed, and nights are run again: no row comes to stand twice, and none is lost."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.errors import InputError
from hipslake.steps.run import Window
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.steps import in_process
from tests.steps.nights import FIRST, SPEC, Survey

DAY, HOUR = timedelta(days=1), timedelta(hours=1)


class Run(NamedTuple):
    """A run of an interval, in hours from the first midnight, by a spec whose URI is of days or of hours."""

    begin: int
    hours: int | None
    hourly: bool = False

    @property
    def window(self) -> Window:
        start = FIRST + self.begin * HOUR
        end = None if self.hours is None else start + self.hours * HOUR
        return Window(start=start, end=end, origin="params" if end is None else "data_interval")


def of_hour(hour: int, seed: int = 0) -> pa.Table:
    """What an hour saw: ten rows with ids of their own, wherever they are landed."""
    rng = np.random.default_rng([hour, seed])
    return pa.table(
        {"id": hour * 10 + np.arange(10), "ra": rng.uniform(0, 60, 10), "dec": rng.uniform(-30, 30, 10)}
    )


def land(place: Path, hours: range, seed: int = 0, name: str = "part") -> None:
    """Put the same rows into a folder of each day, and into one of each hour."""
    for hour in hours:
        moment = FIRST + hour * HOUR
        for folder in (f"night={moment:%Y-%m-%d}", f"hour={moment:%Y-%m-%dT%H}"):
            (place / "landing" / folder).mkdir(parents=True, exist_ok=True)
            pq.write_table(of_hour(hour, seed), place / "landing" / folder / f"{name}-{hour}.parquet")


def append(survey: Survey, run: Run) -> None:
    text = SPEC.format(landing=survey.landing, threshold="300 rows", layout="hats", more="")
    hours = text.replace("night={{ night }}", "hour={{ start:%Y-%m-%dT%H }}")
    survey.spec_text = hours if run.hourly else text
    survey.runs += 1
    folder = in_process.start(
        survey.warehouse, survey.spec, f"run-{survey.runs}", window=run.window, wait_minutes=0
    )
    in_process.freeze(folder)
    in_process.count(folder)
    in_process.append(folder)


def ids(survey: Survey) -> list[int]:
    return sorted(survey.catalog.read(["id"])["id"].to_pylist()) if survey.root.exists() else []


MIDNIGHT, NOON = Run(0, 24), Run(12, 24)


@pytest.mark.parametrize("name", ["part", "mended"])
def test_a_mended_night_of_a_schedule_that_begins_later(tmp_path: Path, name: str) -> None:
    survey = Survey(tmp_path)
    land(tmp_path, range(24))
    append(survey, MIDNIGHT)
    before = ids(survey)
    for path in (tmp_path / "landing").rglob("*.parquet"):
        path.unlink()
    land(tmp_path, range(20), seed=1, name=name)
    with pytest.raises(
        InputError, match=r"Run that interval \(window_start 2026-10-01T00:00:00\+00:00, window_end"
    ):
        append(survey, NOON)
    assert ids(survey) == before
    append(survey, MIDNIGHT)  # as the message says
    assert ids(survey) == list(range(200))
    expected = pa.concat_tables([of_hour(hour, 1) for hour in range(20)])
    assert survey.catalog.read(expected.column_names).sort_by("id").equals(expected)


def test_an_hour_of_a_day_that_is_there(tmp_path: Path) -> None:
    survey = Survey(tmp_path)
    land(tmp_path, range(24))
    append(survey, MIDNIGHT)
    before = ids(survey)
    with pytest.raises(
        InputError, match=r"it would take the place of all 240 rows.*Give window_end as it was"
    ):
        append(survey, Run(0, 1, hourly=True))
    with pytest.raises(
        InputError, match=r"overlaps with the interval of this run .*rows would be there twice"
    ):
        append(survey, Run(5, 1, hourly=True))
    assert ids(survey) == before
    land(tmp_path, range(29, 30))
    append(survey, Run(29, 1, hourly=True))
    assert ids(survey) == [*before, *range(290, 300)]


def test_a_day_of_which_hours_are_there(tmp_path: Path) -> None:
    survey = Survey(tmp_path)
    land(tmp_path, range(24))
    append(survey, Run(5, 1, hourly=True))
    with pytest.raises(InputError, match="rows would be there twice"):
        append(survey, MIDNIGHT)
    assert ids(survey) == list(range(50, 60))


def test_the_moments_of_two_runs_by_hand(tmp_path: Path) -> None:
    survey = Survey(tmp_path)
    land(tmp_path, range(24))
    append(survey, Run(15, None))
    land(tmp_path, range(24), seed=1)
    with pytest.raises(
        InputError, match=r"files of this run already.*\(window_start 2026-10-01T15:00:00\+00:00\)"
    ):
        append(survey, Run(16, None))
    append(survey, Run(15, None))
    assert ids(survey) == list(range(240))


def test_files_of_other_names_may_come_by_hand(tmp_path: Path) -> None:
    survey = Survey(tmp_path)
    land(tmp_path, range(6))
    append(survey, Run(15, None))
    for path in (tmp_path / "landing").rglob("*.parquet"):
        path.unlink()
    land(tmp_path, range(6, 9))
    append(survey, Run(16, None))
    assert ids(survey) == list(range(90))


DAYS = st.builds(Run, st.sampled_from([0, 24]), st.just(24), st.just(False))
HOURS = st.builds(Run, st.sampled_from(range(0, 48, 6)), st.sampled_from([1, 6]), st.just(True))
SHIFTED = st.builds(Run, st.sampled_from([6, 12, 36]), st.sampled_from([6, 24]), st.just(False))
BY_HAND = st.builds(Run, st.integers(0, 47), st.none(), st.just(False))


@settings(
    max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.one_of(
        st.lists(st.one_of(DAYS, HOURS), min_size=2, max_size=4),
        st.lists(st.one_of(DAYS, SHIFTED, BY_HAND), min_size=2, max_size=4),
    )
)
def test_no_row_is_there_twice_and_none_goes(
    tmp_path_factory: pytest.TempPathFactory, runs: list[Run]
) -> None:
    place = tmp_path_factory.mktemp("schedules")
    survey = Survey(place)
    land(place, range(0, 48, 6))
    before: list[int] = []
    for run in runs:
        try:
            append(survey, run)
        except InputError:
            assert ids(survey) == before
        after = ids(survey)
        assert len(set(after)) == len(after), runs
        assert set(before) <= set(after), runs
        before = after
