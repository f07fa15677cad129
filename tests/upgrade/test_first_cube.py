"""A catalog of nights and a cube, as the code of the first cubes left them, under the code of today."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.api.cube import Cube
from hipslake.cube.store.operations import append, extend
from hipslake.cube.store.upkeep import cleanup, copy
from hipslake.specs.vacuum_spec import Retention
from hipslake.storage.folder import Storage
from hipslake.versions.log import VersionLog

from tests.catalog.leftovers import missing
from tests.readers.outside import assert_current_is_whole
from tests.steps.nights import FIRST, Survey, night_rows
from tests.upgrade.unpacked import unpacked


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return unpacked("first_cube", tmp_path)


def test_nights_go_on(place: Path) -> None:
    survey = Survey(place, more="margin: {arcsec: [3600]}")
    folders = sorted((place / "landing").iterdir())
    survey.landed = {at: pq.ParquetDataset(folder).read() for at, folder in enumerate(folders)}
    assert f"{FIRST:%Y-%m-%d}" in folders[0].name
    survey.assert_holds_what_landed()
    survey.night(3)
    survey.land(1, night_rows(1, rows=60, seed=4))
    survey.append(1)
    survey.assert_holds_what_landed()
    assert_current_is_whole(survey.root)
    survey.catalog.vacuum(keep_versions=1, keep_days=0, dry_run=False)
    survey.assert_holds_what_landed()
    assert missing(survey.root) == set()


def cells(cube: Path, **given: object) -> list[dict[str, object]]:
    return Cube.open(cube).query(**given).sort_by("x").to_pylist()


def test_a_cube_is_read_and_goes_on(place: Path) -> None:
    root = place / "warehouse" / "cubes" / "sky"
    storage = Storage.at(root)
    copy(storage, Storage.at(place / "copy"))  # holds every file against its checksum
    before = cells(root)
    assert (root / "current").is_symlink()  # to a part
    assert cells(place / "copy") == before
    assert [cell["x"] for cell in before] == [*range(60)]
    assert [cell["ok"] for cell in before][:3] == [False, False, False]
    assert {cell["x"] for cell in before if cell["ok"] is not None} == {*range(40), 50}
    append(storage, {"checks": pa.table({"x": [1, 51], "p": [1, 3], "ok": [True, True]})})
    extend(storage, {"more": pa.table({"x": [0, 2], "p": [0, 2], "size": [1.5, 2.5]})})
    cleanup(storage, Retention.of(1, 0.0), dry_run=False)
    assert not (root / "current").is_symlink()
    after = cells(root)
    assert [cell["ok"] for cell in after][:3] == [False, True, False]
    assert {cell["x"] for cell in after if cell["size"] is not None} == {0, 2}
    assert VersionLog(storage).numbers() == [Cube.open(root).version]
