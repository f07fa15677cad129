"""Reassignments while others commit, and the step that was killed after its commit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hipslake.errors import ConflictError
from hipslake.steps.attempt_places import REASSIGNMENTS
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.reassign import reassigning
from hipslake.steps.reassign.request import ReassignReport, ReassignRequest
from hipslake.steps.reassign.run import run
from hipslake.steps.run import RunFolder, run_uri

from tests.steps.upserts import Record, UpsertSurvey


class Killed(BaseException):
    """In place of kill -9."""


def records(count: int) -> list[Record]:
    return [Record("I", key, 10 * key, 10.0 + key / 100, 5.0, 1.0, 0) for key in range(count)]


def step(survey: UpsertSurvey, name: str, **given: Any) -> ReassignReport:
    """The step in a run of its own, or once more in the same."""
    folder = RunFolder(run_uri(str(survey.warehouse), "catalog_reassign__stars", name))
    if not folder.storage.is_file(RunFolder.RUN):
        frozen = FrozenRun.of(survey.start(0))
        folder.write(RunFolder.RUN, frozen.model_copy(update={"run_uri": folder.uri}))
    return run(ReassignRequest(run_uri=folder.uri, **given))


def test_a_step_that_was_killed_after_its_commit_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    survey = UpsertSurvey(tmp_path)
    survey.upsert(0, records(9))
    given: dict[str, Any] = {"keys": ("3", "4"), "to": "7", "column": "night", "force": True}

    def killed(report: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(reassigning, "_outcome", killed)
        with pytest.raises(Killed):
            step(survey, "one", **given)
    assert survey.catalog.version == 2
    report = step(survey, "one", **given)
    assert (report.version, report.reassigned, report.total_rows) == (2, 2, 9)
    assert survey.catalog.versions() == [1, 2]
    assert sorted(survey.catalog.read(filters="night = 7")["id"].to_pylist()) == [3, 4]
    assert step(survey, "two", **given).version is None
    place = Path(run_uri(str(survey.warehouse), "catalog_reassign__stars", "one")) / REASSIGNMENTS
    assert not list(place.rglob("rows.parquet"))  # no copy of the catalog's rows stays


@pytest.mark.parametrize("what", ["night", "delete", "reassign", "compact", "another"])
def test_one_that_is_overtaken_looks_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    survey = UpsertSurvey(tmp_path, more="append: add_file", threshold="9 rows")
    survey.upsert(0, records(30))
    far = [each._replace(id=each.id + 100, seq=each.seq + 1, ra=200.0, night=1) for each in records(5)]
    survey.upsert(1, far)
    upserted, done = reassigning._upserted, []

    def overtaken(*given: Any) -> Any:
        if not done:
            done.append(what)
            match what:
                case "night":  # which corrects one of the rows, and moves it
                    survey.upsert(2, [Record("U", 3, 99, 200.0, -5.0, 9.0, 2)])
                case "delete":
                    survey.catalog.delete(keys=[4], force=True)
                case "reassign":
                    survey.catalog.reassign([3, 4], 8.0, column="mag", force=True)
                case "compact":
                    survey.compact(min_files=2)
                case _:
                    survey.catalog.delete(keys=[102], force=True)
        return upserted(*given)

    monkeypatch.setattr(reassigning, "_upserted", overtaken)
    survey.catalog.reassign([3, 4, 5], 7.0, column="mag", force=True)
    catalog = survey.catalog
    catalog.verify(all=True).raise_if_failed()
    found = dict(zip(*(catalog.read()[name].to_pylist() for name in ("id", "mag")), strict=True))
    expected = {each.id: 1.0 for each in (*records(30), *far)} | dict.fromkeys((3, 4, 5), 7.0)
    if what in ("delete", "another"):
        expected.pop(4 if what == "delete" else 102)
    assert found == expected
    moved = catalog.read(filters="id = 3")
    assert moved["ra"].to_pylist() == [200.0 if what == "night" else 10.03]


def test_who_is_always_overtaken_gives_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    survey = UpsertSurvey(tmp_path)
    survey.upsert(0, records(9))

    def conflict(*given: object) -> None:
        raise ConflictError("others were first")

    monkeypatch.setattr(reassigning, "wait_for_others", lambda attempt: None)
    monkeypatch.setattr(reassigning, "_upserted", conflict)
    with pytest.raises(ConflictError, match="others changed the catalog 3 times"):
        step(survey, "one", keys=(1,), to=3, column="night", force=True, merges=3)
    assert survey.catalog.versions() == [1]
    survey.catalog.verify(all=True).raise_if_failed()
