"""Sinks that are killed: the table stays as it was or has all rows, and the next one leaves no orphan."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

from tests.system import forked, sinks
from tests.system.dying import changes, killed_before
from tests.tables.sinking import Lake

FIRST = {"append": 200, "upsert": 200}


class Stand:
    """A table with a first night, which can be put back as it was: its paths are absolute."""

    def __init__(self, root: Path, mode: str) -> None:
        self.lake, self.mode = Lake(root / "lake"), mode
        self.spec = sinks.spec_of(self.lake, mode)
        self.lake.sink(self.spec, sinks.rows(0, 200, 1))
        self.uri = self.lake.land(sinks.rows(150, 200, 2))
        self.saved = root / "saved"
        shutil.copytree(self.lake.root, self.saved)
        self.before = self.content()

    def content(self) -> list[dict[str, int]]:
        rows: list[dict[str, int]] = self.lake.rows(self.spec).sort_by(
            [("id", "ascending"), ("value", "ascending")]
        )
        return rows.to_pylist()

    def put_back(self) -> None:
        shutil.rmtree(self.lake.root)
        shutil.copytree(self.saved, self.lake.root)

    @property
    def after(self) -> list[dict[str, int]]:
        new = [{"id": n, "value": 2} for n in range(150, 350)]
        kept = [row for row in self.before if self.mode == "append" or row["id"] < 150]
        return sorted(kept + new, key=lambda row: (row["id"], row["value"]))

    def rerun_completes(self) -> None:
        assert self.content() in (self.before, self.after)
        sinks.sink_night(str(self.lake.root), self.mode, self.uri, 2)
        assert self.content() == self.after
        assert sinks.orphans(self.lake.table(self.spec)) == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mode", ["append", "upsert"])
@pytest.mark.parametrize("every", [20, pytest.param(1, marks=pytest.mark.slow)])
def test_a_sink_killed_at_any_moment_is_completed_by_the_next(tmp_path: Path, mode: str, every: int) -> None:
    stand = Stand(tmp_path, mode)
    root = str(stand.lake.root)
    watched = f"{root}/warehouse"
    moments = changes(watched, str(tmp_path / "copies"), sinks.sink_night, root, mode, stand.uri, 2)
    assert stand.content() == stand.after
    shutil.rmtree(tmp_path / "copies")
    assert len(moments) > 15
    unchanged = 0
    for moment in range(0, len(moments), every):
        stand.put_back()
        killed_before(moment, watched, sinks.sink_night, root, mode, stand.uri, 2)
        unchanged += stand.content() == stand.before
        stand.rerun_completes()
    assert 0 < unchanged < len(moments)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_sink_killed_before_the_catalog_is_told_changes_nothing(tmp_path: Path, mode: str) -> None:
    stand = Stand(tmp_path, mode)
    process = forked.start(sinks.die_at_the_catalog, str(stand.lake.root), mode, stand.uri, 2)
    process.join(120)
    assert process.exitcode == -signal.SIGKILL
    assert stand.content() == stand.before
    left = sinks.orphans(stand.lake.table(stand.spec))
    assert [path for path in left if path.endswith(".metadata.json")]
    assert [path for path in left if path.endswith(".avro")]
    assert [path for path in left if path.endswith(".parquet")]
    stand.rerun_completes()
