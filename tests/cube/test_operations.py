"""Operations on cubes: each is one version, and loses no rows of others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pandas as pd
import pyarrow as pa
import pytest
from hipslake.api.cube import Cube
from hipslake.cube.store import building
from hipslake.cube.store.metadata import json_schema
from hipslake.cube.store.operations import append, build
from hipslake.cube.store.removal import delete_datasets
from hipslake.storage.folder import Storage
from hipslake.versions.log import VersionLog

from tests.cube.small_cube import MORE, ROLES, SEED, replaced


def test_all_datasets_of_a_build_are_one_version(cube: Storage) -> None:
    assert VersionLog(cube).newest() == 1
    build(cube, "c", ROLES, {"seed": SEED, "more": replaced(MORE, w=[9.0, 9.0])}, overwrite=True)
    assert VersionLog(cube).newest() == 2
    assert Cube.open(cube.uri()).query(columns=["w"])["w"].to_pylist() == [9.0, None, 9.0]
    assert Cube.open(cube.uri(), 1).query(columns=["w"])["w"].to_pylist() == [0.5, None, 1.5]


def test_a_dataset_is_deleted_and_its_columns_with_it(cube: Storage) -> None:
    delete_datasets(cube, ["more"])
    assert Cube.open(cube.uri()).columns == ["i", "p", "x"]


def test_pandas_frames_go_in_and_come_out(place: Storage) -> None:
    frame = pd.DataFrame({"p": [0, 1], "x": [1, 2], "i": [3, 4], "t": pd.Categorical(["a", "b"])})
    build(place, "c", ROLES, {"seed": frame})
    found = list(Cube.open(place.uri()).frames(partition_by="i"))
    assert [each["t"].tolist() for each in found] == [["a"], ["b"]]


def test_others_that_commit_first_do_not_lose_their_rows(
    cube: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = building._written
    meanwhile = [{"seed": pa.table({"p": [1], "x": [9], "i": [7]})}]

    def overtaken(*arguments: Any, **options: Any) -> Any:
        found = written(*arguments, **options)
        if meanwhile:
            append(cube, meanwhile.pop())
        return found

    monkeypatch.setattr(building, "_written", overtaken)
    append(cube, {"seed": pa.table({"p": [1], "x": [8], "i": [7]})})
    assert Cube.open(cube.uri()).query()["x"].to_pylist() == [1, 2, 3, 8, 9]
    named = {write for each in Cube.open(cube.uri()).metadata.datasets for write in each.writes}
    folders = {entry.path for entry in cube.list() if entry.is_dir and entry.path[0].isdigit()}
    assert folders == named, "the work that was done in vain is still there"


def test_metadata_validates_against_the_published_schema(cube: Storage) -> None:
    published = Path(__file__).parents[2] / "docs" / "cube.schema.json"
    assert published.read_text() == json_schema(), (
        "run `python -m hipslake.cube.store.metadata > docs/cube.schema.json`"
    )
    schema = json.loads(published.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(cube.read("metadata.json")), schema)
