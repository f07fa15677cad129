"""Deletes, nights and compactions of processes at the same time come to what some order of them makes."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from hipslake import Catalog
from hipslake.errors import ConflictError
from hipslake.steps.attempt_places import DELETIONS
from hipslake.steps.run import RunFolder

from tests.steps import in_process
from tests.steps.deletions import STAR, DeletingStars, DeletingStoreStars, DeletingStoreSurvey, DeletingSurvey
from tests.steps.nights import night_rows
from tests.steps.upserts import COLUMNS, plain_rows, table_of
from tests.system import forked
from tests.system.test_upsert_killed import records

MORE = "append: add_file\nmargin: {arcsec: [3600]}"
CUTS = {"append": [(16.5, 18.2), (17.6, 19.5)], "upsert": [(-0.8, 0.2), (-0.1, 0.9)]}
"""Of which magnitudes rows are deleted: the two deletes of a round want some of the same rows."""
RETRIES, SECONDS = 3, 240
Surveys = DeletingStars | DeletingSurvey


def delete(folder: RunFolder, cut: tuple[float, float]) -> None:
    """Delete the rows between two magnitudes."""
    in_process.delete(folder, filters=f"mag > {cut[0]} and mag < {cut[1]}", force=True)


def bring_night(folder: RunFolder) -> None:
    """Append or upsert the night of a resolved run."""
    in_process.freeze(folder)
    in_process.count(folder, cores=1)
    in_process.append(folder, cores=1)


def compact(folder: RunFolder) -> None:
    """Compact what has two files or more."""
    in_process.compact(folder, min_files=2)


def at_once(barrier: Barrier, act: Callable[..., None], *arguments: Any) -> None:
    """Do something when all others are ready, with retries as a task has them."""
    barrier.wait(SECONDS)
    for attempt in range(RETRIES + 1):
        try:
            act(*arguments)
            return
        except ConflictError:
            if attempt == RETRIES:
                raise


def survey_of(mode: str, place: Path, uri: str | None) -> Surveys:
    """An empty survey, on this machine or in a store."""
    stars = {"threshold": "60 rows", "more": MORE}
    keyed = {"threshold": "25 rows", "more": MORE}
    if uri is None:
        return DeletingStars(place, **stars) if mode == "append" else DeletingSurvey(place, **keyed)
    if mode == "append":
        return DeletingStoreStars(place, **stars, uri=uri)
    return DeletingStoreSurvey(place, **keyed, uri=uri)


def land(survey: Surveys, number: int, seed: int) -> dict[str, Any]:
    """Put the files of a night there; what the survey knows of its rows, once it has come."""
    if isinstance(survey, DeletingSurvey):
        found = records(number, seed=seed)
        survey.land(number, table_of(found))
        return {"records": found}
    table = night_rows(number, rows=100, seed=seed)
    landed = survey.landed.pop(number, None)
    survey.land(number, table)
    del survey.landed[number]
    if landed is not None:
        survey.landed[number] = landed
    return {"table": table}


def note_night(survey: Surveys, number: int, rows: dict[str, Any]) -> None:
    """Note that a night has come, or come again."""
    if isinstance(survey, DeletingSurvey):
        survey.nights[number] = rows["records"]
    else:
        survey.landed[number] = rows["table"]
        survey.note_night(number)


def assert_some_order(
    survey: Surveys, before: int, cuts: list[tuple[float, float]], nights: dict[int, dict[str, Any]]
) -> None:
    """Follow the versions since one: what each act did follows from the rows right before it.

    A delete makes no version if one of the versions has no such row; neither does a compaction of nothing.
    """
    columns = COLUMNS if isinstance(survey, DeletingSurvey) else STAR
    newest = survey.catalog
    left, coming, states = list(cuts), {**nights}, [survey.rows]
    for version in range(before + 1, newest.version + 1):
        old, new = (Catalog.open(newest.uri, version=each).metadata for each in (version - 1, version))
        known = {each.write_id for each in old.deletions or ()}
        deletion = next((each for each in new.deletions or () if each.write_id not in known), None)
        came = {each.write_id: each.key for each in new.all_increments(newest.storage)}
        for each in old.all_increments(newest.storage):
            came.pop(each.write_id, None)
        assert (deletion is not None) + len(came) <= 1, "a version has one act"
        if deletion is not None:
            cut = next(each for each in left if f"{each[0]} and" in deletion.chosen)
            left.remove(cut)
            rows = len(survey.rows)
            survey.note_deleted_between(*cut)
            assert deletion.rows == rows - len(survey.rows)
        elif came:
            (key,) = came.values()
            number = next(each for each in coming if (key or "").startswith(day_of(each)))
            note_night(survey, number, coming.pop(number))
        states.append(survey.rows)
        assert plain_rows(survey, new, columns) == states[-1], version
    assert not coming, "a night is lost"
    magnitude = columns.index("mag")
    for low, high in left:
        assert any(not any(low < row[magnitude] < high for row in rows) for rows in states)
    survey.assert_holds_the_state()


def day_of(number: int) -> str:
    """The day of a night, as keys of increments begin."""
    return f"2026-10-{1 + number:02d}"


@pytest.mark.parametrize("rounds", [1, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("where", "mode"),
    [
        ("local", "upsert"),
        pytest.param("s3", "upsert", marks=pytest.mark.slow),
        pytest.param("s3", "append", marks=pytest.mark.slow),
        pytest.param("local", "append", marks=pytest.mark.slow),
    ],
)
def test_two_deletes_two_nights_and_a_compaction_at_once(
    tmp_path: Path, request: pytest.FixtureRequest, where: str, mode: str, rounds: int
) -> None:
    """One of the nights comes for the first time, and the other one again."""
    uri = f"{request.getfixturevalue('bucket')}/{uuid.uuid4().hex}" if where == "s3" else None
    survey, tries = survey_of(mode, tmp_path, uri), 0
    for number in range(2):
        rows = land(survey, number, 0)
        bring_night(survey.resolve(number))
        note_night(survey, number, rows)
    for turn in range(rounds):
        before = survey.catalog.version
        nights = {number: land(survey, number, turn + 1) for number in (1, 2 + turn)}
        deletes = [(survey.begin(), cut) for cut in CUTS[mode]]
        acts: list[tuple[Any, ...]] = [(delete, *each) for each in deletes]
        acts += [(bring_night, survey.resolve(number)) for number in nights]
        acts.append((compact, survey.begin()))
        barrier = forked.CLEAN.Barrier(len(acts))
        processes = [forked.start(at_once, barrier, *act) for act in acts]
        for process in processes:
            process.join(SECONDS)
        assert [process.exitcode for process in processes] == [0] * len(acts)
        assert_some_order(survey, before, CUTS[mode], nights)
        tries += sum(len(folder.storage.list(DELETIONS)) for folder, _ in deletes)
    assert tries > 2 * rounds, "no delete was overtaken"
