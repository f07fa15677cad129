"""Audits of branches where others commit, roll back, compact and tag meanwhile."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hipslake.errors import AuditError, ConflictError, PlanError, SpecError
from hipslake.specs.spec_folder import load_spec
from hipslake.specs.table_spec import TableSpec
from hipslake.steps.audit import run as auditing
from hipslake.tables.iceberg import branch_publishing
from hipslake.tables.iceberg.snapshot_history import summary_of

from tests.steps.audit.audits import (
    AUDIT,
    audit,
    left_on_branch,
    mended,
    night,
    other_commit,
    report_text,
    spoilt_rows,
    vacuum,
)
from tests.steps.nights import Survey
from tests.steps.sinks import COLUMNS, INCREMENTS, Lake, landed, told
from tests.system.sinks import orphans
from tests.tables.compaction import compacting
from tests.tables.compaction.compacting import compact


def test_a_branch_is_begun_anew_where_others_have_changed_main(lake: Lake, survey: Survey) -> None:
    left_on_branch(lake, survey, 1)
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
    left_on_branch(lake, survey, 2)
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
    left_on_branch(lake, survey, 2)
    before = lake.table.metadata.snapshot_log[-2].snapshot_id
    lake.table.manage_snapshots().rollback_to_snapshot(before).commit()
    assert lake.rows(*COLUMNS).equals(landed(survey, 0))
    folder = lake.resolve()
    assert "it begins anew" in report_text(folder)
    assert len(told(folder).orders) == 2  # the night that was taken back, and the one on the branch


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


def test_what_others_commit_to_the_branch_is_not_published(lake: Lake, survey: Survey) -> None:
    left_on_branch(lake, survey, 0)
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


@pytest.mark.sampled(9)
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
