"""The steps that see to cubes: each is one version or none, and a retry finds what an attempt committed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hipslake.api.cube import Cube
from hipslake.cube.store.operations import extend
from hipslake.errors import (
    CatalogFormatError,
    CatalogNotFoundError,
    ConditionError,
    ConflictError,
    CubeError,
    NotWritableError,
    SpecError,
    VersionNotFoundError,
)
from hipslake.steps.cube import cube_copy, cube_removal, cube_upkeep
from hipslake.steps.cube.request import (
    CleanUpCubeReport,
    CleanUpCubeRequest,
    CopyCubeReport,
    CopyCubeRequest,
    CubeStatsReport,
    CubeStatsRequest,
    DeleteCubeRequest,
    RemovalReport,
    RemovePartitionsRequest,
)
from hipslake.steps.report import perform
from hipslake.steps.run import run_uri
from hipslake.storage.folder import Storage
from hipslake.versions.log import VersionLog

from tests.processes import killed
from tests.steps.cubes import SEED, cube_in, everything


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    cube_in(tmp_path / "warehouse")
    return tmp_path / "warehouse"


def of(warehouse: Path, name: str = "sky") -> Cube:
    return Cube.open(f"{warehouse}/cubes/{name}")


def asked(kind: Any, warehouse: Path, run_id: str = "run", **fields: Any) -> Any:
    uri = run_uri(str(warehouse), kind.step, run_id)
    return kind.model_validate({"run_uri": uri, "warehouse": str(warehouse), "cube": "sky", **fields})


def remove(warehouse: Path, run_id: str = "run", **fields: Any) -> RemovalReport:
    request = asked(RemovePartitionsRequest, warehouse, run_id, **fields)
    return perform(cube_removal.remove, request, RemovalReport)


def delete(warehouse: Path, run_id: str = "run", **fields: Any) -> RemovalReport:
    request = asked(DeleteCubeRequest, warehouse, run_id, **{"confirm": "sky", **fields})
    return perform(cube_removal.delete, request, RemovalReport)


def copy(warehouse: Path, run_id: str = "run", **fields: Any) -> CopyCubeReport:
    return perform(cube_copy.run, asked(CopyCubeRequest, warehouse, run_id, **fields), CopyCubeReport)


def clean_up(warehouse: Path, run_id: str = "run", **fields: Any) -> CleanUpCubeReport:
    request = asked(CleanUpCubeRequest, warehouse, run_id, **fields)
    return perform(cube_upkeep.clean_up, request, CleanUpCubeReport)


def test_partitions_are_removed_once_however_often_the_step_runs(warehouse: Path) -> None:
    dry = remove(warehouse, "dry", conditions="p in [1, 2]")
    assert (dry.version, of(warehouse).version) == (None, 1)
    reports = [remove(warehouse, conditions="p in [1, 2]", dry_run=False) for _ in range(2)]
    for report in reports:
        assert (report.version, report.parent) == (2, 1)
        assert [(each.dataset, each.partitions, each.rows) for each in report.gone] == [
            ("checks", 2, 14),
            ("seed", 2, 20),
        ]
        assert report.rows_out == 34
        assert (report.files, report.bytes) == (dry.files, dry.bytes)
    assert set(of(warehouse).query()["p"].to_pylist()) == {0, 3, 4, 5}
    nothing = remove(warehouse, "again", conditions="p in [1, 2]", dry_run=False)
    assert (nothing.version, of(warehouse).version) == (None, 2)
    assert "Would remove of version 1 of sky" in dry.text


@pytest.mark.parametrize(
    ("fields", "error", "said"),
    [
        ({"conditions": ""}, CubeError, "no condition says which partitions"),
        ({"conditions": "x == 1"}, CubeError, "on partition columns .p., not on 'x'"),
        ({"conditions": "p == __import__('os')"}, ConditionError, "is no value"),
        ({"conditions": "p == 1", "datasets": ("../seed",)}, CubeError, "no dataset '../seed'"),
        ({"conditions": "p == 1", "datasets": ("whole",)}, CubeError, "'whole' not by 'p'"),
        ({"conditions": "p == 1", "cube": "../cubes/sky"}, SpecError, "neither the name"),
        ({"conditions": "p == 1", "cube": "gone"}, CatalogNotFoundError, "gone"),
    ],
)
def test_a_removal_that_makes_no_sense_changes_nothing(
    warehouse: Path, fields: dict[str, Any], error: type[Exception], said: str
) -> None:
    extend(of(warehouse).storage, {"whole": SEED.select(["x"])}, partition_columns={"whole": []})
    before = everything(warehouse)
    for dry_run in (True, False):
        with pytest.raises(error, match=said):
            remove(warehouse, **fields, dry_run=dry_run)
    assert everything(warehouse) == before


def test_a_dataset_is_deleted_and_then_the_cube(warehouse: Path) -> None:
    before = everything(warehouse)
    assert delete(warehouse, "dry", datasets=("checks",)).rows_out == 40
    assert delete(warehouse, "dry too").rows_out == 100
    assert everything(warehouse) == before
    for _ in range(2):
        assert delete(warehouse, "some", datasets=("checks",), dry_run=False).version == 2
    assert of(warehouse).datasets == ["seed"]
    (warehouse / "cubes/sky/notes.txt").write_text("of somebody else")
    assert delete(warehouse, "all", dry_run=False).rows_out == 60
    assert list(everything(warehouse / "cubes")) == ["sky/notes.txt"]


@pytest.mark.parametrize(
    ("fields", "error", "said"),
    [
        ({"confirm": ""}, SpecError, "confirm: '' is not 'sky'"),
        ({"confirm": "Sky"}, SpecError, "confirm: 'Sky' is not 'sky'"),
        ({"confirm": "sky", "datasets": ("seed",)}, CubeError, "the seed 'seed' is not deleted alone"),
        ({"confirm": "sky", "datasets": ("nope",)}, CubeError, "no dataset 'nope'"),
        ({"cube": "gone", "confirm": "gone"}, CatalogNotFoundError, "gone"),
        ({"cube": "..", "confirm": ".."}, SpecError, "neither the name"),
    ],
)
def test_a_deletion_that_makes_no_sense_changes_nothing(
    warehouse: Path, fields: dict[str, Any], error: type[Exception], said: str
) -> None:
    before = everything(warehouse)
    with pytest.raises(error, match=said):
        delete(warehouse, **fields, dry_run=False)
    assert everything(warehouse) == before


def test_no_folder_but_a_cube_s_is_deleted(warehouse: Path) -> None:
    (warehouse / "catalogs/stars/_versions").mkdir(parents=True)
    (warehouse / "catalogs/stars/_versions/00000001.json").write_text('{"format": "hipslake-catalog"}')
    (warehouse / "catalogs/stars/metadata.json").write_text('{"format": "hipslake-catalog"}')
    before = everything(warehouse)
    for cube, confirm in ((f"{warehouse}/catalogs/stars", "stars"), (str(warehouse), "warehouse"), ("/", "")):
        with pytest.raises((SpecError, CatalogFormatError, CatalogNotFoundError)):
            delete(warehouse, cube=cube, confirm=confirm, dry_run=False)
    assert everything(warehouse) == before


def killed_at(step: Callable[[], object], method: str, number: int) -> None:
    """Run a step in a process that dies at some call of a method of the storage."""

    def die() -> None:
        count, real = iter(range(1, 1000)), getattr(Storage, method)

        def counted(self: Storage, path: str, *arguments: Any, **options: Any) -> Any:
            if "_heartbeat" not in path and "_runs" not in self.root and next(count) == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(self, path, *arguments, **options)

        setattr(Storage, method, counted)
        step()

    killed(die)


@pytest.mark.parametrize("number", [1, 2])
def test_a_deletion_that_was_killed_is_completed_by_its_retry(warehouse: Path, number: int) -> None:
    killed_at(lambda: delete(warehouse, dry_run=False), "delete_tree", number)
    delete(warehouse, dry_run=False)
    assert everything(warehouse / "cubes") == {}


def test_a_retried_deletion_spares_the_cube_that_was_built_meanwhile(warehouse: Path) -> None:
    killed_at(lambda: delete(warehouse, dry_run=False), "delete_tree", 2)
    cube_in(warehouse)
    with pytest.raises(ConflictError, match="was committed since this run began"):
        delete(warehouse, dry_run=False)
    assert of(warehouse).query().num_rows == 60


@pytest.mark.parametrize("number", [1, 5, 14])
def test_a_copy_that_was_killed_is_completed_by_its_retry(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    killed_at(lambda: copy(warehouse, target="twin"), "write", number)
    assert VersionLog(Storage.at(warehouse / "cubes/twin")).newest() is None
    reports = [copy(warehouse, target="twin") for _ in range(2)]
    assert [(report.version, report.rows_out, report.cube) for report in reports] == [(1, 100, "twin")] * 2
    assert of(warehouse, "twin").query().equals(of(warehouse).query())
    monkeypatch.setenv("HIPSLAKE_STALE_SECONDS", "0")
    monkeypatch.setenv("HIPSLAKE_RESTING_SECONDS", "0")
    clean_up(warehouse, cube="twin", keep_versions=1, keep_days=0, dry_run=False)
    writes = {path.split("/")[0] for path in everything(warehouse / "cubes/twin") if path[0].isdigit()}
    assert len(writes) == 1, "the attempt that died has left something"


@pytest.mark.parametrize(
    ("fields", "error", "said"),
    [
        ({"target": "../twin"}, SpecError, "neither the name"),
        ({"target": "sky"}, CubeError, "not copied onto itself"),
        ({"target": "{warehouse}/cubes/sky/inner"}, SpecError, "one cube would lie in the other"),
        ({"target": "{warehouse}/cubes"}, SpecError, "one cube would lie in the other"),
        ({"target": "{warehouse}/catalogs/twin"}, SpecError, "lies in the warehouse"),
        ({"target": "{warehouse}/../warehouse/_runs/twin"}, SpecError, "lies in the warehouse"),
        ({"target": "{warehouse}/cubes/Twin"}, SpecError, "lies in the warehouse"),
        ({"target": "{warehouse}/../mine"}, NotWritableError, "holds 'precious.txt', which is of no cube"),
        ({"target": "https://example.org/cubes/sky"}, NotWritableError, "web server"),
        ({"target": "twin", "datasets": ("checks",)}, CubeError, "the seed 'seed' is missing"),
        ({"target": "twin", "datasets": ("nope",)}, CubeError, "no dataset 'nope'"),
        ({"target": "twin", "cube": "gone"}, CatalogNotFoundError, "gone"),
    ],
)
def test_a_copy_that_makes_no_sense_writes_nothing(
    warehouse: Path, fields: dict[str, Any], error: type[Exception], said: str
) -> None:
    (warehouse.parent / "mine").mkdir()
    (warehouse.parent / "mine/precious.txt").write_text("of somebody else")
    before = everything(warehouse.parent)
    target = fields["target"].replace("{warehouse}", str(warehouse))
    with pytest.raises(error, match=said):
        copy(warehouse, **(fields | {"target": target}))
    assert everything(warehouse.parent) == before


def test_a_cube_is_cleaned_up_and_weighed(warehouse: Path) -> None:
    remove(warehouse, conditions="p == 1", dry_run=False)
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    keep = {"keep_versions": 1, "keep_days": 0, "created": tomorrow}
    dry = clean_up(warehouse, "dry", **keep)
    assert (dry.dry_run, dry.vacuumed, dry.kept) == (True, (1,), (2,))
    assert "Would vacuum versions: 1" in dry.text
    assert of(warehouse).version == 2
    assert clean_up(warehouse, **keep, dry_run=False).files == dry.files > 0
    with pytest.raises(SpecError, match="keep_versions"):
        clean_up(warehouse, "none", keep_versions=0, keep_days=0)
    request = asked(CubeStatsRequest, warehouse)
    found = perform(cube_upkeep.cube_stats, request, CubeStatsReport)
    assert {each.dataset: each.weight.rows for each in found.datasets} == {"checks": 33, "seed": 50}
    assert "seed: 5 partitions" in found.text
    with pytest.raises(VersionNotFoundError):
        perform(cube_upkeep.cube_stats, asked(CubeStatsRequest, warehouse, "old", version=1), CubeStatsReport)


def test_folders_of_old_runs_of_a_cube_are_swept(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIPSLAKE_RESTING_SECONDS", "0")
    cube_in(warehouse, "other")
    remove(warehouse, "old", conditions="p == 1", created="2020-01-01T00:00:00Z")
    remove(warehouse, "new", conditions="p == 1")
    remove(warehouse, "else", conditions="p == 1", cube="other", created="2020-01-01T00:00:00Z")
    found = clean_up(warehouse, keep_versions=9, keep_days=1, dry_run=False)
    assert found.run_folders == ("_runs/cube_remove_partitions/old",)
    runs = sorted(path.name for path in (warehouse / "_runs/cube_remove_partitions").iterdir())
    assert runs == ["else", "new"]
