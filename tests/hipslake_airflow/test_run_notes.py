"""Notes on runs that did nothing: what they say, and whose notes are left alone."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from hipslake_airflow import run_notes


class Run(SimpleNamespace):
    """A run as the scheduler hands it over."""

    def get_task_instances(self, session: object) -> list[Any]:
        return [SimpleNamespace(task_id=task, state=state) for task, state in self.states.items()]


def run(states: dict[str, str], **facts: Any) -> Run:
    plain = {
        "note": None,
        "dag_run_note": "as it was",
        "dag": SimpleNamespace(tags={"hipslake", "catalog"}),
        "run_type": "scheduled",
        "data_interval_start": datetime(2026, 10, 1, tzinfo=UTC),
    }
    return Run(states=states, **plain | facts)


@pytest.fixture(autouse=True)
def without_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sqlalchemy.orm.object_session", lambda _: "its session")


EMPTY = {"resolve": "success", "wait": "skipped", "inputs": "skipped", "append": "skipped", "view": "success"}


@pytest.mark.parametrize(
    ("states", "facts", "note"),
    [
        (EMPTY, {}, "Skipped, the night of 2026-10-01: no file came, so nothing was added."),
        (
            EMPTY | {"wait": "success"},
            {"data_interval_start": datetime(2026, 10, 1, 12, tzinfo=UTC)},
            "Skipped, the interval from 2026-10-01 12:00 on: there was nothing new to add.",
        ),
        (EMPTY, {"run_type": "manual"}, "Skipped: no file came, so nothing was added."),
        (EMPTY, {"data_interval_start": None}, "Skipped: no file came, so nothing was added."),
        (dict.fromkeys(EMPTY, "success"), {}, None),
    ],
)
def test_a_note_says_what_was_skipped_and_why(
    states: dict[str, str], facts: dict[str, Any], note: str | None
) -> None:
    ended = run(states, **facts)
    run_notes.on_dag_run_success(ended, "")
    assert ended.note == note


@pytest.mark.parametrize(
    ("start", "note"),
    [
        (datetime(2026, 10, 1, tzinfo=UTC), "The night of 2026-10-01."),
        (datetime(2026, 10, 1, 12, tzinfo=UTC), "The interval from 2026-10-01 12:00 on."),
        (None, None),
    ],
)
def test_a_backfills_runs_say_which_night_they_are(start: datetime | None, note: str | None) -> None:
    begun = run({}, run_type="backfill", data_interval_start=start)
    run_notes.on_dag_run_running(begun, "")
    assert begun.note == note
    begun.states = EMPTY
    run_notes.on_dag_run_success(begun, "")
    assert begun.note.startswith("Skipped")
    for other in (run({}), run({}, run_type="backfill", dag=SimpleNamespace(tags={"sales"}))):
        run_notes.on_dag_run_running(other, "")
        assert other.note is None


def test_notes_of_others_and_runs_of_others_are_left_alone() -> None:
    noted = run(EMPTY, note="ask Ann")
    run_notes.on_dag_run_success(noted, "")
    run_notes.on_dag_run_failed(noted, "")
    assert (noted.note, noted.dag_run_note) == ("ask Ann", "as it was")
    foreign = run(EMPTY, dag=SimpleNamespace(tags={"sales"}))
    run_notes.on_dag_run_success(foreign, "")
    assert (foreign.note, foreign.dag_run_note) == (None, "as it was")


@pytest.mark.parametrize("ends", [run_notes.on_dag_run_success, run_notes.on_dag_run_failed])
def test_a_run_that_was_cleared_loses_our_note(ends: Any) -> None:
    again = run(dict.fromkeys(EMPTY, "success"), note="Skipped: no file came, so nothing was added.")
    ends(again, "")
    assert again.dag_run_note is None
