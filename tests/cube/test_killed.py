"""Operations on cubes that are killed: what they leave, and what cleans it up."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hipslake.api.cube import Cube
from hipslake.cube.store import upkeep
from hipslake.cube.store.operations import append, build, extend
from hipslake.cube.store.removal import remove_partitions
from hipslake.predicates.conditions import C
from hipslake.specs.vacuum_spec import Retention
from hipslake.storage.folder import Storage
from hipslake.versions.log import VersionLog

from tests.cube.small_cube import MORE, ROLES, everything
from tests.processes import killed

NEW = pa.table({"p": np.arange(9), "x": np.arange(9), "i": np.arange(9)})
KILLED: dict[str, Any] = {
    "build": lambda at, other: build(at, "c", ROLES, {"seed": NEW, "more": MORE}, overwrite=True),
    "extend": lambda at, other: extend(at, {"new": NEW.select(["p", "x"]).append_column("n", [NEW["i"]])}),
    "append": lambda at, other: append(at, {"seed": NEW}),
    "remove": lambda at, other: remove_partitions(at, C("p") == 0),
    "copy": lambda at, other: upkeep.copy(other, at, overwrite=True),
}
MOMENTS = [
    *(("write", number, operation) for operation in ("build", "append", "copy") for number in (1, 7)),
    *(
        pytest.param("write", number, operation, marks=pytest.mark.slow)
        for operation in ("build", "append", "copy")
        for number in (3, 5, 9)
    ),
    *(("write", number, operation) for operation in ("extend", "remove") for number in (1, 2)),
    *(("create", 1, operation) for operation in KILLED),
]


def dying_at(method: str, number: int) -> None:
    """Have this process die at some call of a method of the storage, before it does anything."""
    calls, real = iter(range(1, 1000)), getattr(Storage, method)

    def counted(self: Storage, path: str, *arguments: Any, **options: Any) -> Any:
        if (
            "_heartbeat" not in path
            and (method == "write" or "_versions/0" in path)
            and next(calls) == number
        ):
            os.kill(os.getpid(), signal.SIGKILL)
        return real(self, path, *arguments, **options)

    setattr(Storage, method, counted)


def cleaned_up(place: Storage, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """What is left once all that died counts as dead."""
    monkeypatch.setenv("HIPSLAKE_STALE_SECONDS", "0")
    monkeypatch.setenv("HIPSLAKE_RESTING_SECONDS", "0")
    upkeep.cleanup(place, Retention(keep_versions=10, keep_days=1), dry_run=False)
    return {path for path in everything(place) if not path.startswith("_versions/swept/")}


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("method", "number", "operation"), MOMENTS)
def test_whatever_is_killed_leaves_the_cube_as_it_was_and_cleanup_leaves_no_orphan(
    cube: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, number: int, operation: str
) -> None:
    """In the middle of its files, and at the moment of the commit itself."""
    target = Storage.at(tmp_path / "target")
    upkeep.copy(cube, target)
    before, rows = everything(target), Cube.open(target.uri()).query()

    def die() -> None:
        dying_at(method, number)
        KILLED[operation](target, cube)

    killed(die)
    assert {path: each for path, each in everything(target).items() if path in before} == before
    assert Cube.open(target.uri()).query().equals(rows)
    left = cleaned_up(target, monkeypatch)
    if method == "create":  # its request may be under way, for all that is known, until its number is taken
        [dead] = {path.partition("/")[0] for path in left - set(before)} - {"_versions"}
        append(target, {"seed": NEW})
        assert not [path for path in cleaned_up(target, monkeypatch) if dead in path]
    else:
        assert left == set(before)


@pytest.mark.parametrize("operation", list(KILLED))
def test_what_is_killed_after_its_commit_stands_whole_and_cleanup_spares_it(
    cube: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    """Killed as the pointer to the newest version is replaced: readers look further than the pointer."""
    target, twin = Storage.at(tmp_path / "target"), Storage.at(tmp_path / "twin")
    for each in (target, twin):
        upkeep.copy(cube, each)
    KILLED[operation](twin, cube)

    def die() -> None:
        real = VersionLog.publish_pointers

        def killed_there(self: VersionLog, *arguments: Any) -> int:
            os.kill(os.getpid(), signal.SIGKILL)
            return real(self, *arguments)

        VersionLog.publish_pointers = killed_there  # type: ignore[method-assign]
        KILLED[operation](target, cube)

    killed(die)
    expected = Cube.open(twin.uri())
    assert Cube.open(target.uri()).version == expected.version == 2
    assert Cube.open(target.uri()).query().equals(expected.query())
    left = cleaned_up(target, monkeypatch)
    assert Cube.open(target.uri()).query().equals(expected.query())
    assert len(left) == len(cleaned_up(twin, monkeypatch))
