"""Write, audit, publish: sinks to a branch, audits of what is on it, and what becomes of it next."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.api.table import Table as OpenTable
from hipslake.errors import AuditError, PlanError, VersionNotFoundError
from hipslake.specs.spec_folder import load_spec
from hipslake.specs.table_spec import TableSpec
from hipslake.steps.audit import run as auditing
from hipslake.steps.audit.request import AuditReport
from hipslake.tables.iceberg.stored_marks import StoredMarks
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import ServerError

from tests.steps.audit.audits import (
    AUDIT,
    audit,
    left_on_branch,
    mended,
    night,
    on_branch,
    other_commit,
    refs,
    report_text,
    spoilt,
    vacuum,
)
from tests.steps.nights import FIRST, Survey
from tests.steps.sinks import COLUMNS, INCREMENTS, Lake, interval, landed, told
from tests.system.sinks import orphans
from tests.tables.puffin_reading import distinct, ndv


def test_statistics_of_a_branch_are_those_of_main_when_it_is_published(lake: Lake, survey: Survey) -> None:
    lake.write_spec(INCREMENTS + AUDIT + "statistics: {ndv: [id, night, mag]}\n")
    before = None
    for number in range(2):
        survey.night(number)
        folder = lake.resolve()
        sunk = lake.sink(folder)
        assert ndv(lake.table) == before  # readers see none of it yet
        report = audit(folder)
        found = distinct(lake.rows(*COLUMNS), "id", "night", "mag")
        assert report.snapshot_id == lake.table.metadata.current_snapshot_id
        assert ndv(lake.table) == sunk.intervals[0].ndv == found
        assert found["night"] == number + 1
        before = found


def test_what_passes_becomes_main_once(lake: Lake, survey: Survey) -> None:
    lake.write_spec(INCREMENTS + AUDIT)
    survey.night(0)
    folder = lake.resolve()
    sunk = lake.sink(folder)
    assert sunk.committed(folder.uri) is None
    assert lake.table.scan().to_arrow().num_rows == 0  # readers see nothing yet
    assert refs(lake.table) == {"main", "audit"}
    report = audit(folder)
    assert (report.snapshot_id, report.sinks_count, report.rows_out) == (sunk.snapshot_id, 1, 400)
    assert [each.ok for each in report.checks] == [True] * 4
    assert (committed := report.committed(folder.uri)) is not None
    assert committed.version == str(report.snapshot_id)
    assert [origin.kind for origin in report.origins(folder.uri)] == ["catalog"]
    assert refs(lake.table) == {"main"}
    assert lake.rows(*COLUMNS).equals(landed(survey, 0))
    again = lake.resolve()
    assert told(again).orders == ()
    assert audit(again).snapshot_id is None
    survey.night(1)
    night(lake)
    assert lake.rows(*COLUMNS).equals(landed(survey, 0, 1))
    assert len(StoredMarks(lake.table).keys) == 2
    assert orphans(lake.table) == []


def test_what_does_not_pass_stays_on_the_branch_and_the_next_night_goes_on_with_it(
    lake: Lake, survey: Survey
) -> None:
    failed = left_on_branch(lake, survey, 1)
    assert "1 of 4 checks" in failed
    assert "NOT PASSED: ranges: mag lies from -5 to 40: 1 values do not, such as 99.0" in failed
    assert "On the branch are: stars/2026-10-02" in failed
    assert lake.rows(*COLUMNS).equals(landed(survey, 0))
    folder = lake.resolve()  # the night again: its rows are on the branch, and still are what they are
    assert told(folder).orders == ()
    with pytest.raises(AuditError):
        audit(folder)
    survey.night(2)
    folder = lake.resolve()
    assert "Branch audit was left with stars/2026-10-02" in report_text(folder)
    assert [order.key for order in told(folder).orders] == ["stars/2026-10-03T00:00:00+00:00"]
    lake.sink(folder)
    with pytest.raises(AuditError, match=r"stars/2026-10-02.*, stars/2026-10-03"):
        audit(folder)
    mended(survey, 1)
    report = night(lake)
    assert report.sinks_count == 2
    assert lake.rows(*COLUMNS).equals(landed(survey, 0, 1, 2))
    assert told(lake.resolve()).orders == ()
    assert orphans(lake.table) == []


def test_other_checks_let_the_same_branch_pass(lake: Lake, survey: Survey) -> None:
    left_on_branch(lake, survey, 0)
    lake.write_spec(INCREMENTS + AUDIT.replace("max: 40", "max: 100"))
    folder = lake.resolve()
    assert told(folder).orders == ()  # nothing is sunk again for it
    assert audit(folder).sinks_count == 1
    assert lake.rows(*COLUMNS).equals(landed(survey, 0))


def test_a_vacuum_keeps_what_a_branch_and_tags_have(lake: Lake, survey: Survey) -> None:
    lake.write_spec(INCREMENTS + AUDIT + "tag: 'night-{{ night }}'\n")
    survey.night(0)
    night(lake)
    spoilt(survey, 1)
    survey.night(2)
    folder = lake.resolve()
    lake.sink(folder)  # two snapshots on the branch
    vacuum(lake)
    assert len(lake.table.snapshots()) == 3  # main's, which is tagged too, and both of the branch
    with pytest.raises(AuditError):
        audit(folder)
    assert told(lake.resolve()).orders == ()
    mended(survey, 1)
    night(lake)
    vacuum(lake)
    assert lake.rows(*COLUMNS).equals(landed(survey, 0, 1, 2))
    assert told(lake.resolve()).orders == ()
    assert refs(lake.table) == {"main", "night-2026-10-01", "night-2026-10-02", "night-2026-10-03"}
    at = lake.table.metadata.refs["night-2026-10-01"].snapshot_id
    first = lake.table.scan(snapshot_id=at).to_arrow().sort_by("id").select(list(COLUMNS))
    assert first.equals(landed(survey, 0))
    given = {"iceberg": load_spec(lake.spec, TableSpec).iceberg, "warehouse": lake.warehouse}
    assert OpenTable.open("survey.stars", "night-2026-10-02", **given).rows == 1200
    with pytest.raises(VersionNotFoundError, match="no tag or branch 'night-2026-10-09'; it has main, night"):
        OpenTable.open("survey.stars", "night-2026-10-09", **given)
    assert orphans(lake.table) == []


def test_an_audit_that_was_killed_after_its_commit_tells_what_it_published(
    lake: Lake, survey: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = on_branch(lake, survey)

    def killed(*given: object) -> AuditReport:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(auditing, "_report", killed)
        with pytest.raises(KeyboardInterrupt):
            audit(folder)
    report = audit(folder)
    assert report.snapshot_id == lake.table.metadata.current_snapshot_id
    assert (report.sinks_count, report.rows_out) == (1, 400)
    assert audit(lake.resolve()).snapshot_id is None  # another run has published nothing


def test_an_answer_that_is_lost_is_looked_for(
    lake: Lake, survey: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = on_branch(lake, survey)
    real = SqlCatalog.commit_table

    def lost(*given: Any, **more: Any) -> Any:
        real(*given, **more)
        raise ServerError("the gateway has lost the answer")

    monkeypatch.setattr(SqlCatalog, "commit_table", lost)
    report = audit(folder)
    assert report.snapshot_id == lake.table.metadata.current_snapshot_id
    assert lake.rows(*COLUMNS).equals(landed(survey, 0))


def test_a_run_that_was_killed_between_sink_and_audit_is_taken_up(lake: Lake, survey: Survey) -> None:
    lake.write_spec(INCREMENTS + AUDIT)
    survey.night(0)
    lake.sink(lake.resolve())
    survey.night(1)
    report = night(lake)
    assert report.sinks_count == 2
    assert lake.rows(*COLUMNS).equals(landed(survey, 0, 1))


def test_a_branch_is_discarded_if_asked(lake: Lake, survey: Survey) -> None:
    left_on_branch(lake, survey, 1)
    folder = lake.resolve(discard_branch=True)
    assert "Branch audit was dropped, with all that was on it: stars/2026-10-02" in report_text(folder)
    assert refs(lake.table) == {"main"}
    assert len(told(folder).orders) == 1  # the table lacks it again
    vacuum(lake)
    assert len(lake.table.snapshots()) == 2  # main's, and the one that was dropped, since none came after it
    lake.write_spec(INCREMENTS + AUDIT.replace("max: 40", "max: 100"))
    night(lake)
    vacuum(lake)
    assert len(lake.table.snapshots()) == 1
    assert orphans(lake.table) == []
    assert "dropped" not in report_text(lake.resolve(discard_branch=True))


FILES = "source: {{files: {{uri: '{landing}/{{{{ night }}}}/*.parquet', format: parquet}}}}\n"


def land(place: Path, number: int, value: float, ids: range) -> None:
    folder = place / "landing" / f"{FIRST + timedelta(days=number):%Y-%m-%d}"
    folder.mkdir(parents=True, exist_ok=True)
    rows = pa.table({"id": pa.array(ids, pa.int64()), "mag": np.full(len(ids), value)})
    pq.write_table(rows, folder / "part.parquet")


def night_of_files(lake: Lake, number: int, **fields: Any) -> AuditReport:
    lake.run_files(window=interval(number), wait_minutes=0, **fields)
    return audit(lake.resolve(window=interval(number)))


def test_nights_of_files_that_would_be_lost_are_not(lake: Lake) -> None:
    lake.write_spec(FILES.format(landing=lake.place / "landing") + AUDIT)
    land(lake.place, 0, 1.0, range(10))
    night_of_files(lake, 0)
    land(lake.place, 1, 99.0, range(10, 20))
    with pytest.raises(AuditError):
        night_of_files(lake, 1)
    other_commit(lake.table)
    land(lake.place, 2, 2.0, range(20, 30))
    with pytest.raises(PlanError, match=r"does not bring again all that is on it \(stars/2026-10-02"):
        lake.resolve(window=interval(2))
    land(lake.place, 1, 3.0, range(10, 20))
    night_of_files(lake, 1)  # that night itself brings it again
    night_of_files(lake, 2)
    assert lake.rows("id")["id"].to_pylist() == [*range(30), 10**9]


@pytest.mark.parametrize("write", ["copy-on-write", "merge-on-read"])
def test_upserts_come_over_the_branch(lake: Lake, write: str) -> None:
    text = FILES.format(landing=lake.place / "landing") + f"mode: upsert\nkey: [id]\nwrite: {write}\n"
    lake.write_spec(text + AUDIT.replace("unique: [id]", "unique: [id], over: table"))
    wanted: dict[int, float] = {}
    for number, (value, ids) in enumerate([(1.0, range(20)), (2.0, range(10, 30)), (3.0, range(5, 15))]):
        land(lake.place, number, value, ids)
        night_of_files(lake, number)
        wanted |= dict.fromkeys(ids, value)
        rows = lake.rows("id", "mag")
        assert dict(zip(rows["id"].to_pylist(), rows["mag"].to_pylist(), strict=True)) == wanted
    assert orphans(lake.table) == []
