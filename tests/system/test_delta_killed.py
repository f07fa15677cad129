"""Changes of Delta tables that are killed: the next run completes them, and leaves no orphan."""

from __future__ import annotations

import shutil
from pathlib import Path
from urllib.parse import unquote

import pytest
from hipslake.tables.delta.delta_log import DeltaLog

from tests.system import delta_runs
from tests.system.dying import changes, killed_before
from tests.tables.delta.delta_lake import plain_delta_rows

Content = list[tuple[int, str, int]]


class DeltaStand:
    """A table with two nights, which can be put back as it was: its paths are absolute."""

    def __init__(self, root: Path, what: str) -> None:
        self.lake, self.what = delta_runs.lake_in(str(root / "lake")), what
        spec = delta_runs.spec_of(self.lake, "changes" if what == "changes" else "append")
        self.location = self.lake.location(spec)
        self.lake.sink(spec, delta_runs.rows(0, 40, 1))
        self.lake.sink(spec.model_copy(update={"name": "other"}), delta_runs.rows(100, 40, 1))
        self.uri = self.lake.land(delta_runs.rows(20, 40, 2))
        self.saved = root / "saved"
        shutil.copytree(self.lake.root, self.saved)
        self.before = self.content()

    def content(self) -> Content:
        return sorted((row["id"], row["band"], row["value"]) for row in plain_delta_rows(self.location))

    def put_back(self) -> None:
        shutil.rmtree(self.lake.root)
        shutil.copytree(self.saved, self.lake.root)

    @property
    def after(self) -> Content:
        new = [(number, "gr"[number % 2], 2) for number in range(20, 60)]
        if self.what == "append":
            return sorted(self.before + new)
        if self.what == "changes":
            kept = [row for row in self.before if not 20 <= row[0] < 60]
            return sorted(kept + [row for row in new if row[0] % 5])
        return [row for row in self.before if self.what == "compaction" or row[0] >= 20]

    def rerun_completes(self) -> None:
        assert self.content() in (self.before, self.after)
        delta_runs.change(str(self.lake.root), self.what, self.uri)
        assert self.content() == self.after
        state = DeltaLog(str(self.location)).newest()
        assert state is not None
        named = {unquote(path) for path in (*state.files, *state.removed)}
        lying = {str(path.relative_to(self.location)) for path in self.location.rglob("data/**/*.parquet")}
        assert lying == named


@pytest.mark.sampled(2)
@pytest.mark.parametrize("what", ["append", "changes", "compaction", "delete"])
@pytest.mark.parametrize("every", [20, pytest.param(1, marks=pytest.mark.slow)])
def test_a_change_killed_at_any_moment_is_completed_by_the_next(
    tmp_path: Path, what: str, every: int
) -> None:
    stand = DeltaStand(tmp_path, what)
    root = str(stand.lake.root)
    watched = f"{root}/warehouse"
    moments = changes(watched, None, delta_runs.change, root, what, stand.uri)
    assert stand.content() == stand.after
    assert len(moments) > 10
    for moment in range(0, len(moments), every):
        stand.put_back()
        killed_before(moment, watched, delta_runs.change, root, what, stand.uri)
        stand.rerun_completes()
