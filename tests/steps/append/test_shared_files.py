"""One file under two intervals: its rows are there once, or the run is told."""

from __future__ import annotations

import shutil
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hipslake.errors import InputError, SpecError
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.spec_folder import load_spec
from hipslake.steps.append import run as append_run
from hipslake.steps.run import RunFolder, Window

from tests.steps import in_process
from tests.steps.nights import FIRST, SPEC, Survey, night_rows


def start(survey: Survey, moment: datetime) -> RunFolder:
    """A counted run of the day that begins then."""
    survey.runs += 1
    window = Window(start=moment, end=moment + timedelta(days=1), origin="params")
    folder = in_process.start(survey.warehouse, survey.spec, f"run-{survey.runs}", window=window)
    in_process.freeze(folder)
    in_process.count(folder)
    return folder


def test_a_night_that_begins_at_noon_too(survey: Survey) -> None:
    survey.night(0)
    noon = start(survey, FIRST + timedelta(hours=12))
    with pytest.raises(InputError, match=r"holds 2 files of this run already, .*part-0.parquet among them"):
        in_process.append(noon)
    survey.assert_holds_what_landed()
    assert survey.catalog.versions() == [1]


def test_a_night_that_was_taken_by_another_interval_while_it_was_merged(
    survey: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    survey.night(3)
    survey.land(0, night_rows(0))
    noon, midnight = start(survey, FIRST + timedelta(hours=12)), start(survey, FIRST)
    commit = append_run.commit_where_it_fits

    def late(*args: object) -> object:
        monkeypatch.setattr(append_run, "commit_where_it_fits", commit)
        in_process.append(midnight)
        return commit(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(append_run, "commit_where_it_fits", late)
    with pytest.raises(InputError, match="already"):
        in_process.append(noon)
    survey.assert_holds_what_landed()


def test_names_may_be_used_again_for_other_files(survey: Survey) -> None:
    text = SPEC.format(landing=survey.landing, threshold="300 rows", layout="hats", more="")
    survey.spec_text = text.replace("{{ night }}", "{{ start:%d }}")
    for number in (0, 31):  # the first of October, and of November
        survey.land(number, night_rows(number))
        here = survey.place / "landing" / f"night={FIRST + timedelta(days=number):%Y-%m-%d}"
        there = survey.place / "landing" / "night=01"
        shutil.rmtree(there, ignore_errors=True)
        here.rename(there)
        survey.append(number)
    survey.assert_holds_what_landed()


@pytest.mark.parametrize(
    ("schedule", "field", "message"),
    [
        ("@hourly", "{{ night }}", r"several intervals in one day, .* such as {{ start:%Y-%m-%dT%H }}"),
        ("0 0,12 * * *", "{{ end:%Y%m%d }}", "several intervals in one day"),
        ("*/20 * * * *", "{{ start:%Y-%m-%dT%H }}", "several intervals in one hour"),
        ("@daily", "{{ start:%Y-%m }}", "several intervals in one month"),
        ("@hourly", "{{ start:%Y-%m-%dT%H }}", None),
        ("0 0,12 * * *", "{{ start:%Y-%m-%d%p }}", None),
        ("0 12 * * *", "{{ night }}", None),
        ("0 12 * * MON-FRI", "{{ night }}", None),
        ("0 3 * * SUN", "{{ start:%Y-%m-w%V }}", None),
        ("@monthly", "{{ start:%Y-%m }}", None),
    ],
)
def test_a_schedule_that_is_finer_than_the_uri(
    tmp_path: Path, schedule: str, field: str, message: str | None
) -> None:
    text = SPEC.format(landing="x", threshold="1 rows", layout="hats", more=f"schedule: '{schedule}'")
    (tmp_path / "stars.yaml").write_text(text.replace("{{ night }}", field))
    if message is None:
        load_spec(tmp_path / "stars.yaml", CatalogSpec)
        return
    with pytest.raises(SpecError, match=message):
        load_spec(tmp_path / "stars.yaml", CatalogSpec)
