"""Write, audit, publish: sinks to a branch, audits of what is on it, and what becomes of it next."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.api.table import Table as OpenTable
from hipslake.errors import AuditError, ConflictError, PlanError, SpecError, VersionNotFoundError
from hipslake.specs.spec_folder import load_spec
from hipslake.specs.table_spec import TableSpec
from hipslake.specs.vacuum_spec import Retention
from hipslake.steps.audit import run as auditing
from hipslake.steps.audit.request import AuditReport, AuditRequest
from hipslake.steps.registry import STEPS
from hipslake.steps.run import RunFolder
from hipslake.tables.iceberg import branch_publishing
from hipslake.tables.iceberg.catalogs import open_catalog
from hipslake.tables.iceberg.expire_snapshots import vacuum_table
from hipslake.tables.iceberg.snapshot_history import summary_of
from hipslake.tables.iceberg.stored_marks import StoredMarks
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import ServerError
from pyiceberg.table import Table

from tests.steps.nights import FIRST, Survey, night_rows
from tests.steps.sinks import COLUMNS, INCREMENTS, Lake, interval, landed, told
from tests.system.sinks import orphans
from tests.tables.compaction import compacting
from tests.tables.compaction.compacting import compact

AUDIT = (
    "branch: audit\n"
    "audit: {rows: {min: 1}, not_null: [id], ranges: {mag: {min: -5, max: 40}}, unique: [id]}\n"
)


@pytest.fixture
def survey(tmp_path: Path) -> Survey:
    return Survey(tmp_path)


@pytest.fixture
def lake(survey: Survey) -> Lake:
    return Lake(survey.place)


def audit(folder: RunFolder) -> AuditReport:
    report = STEPS["audit"].perform(AuditRequest(run_uri=folder.uri))
    assert isinstance(report, AuditReport)
    return report


def night(lake: Lake, **fields: Any) -> AuditReport:
    """A whole run: what is missing is sunk, then audited."""
    folder = lake.resolve(**fields)
    if told(folder).orders:
        lake.sink(folder)
    return audit(folder)


def refs(table: Table) -> set[str]:
    return set(table.metadata.refs)


def spoilt(survey: Survey, number: int) -> None:
    """A night one of whose rows cannot be."""
    survey.night(number)
    rows = survey.landed[number]
    mag = rows["mag"].to_numpy().copy()
    mag[7] = 99.0
    survey.land(number, rows.set_column(3, "mag", pa.array(mag)))
    survey.append(number)


def mended(survey: Survey, number: int) -> None:
    survey.night(number, seed=1)


def vacuum(lake: Lake, keep: int = 1) -> None:
    spec = load_spec(lake.spec, TableSpec)
    later = datetime.now(UTC) + timedelta(days=60)
    catalog = open_catalog(spec.iceberg, lake.warehouse)
    vacuum_table(catalog, spec.table, Retention.of(keep, 0.0), now=later, dry_run=False)


def other_commit(table: Table, number: int = 10**9) -> None:
    """A commit of others to main."""
    some = table.scan(limit=1).to_arrow()
    values = {field.name: pa.nulls(1, field.type) for field in some.schema}
    values["id"] = pa.array([number], some.schema.field("id").type)
    table.append(pa.table(values, some.schema))


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
    lake.write_spec(INCREMENTS + AUDIT)
    survey.night(0)
    night(lake)
    spoilt(survey, 1)
    with pytest.raises(AuditError, match="1 of 4 checks") as failed:
        night(lake)
    assert "NOT PASSED: ranges: mag lies from -5 to 40: 1 values do not, such as 99.0" in str(failed.value)
    assert "On the branch are: stars/2026-10-02" in str(failed.value)
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


def report_text(folder: RunFolder) -> str:
    return Path(folder.uri, "reports", "resolve.json").read_text()


def test_other_checks_let_the_same_branch_pass(lake: Lake, survey: Survey) -> None:
    lake.write_spec(INCREMENTS + AUDIT)
    spoilt(survey, 0)
    with pytest.raises(AuditError):
        night(lake)
    lake.write_spec(INCREMENTS + AUDIT.replace("max: 40", "max: 100"))
    folder = lake.resolve()
    assert told(folder).orders == ()  # nothing is sunk again for it
    assert audit(folder).sinks_count == 1
    assert lake.rows(*COLUMNS).equals(landed(survey, 0))


def test_a_branch_is_begun_anew_where_others_have_changed_main(lake: Lake, survey: Survey) -> None:
    lake.write_spec(INCREMENTS + AUDIT)
    survey.night(0)
    night(lake)
    spoilt(survey, 1)
    with pytest.raises(AuditError):
        night(lake)
    folder = lake.resolve()
    other_commit(lake.table)
    with pytest.raises(PlanError, match="main has changed since branch audit began at snapshot"):
        audit(folder)
    mended(survey, 1)
    survey.night(2)
    folder = lake.resolve()
    assert "it begins anew, and stars/2026-10-02" in report_text(folder)
    assert len(told(folder).orders) == 2
    lake.sink(folder)
    audit(folder)
    rows = lake.rows(*COLUMNS)
    assert rows.slice(0, rows.num_rows - 1).equals(landed(survey, 0, 1, 2))
    assert rows["id"][-1].as_py() == 10**9


def test_a_compaction_of_main_is_such_a_change(lake: Lake, survey: Survey) -> None:
    lake.write_spec(INCREMENTS + AUDIT)
    for number in range(2):
        survey.night(number)
        night(lake)
    spoilt(survey, 2)
    with pytest.raises(AuditError):
        night(lake)
    iceberg = load_spec(lake.spec, TableSpec).iceberg.model_dump()
    before = lake.table.metadata.current_snapshot_id
    compact(compacting.request(lake.place, table="survey.stars", iceberg=iceberg, full=True))
    assert lake.table.metadata.current_snapshot_id != before
    mended(survey, 2)
    report = night(lake)
    assert report.sinks_count == 1
    assert lake.rows(*COLUMNS).equals(landed(survey, 0, 1, 2))
    assert told(lake.resolve()).orders == ()


def test_a_main_that_was_rolled_back_is_not_brought_back(lake: Lake, survey: Survey) -> None:
    lake.write_spec(INCREMENTS + AUDIT)
    for number in range(2):
        survey.night(number)
        night(lake)
    spoilt(survey, 2)
    with pytest.raises(AuditError):
        night(lake)
    before = lake.table.metadata.snapshot_log[-2].snapshot_id
    lake.table.manage_snapshots().rollback_to_snapshot(before).commit()
    assert lake.rows(*COLUMNS).equals(landed(survey, 0))
    folder = lake.resolve()
    assert "it begins anew" in report_text(folder)
    assert len(told(folder).orders) == 2  # the night that was taken back, and the one on the branch


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
    lake.write_spec(INCREMENTS + AUDIT)
    survey.night(0)
    folder = lake.resolve()
    lake.sink(folder)

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


@pytest.mark.parametrize("moment", ["checks", "commit"])
def test_main_that_changes_while_a_branch_is_audited_stays_as_it_is(
    lake: Lake, survey: Survey, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    lake.write_spec(INCREMENTS + AUDIT)
    survey.night(0)
    night(lake)
    survey.night(1)
    folder = lake.resolve()
    lake.sink(folder)
    place, name = (auditing, "_checked") if moment == "checks" else (branch_publishing, "_fast_forward")
    real = getattr(place, name)

    def overtaken(*given: object) -> object:
        if lake.table.metadata.refs["audit"].snapshot_id and not came:
            came.append(other_commit(lake.table))
        return real(*given)

    came: list[None] = []
    with monkeypatch.context() as patch:
        patch.setattr(place, name, overtaken)
        with pytest.raises(ConflictError, match="main has changed since branch audit began"):
            audit(folder)
    with pytest.raises(PlanError, match="run the DAG again"):
        audit(folder)
    rows = lake.rows(*COLUMNS)
    assert rows.slice(0, rows.num_rows - 1).equals(landed(survey, 0))


def test_an_answer_that_is_lost_is_looked_for(
    lake: Lake, survey: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.write_spec(INCREMENTS + AUDIT)
    survey.night(0)
    folder = lake.resolve()
    lake.sink(folder)
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
    lake.write_spec(INCREMENTS + AUDIT)
    survey.night(0)
    night(lake)
    spoilt(survey, 1)
    with pytest.raises(AuditError):
        night(lake)
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


def test_what_others_commit_to_the_branch_is_not_published(lake: Lake, survey: Survey) -> None:
    lake.write_spec(INCREMENTS + AUDIT)
    spoilt(survey, 0)
    with pytest.raises(AuditError):
        night(lake)
    table = lake.table
    rows = table.scan(snapshot_id=table.metadata.refs["audit"].snapshot_id).to_arrow().slice(0, 1)
    table.append(rows, branch="audit")
    with pytest.raises(PlanError, match="which this library has not committed to it"):
        lake.resolve()
    lake.resolve(discard_branch=True)
    assert lake.table.scan().to_arrow().num_rows == 0


def test_a_tag_of_others_is_not_moved(lake: Lake, survey: Survey) -> None:
    lake.write_spec(INCREMENTS + "tag: 'night-{{ night }}'\n")
    survey.night(0)
    lake.run()
    snapshot = lake.table.metadata.current_snapshot_id
    assert snapshot is not None
    lake.table.manage_snapshots().create_tag(snapshot, "night-2026-10-02").commit()
    survey.night(1)
    with pytest.raises(SpecError, match="has a tag 'night-2026-10-02' of stars/2026-10-01"):
        lake.run()
    survey.night(0, seed=3)
    lake.table.manage_snapshots().remove_tag("night-2026-10-02").commit()
    lake.run()
    names = {name: ref.snapshot_id for name, ref in lake.table.metadata.refs.items()}
    for name, key in (("night-2026-10-01", "stars/2026-10-01"), ("night-2026-10-02", "stars/2026-10-02")):
        found = lake.table.snapshot_by_id(names[name])
        assert found is not None
        assert summary_of(found)["hipslake.sink"].startswith(key)
    assert names["night-2026-10-01"] != snapshot  # it moved with the night


def test_a_branch_of_a_tags_name_is_refused(lake: Lake, survey: Survey) -> None:
    lake.write_spec(INCREMENTS)
    survey.night(0)
    lake.run()
    snapshot = lake.table.metadata.current_snapshot_id
    assert snapshot is not None
    lake.table.manage_snapshots().create_tag(snapshot, "audit").commit()
    lake.write_spec(INCREMENTS + AUDIT)
    with pytest.raises(SpecError, match="'audit' is a tag, and no branch"):
        lake.resolve()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(9))
def test_main_has_what_a_dict_has_whatever_happens(lake: Lake, survey: Survey, seed: int) -> None:
    """Random nights, failures, commits of others, vacuums and discards; main is the nights that passed."""
    rng = np.random.default_rng(seed)
    lake.write_spec(INCREMENTS + AUDIT)
    good: dict[int, bool] = {}  # what the catalog has, and whether it would pass
    published: dict[int, pa.Table] = {}
    others = 0
    for _ in range(12):
        choice = rng.integers(0, 8)
        if choice <= 2:
            number = int(rng.integers(0, 5))
            good[number] = bool(rng.random() < 0.7)
            if good[number]:
                survey.night(number, rows=20, seed=int(rng.integers(1, 1000)))
            else:
                survey.land(number, spoilt_rows(number, int(rng.integers(1, 1000))))
                survey.append(number)
        elif choice == 3 and published:
            other_commit(lake.table, 10**9 + others)
            others += 1
        elif choice == 4 and published:
            vacuum(lake, int(rng.integers(1, 4)))
        elif good:
            try:
                night(lake, discard_branch=bool(rng.random() < 0.2))
            except AuditError:
                assert not all(good.values())
            else:
                assert all(good.values())
                published = {number: survey.landed[number] for number in good}
        if published:
            rows = lake.rows(*COLUMNS)
            wanted = pa.concat_tables(list(published.values())).sort_by("id").combine_chunks()
            assert rows.slice(0, rows.num_rows - others).equals(wanted)
            assert rows["id"][rows.num_rows - others :].to_pylist() == [10**9 + at for at in range(others)]
    assert not published or orphans(lake.table) == []


def spoilt_rows(number: int, seed: int) -> pa.Table:
    rows = night_rows(number, 20, seed)
    mag = rows["mag"].to_numpy().copy()
    mag[3] = 99.0
    return rows.set_column(3, "mag", pa.array(mag))
