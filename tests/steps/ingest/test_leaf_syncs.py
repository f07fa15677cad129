"""Leaf files of a disk survive a power cut once the write step has ended: each is synced, and its folder."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path

import pytest
from hipslake.engine.this_process import ThisProcess
from hipslake.errors import StorageError
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.ingest import write
from hipslake.steps.run import RunFolder
from hipslake.steps.tables import read_table
from hipslake.storage.atomic import sync_files
from hipslake.storage.folder import Storage

from tests.steps import in_process


def planned(place: Path) -> RunFolder:
    in_process.write_source(place / "landing")
    more = "column_groups: [{name: main}, {name: seen, columns: [mag]}]"
    spec_file = in_process.write_spec(place / "stars.yaml", f"{place}/landing/*.parquet", more=more)
    folder = in_process.start(place / "warehouse", spec_file)
    in_process.freeze(folder)
    in_process.count(folder)
    in_process.make_plan(folder)
    return folder


@pytest.mark.parametrize("here", [True, False], ids=["by the step", "by tasks of other machines"])
def test_all_leaves_are_synced_when_the_step_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: bool
) -> None:
    folder, sync = planned(tmp_path), os.fsync
    synced: dict[str, int] = {}
    by_step = []

    def noted(descriptor: int) -> None:
        sync(descriptor)
        synced[str(Path(f"/proc/self/fd/{descriptor}").readlink())] = os.fstat(descriptor).st_size

    def by_the_step(paths: Iterable[Path], folders: Iterable[Path]) -> None:
        by_step.extend(paths)
        sync_files(by_step, folders)

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(write, "sync_files", by_the_step)
    monkeypatch.setattr(ThisProcess, "on_this_machine", property(lambda engine: here))
    in_process.write_leaves(folder)
    catalog = Storage.at(FrozenRun.of(folder).catalog_uri)
    leaves = read_table(folder.storage, RunFolder.PARTITIONS).to_pylist()
    assert len(leaves) > 10
    assert len(by_step) == here * len(leaves)
    assert str(Path(catalog.root)) in synced  # in which the write folder has its name
    for leaf in leaves:
        path = Path(catalog.uri(leaf["path"]))
        assert synced[str(path)] == leaf["bytes"] == path.stat().st_size
        assert str(path.parent) in synced


def test_a_leaf_that_cannot_be_synced_fails_the_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, sync, failed = planned(tmp_path), os.fsync, []

    def failing(descriptor: int) -> None:
        path = str(Path(f"/proc/self/fd/{descriptor}").readlink())
        if "Npix=" in path and path.endswith(".parquet") and not failed:
            failed.append(path)
            raise OSError(errno.EIO, "the disk is broken")
        sync(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", failing)
        with pytest.raises(StorageError, match="the disk is broken"):
            in_process.write_leaves(folder)
    assert not folder.storage.is_file(RunFolder.PARTITIONS)
    in_process.write_leaves(folder)  # once it is mended
    assert read_table(folder.storage, RunFolder.PARTITIONS).num_rows > 10
