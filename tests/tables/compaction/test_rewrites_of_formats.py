"""Rewrites of tables of each format while others write, and after runs that failed."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hipslake.errors import ConflictError, StorageError
from hipslake.steps.compact_table import run as compact_table_run
from hipslake.steps.compact_table.request import CompactTableRequest
from hipslake.tables.delta.delta_compaction import DeltaRewrite
from hipslake.tables.iceberg.iceberg_rewrite import IcebergRewrite

from tests.tables.compaction import compacting, iceberg
from tests.tables.compaction.compacting import before_commit, compact, stars
from tests.tables.delta.delta_lake import DeltaLake, plain_delta_rows, plain_log
from tests.tables.plain_reader import counted, plain_rows
from tests.tables.sinking import Lake
from tests.tables.test_sink_modes import interval

FORMATS = ("iceberg", "delta")


class IcebergSample:
    """An Iceberg table that is fed night by night."""

    rewrite: type[Any] = IcebergRewrite

    def __init__(self, root: Path) -> None:
        self.lake = Lake(root)

    def sink(self, night: int, rows: pa.Table, partition: tuple[str, ...] = ()) -> None:
        """Append the rows of a night."""
        self.lake.sink(self.lake.spec(partition=partition), rows, **interval(night + 1))

    def request(self, **given: Any) -> CompactTableRequest:
        """The request of a compaction."""
        return iceberg.request(self.lake, **given)

    def content(self) -> Counter[Any]:
        """The rows, as a plain reader finds them."""
        return counted(plain_rows(iceberg.table_of(self.lake)))

    def versions(self) -> int:
        """How many were committed."""
        return len(iceberg.table_of(self.lake).snapshots())

    def files(self) -> int:
        """How many data files the newest version has."""
        return len(iceberg.files_of(self.lake))


class DeltaSample(IcebergSample):
    """A Delta table that is fed so."""

    rewrite: type[Any] = DeltaRewrite

    def __init__(self, root: Path) -> None:
        self.lake = DeltaLake(root)
        self.location = self.lake.location(self.lake.spec())

    def request(self, **given: Any) -> CompactTableRequest:
        return compacting.request(self.lake.root, table="survey.sample", format="delta", **given)

    def content(self) -> Counter[Any]:
        return counted(plain_delta_rows(self.location))

    def versions(self) -> int:
        return len(list((self.location / "_delta_log").glob("*.json")))

    def files(self) -> int:
        return len(plain_log(self.location))


def sample_of(form: str, root: Path) -> IcebergSample:
    return DeltaSample(root) if form == "delta" else IcebergSample(root)


@pytest.fixture(params=FORMATS)
def by_band(request: pytest.FixtureRequest, tmp_path: Path) -> IcebergSample:
    """A table of two partitions, of 4 files each."""
    table = sample_of(request.param, tmp_path)
    bands = pa.array(["g" if n % 3 else "r" for n in range(400)])
    for night in range(4):
        table.sink(night, stars(400, seed=night).append_column("band", bands), ("band",))
    return table


def test_groups_are_committed_one_by_one_and_a_retry_goes_on(
    by_band: IcebergSample, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, stood = by_band.content(), by_band.versions()
    asked = by_band.request(run="by hand", max_commits=5, full=True)

    def fails() -> None:
        raise StorageError("the store does not answer")

    before_commit(monkeypatch, by_band.rewrite, fails, at=2)
    with pytest.raises(StorageError):
        compact(asked)
    monkeypatch.undo()
    assert by_band.versions() == stood + 1
    assert by_band.content() == before
    report = compact(asked)
    assert (report.bins, report.removed.files, report.commits) == (1, 4, 1)
    assert by_band.versions() == stood + 2
    assert by_band.content() == before
    assert compact_table_run.run(asked, by_band.lake.engine).version == report.version
    whole = compact(by_band.request(max_commits=5, full=True))
    assert (whole.commits, whole.bins) == (2, 2)
    assert by_band.content() == before


def test_a_conflict_in_all_groups_ends_the_run(
    by_band: IcebergSample, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = by_band.content()
    before_commit(monkeypatch, by_band.rewrite, lambda: compact(by_band.request()))
    with pytest.raises(ConflictError, match="8 files that were read are gone"):
        compact(by_band.request())
    assert by_band.content() == before


@pytest.mark.sampled(3)
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    "by", [{}, {"mode": "hilbert", "columns": ["ra", "dec"]}, {"mode": "sort", "sort": ["ra"]}]
)
def test_ten_rounds_under_appends_end_with_the_files_of_a_quiet_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: dict[str, Any], form: str
) -> None:
    busy, quiet = sample_of(form, tmp_path / "busy"), sample_of(form, tmp_path / "quiet")
    nights = [stars(300, seed=night) for night in range(21)]
    for table in (busy, quiet):
        table.sink(0, nights[0])
    asked = by | {"target_file_size": "20 KiB"}
    for night in range(1, 21, 2):
        for table in (busy, quiet):
            table.sink(night, nights[night])
        before_commit(monkeypatch, busy.rewrite, partial(busy.sink, night + 1, nights[night + 1]))
        compact(busy.request(**asked))
        monkeypatch.undo()
        compact(quiet.request(**asked))
        quiet.sink(night + 1, nights[night + 1])
    for table in (busy, quiet):
        compact(table.request(**asked))
        assert compact(table.request(**asked)).version == ""
    assert busy.content() == quiet.content()
    assert busy.files() == quiet.files()
    at_once = compact(quiet.request(full=True, **asked)).added.files
    assert busy.files() <= 1.5 * at_once
