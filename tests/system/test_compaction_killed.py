"""Compactions that are killed: no row comes or goes, the retry completes them, and nothing is left over."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from hipslake.clustering.checksum import row_checksum

from tests.system import sinks
from tests.system.compactions import compact_small
from tests.system.dying import changes, killed_before
from tests.tables.compaction.compacting import rows_in, stars, write_folder
from tests.tables.sinking import Lake

NIGHTS = 4


class Stand:
    """A table of some nights or a folder of small files, which can be put back as it was."""

    def __init__(self, root: Path, what: str) -> None:
        self.what, self.saved = what, root / "saved"
        self.lake = Lake(root / "lake")
        if what == "table":
            for night in range(NIGHTS):
                self.lake.sink(self.lake.spec(), stars(300, seed=night))
        else:
            write_folder(self.lake.root / "stars", stars(1200), 12)
        self.watched = self.lake.root / "warehouse"
        self.watched.mkdir(exist_ok=True)
        shutil.copytree(self.lake.root, self.saved)
        self.content = row_checksum(self.rows())

    def rows(self) -> pa.Table:
        """What a reader finds now."""
        if self.what == "table":
            return self.lake.rows(self.lake.spec())
        return rows_in(self.lake.root / "stars")

    def is_compacted(self) -> bool:
        """Whether readers see the outcome."""
        if self.what == "table":
            return "group-" in self.lake.live(self.lake.spec())[0].name
        return (self.watched / "compacted").exists()

    def left_over(self) -> list[str]:
        """Files that a write of a killed process left."""
        if self.what == "table":
            return sinks.orphans(self.lake.table(self.lake.spec()))
        return sorted(str(path) for path in self.watched.iterdir() if path.name not in ("compacted", "_runs"))

    def put_back(self) -> None:
        shutil.rmtree(self.lake.root)
        shutil.copytree(self.saved, self.lake.root)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("what", ["table", "folder"])
@pytest.mark.parametrize("every", [38, pytest.param(1, marks=pytest.mark.slow)])
def test_a_compaction_killed_at_any_moment_is_completed_by_its_retry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, every: int
) -> None:
    monkeypatch.setenv("HIPSLAKE_STALE_SECONDS", "0")  # who is killed is dead at once
    stand = Stand(tmp_path, what)
    root, watched = str(stand.lake.root), str(stand.watched)
    moments = changes(watched, str(tmp_path / "copies"), compact_small, root, what)
    assert stand.is_compacted()
    assert stand.left_over() == []
    shutil.rmtree(tmp_path / "copies")
    assert len(moments) > 15
    unchanged = 0
    for moment in range(0, len(moments), every):
        stand.put_back()
        killed_before(moment, watched, compact_small, root, what)
        unchanged += not stand.is_compacted()
        assert row_checksum(stand.rows()) == stand.content
        if what == "folder" and stand.is_compacted():
            assert row_checksum(rows_in(stand.watched / "compacted")) == stand.content
        compact_small(root, what)
        assert stand.is_compacted()
        assert row_checksum(stand.rows()) == stand.content
        if what == "folder":
            assert row_checksum(rows_in(stand.watched / "compacted")) == stand.content
        assert stand.left_over() == []
    assert unchanged > 0
