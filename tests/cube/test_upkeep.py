"""Cubes are copied, cleaned up, weighed and deleted, beside whoever uses them."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from hipslake.api.cube import Cube
from hipslake.cube.store import upkeep
from hipslake.cube.store.operations import append
from hipslake.cube.store.removal import delete_cube, delete_files
from hipslake.errors import (
    CatalogNotFoundError,
    ConflictError,
    CubeError,
    VerificationError,
    VersionNotFoundError,
)
from hipslake.predicates.conditions import C
from hipslake.specs.vacuum_spec import Retention
from hipslake.storage.folder import Storage
from hipslake.versions.heartbeat import Heartbeat, claim_write
from hipslake.versions.pins import pinning

from tests.cube.small_cube import everything


def test_a_cube_is_deleted_whole(cube: Storage) -> None:
    delete_cube(cube)
    assert everything(cube) == {}


@pytest.mark.parametrize("holds", ["reader", "writer"])
def test_a_cube_that_somebody_uses_is_not_deleted(cube: Storage, holds: str) -> None:
    before = everything(cube)
    with ExitStack() as at_work:
        if holds == "reader":
            at_work.enter_context(pinning(cube)).hold(1)
        else:
            write_id = claim_write(cube, datetime.now(UTC))
            at_work.enter_context(Heartbeat(cube, write_id, rest=False))
        with pytest.raises(ConflictError, match="is at work there; try again when it has ended"):
            delete_cube(cube)
        assert before.items() <= everything(cube).items()
    delete_cube(cube)
    assert everything(cube) == {}


def test_a_reader_that_comes_while_a_cube_is_deleted_keeps_its_files(
    cube: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [path for path in everything(cube) if path.endswith(".parquet")]
    delete = Storage.delete
    with ExitStack() as reading:

        def meanwhile(self: Storage, path: str) -> None:
            if path == "metadata.json":
                reading.enter_context(pinning(cube)).hold(1)
            delete(self, path)

        monkeypatch.setattr(Storage, "delete", meanwhile)
        with pytest.raises(ConflictError, match="half deleted"):
            delete_cube(cube)
        monkeypatch.undo()
        assert set(rows) <= set(everything(cube))
        with pytest.raises(CatalogNotFoundError):
            Cube.open(cube.uri())
    delete_files(cube)
    assert everything(cube) == {}


def test_a_copy_is_whole_and_its_own(cube: Storage, tmp_path: Path) -> None:
    append(cube, {"seed": pa.table({"p": [0], "x": [2], "i": [9]})})
    other = Storage.at(tmp_path / "other")
    copied = upkeep.copy(cube, other, name="d")
    assert (copied.version, copied.cube) == (1, "d")
    expected = Cube.open(cube.uri()).query()
    delete_cube(cube)
    assert Cube.open(other.uri()).query().equals(expected)
    assert Cube.open(other.uri()).query(conditions=C("i") == 9)["x"].to_pylist() == [2]


def test_a_copy_that_misses_a_file_commits_nothing(cube: Storage, tmp_path: Path) -> None:
    other = Storage.at(tmp_path / "other")
    path = Cube.open(cube.uri()).plan().tables["more"].physical["__cube_labels_more"][0].as_py()
    whole = cube.read(path)
    cube.write(path, whole[:-1] + b"x")
    with pytest.raises(VerificationError, match="is damaged"):
        upkeep.copy(cube, other)
    cube.delete(path)
    with pytest.raises(VerificationError, match="is missing"):
        upkeep.copy(cube, other)
    assert everything(other) == {}
    with pytest.raises(CubeError, match="not copied onto itself"):
        upkeep.copy(cube, Storage.at(cube.uri()))


def test_a_copy_replaces_only_when_told(cube: Storage, tmp_path: Path) -> None:
    other = Storage.at(tmp_path / "other")
    upkeep.copy(cube, other, datasets=["seed"])
    upkeep.copy(cube, other, datasets=["more"])
    with pytest.raises(CubeError, match="there is 'more' already"):
        upkeep.copy(cube, other, datasets=["more"])
    upkeep.copy(cube, other, overwrite=True)
    assert Cube.open(other.uri()).query().equals(Cube.open(cube.uri()).query())
    with pytest.raises(CubeError, match="the seed 'seed' is missing"):
        upkeep.copy(cube, Storage.at(tmp_path / "third"), datasets=["more"])


def test_cleanup_removes_what_no_version_needs_and_nothing_else(cube: Storage) -> None:
    append(cube, {"seed": pa.table({"p": [0], "x": [1], "i": [70]})})
    newest = Cube.open(cube.uri()).query()
    keep_one = Retention(keep_versions=1, keep_days=0)
    told = upkeep.cleanup(cube, keep_one)
    assert (told.vacuumed, told.kept) == ((1,), (2,))
    assert Cube.open(cube.uri(), 1).query().num_rows == 3, "a dry run removed something"
    done = upkeep.cleanup(cube, keep_one, dry_run=False)
    assert done.files == told.files > 0
    with pytest.raises(VersionNotFoundError):
        Cube.open(cube.uri(), 1)
    assert Cube.open(cube.uri()).query().equals(newest)
    assert Cube.open(cube.uri()).query(conditions=C("i") == 70)["x"].to_pylist() == [1]


def test_stats_tell_partitions_files_and_rows(cube: Storage) -> None:
    append(cube, {"seed": pa.table({"p": [0], "x": [5], "i": [7]})})
    found = upkeep.stats(cube)
    assert [(found[name].partitions, found[name].files, found[name].rows) for name in ("seed", "more")] == [
        (2, 3, 4),
        (2, 2, 2),
    ]
