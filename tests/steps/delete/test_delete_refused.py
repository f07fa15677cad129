"""Deletes that are refused: nothing changes, and the message says what to do."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hipslake import Catalog
from hipslake.errors import (
    FilterError,
    HipslakeError,
    IndexMissingError,
    InputError,
    RegionError,
    SchemaMismatchError,
    SpecError,
)

from tests.steps import in_process
from tests.steps.nights import Survey, night_rows
from tests.steps.upserts import Record, UpsertSurvey


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    survey = UpsertSurvey(tmp_path_factory.mktemp("keyed"))
    survey.upsert(0, [Record("I", key, key, 10.0 + key, 5.0, 1.0, 0) for key in range(200)])
    return survey.catalog


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    survey = Survey(tmp_path_factory.mktemp("plain"), more="index: [id, night]")
    survey.night(0, 200)
    in_process.make_indices(survey.begin(), published=True)
    return survey.catalog


@pytest.mark.parametrize(
    ("chosen", "error", "message"),
    [
        ({}, SpecError, "exactly one of keys, filters and region; none of them was given"),
        ({"keys": [1], "filters": "mag > 1"}, SpecError, "keys and filters was given"),
        ({"filters": "mag > 1", "region": "cone 1 1 1deg"}, SpecError, "filters and region was given"),
        ({"filters": "colour > 1"}, FilterError, "colour"),
        ({"filters": "mag >"}, FilterError, "mag"),
        ({"region": "circle 1 1"}, RegionError, "circle"),
        ({"keys": [1, None]}, InputError, "1 of 2 values of 'id' are null"),
        ({"keys": ["one"]}, SchemaMismatchError, "column 'id' is of type int64"),
        ({"keys": [1.5]}, SchemaMismatchError, "they are double"),
        ({"keys": [True]}, SchemaMismatchError, "they are bool"),
        ({"keys": [date(2026, 1, 1)]}, SchemaMismatchError, "they are date32"),
        ({"keys": [2**70]}, SchemaMismatchError, "'id' is of type int64"),
        ({"keys": "abc"}, SchemaMismatchError, "str has no columns id"),
        ({"keys": {"other": [1]}}, SchemaMismatchError, "dict has no columns id"),
        ({"keys": [1], "column": "id"}, SpecError, "leave column out"),
        ({"filters": "mag > 0", "column": "id"}, SpecError, "no keys are given"),
        ({"filters": "mag > 0"}, SpecError, "200 of the 200 rows of stars, version 1"),
        ({"keys": [1, 2, 3]}, SpecError, "3 of the 200 rows of stars, version 1"),
        ({"keys": [1], "max_fraction": 1.5}, SpecError, "1.5 is no part"),
        ({"keys": [1], "max_fraction": float("nan")}, SpecError, "nan is no part"),
    ],
)
def test_of_records(keyed: Catalog, chosen: dict[str, Any], error: type[HipslakeError], message: str) -> None:
    with pytest.raises(error, match=message):
        keyed.delete(**chosen)
    assert keyed.versions() == [1]
    keyed.verify(all=True).raise_if_failed()


@pytest.mark.parametrize(
    ("chosen", "error", "message"),
    [
        ({"keys": [1]}, SpecError, "name an indexed column .* of id, night"),
        ({"keys": [1.0], "column": "mag"}, IndexMissingError, "'mag' .* has no index"),
        ({"keys": ["x"], "column": "id"}, SchemaMismatchError, "'id' is of type int64"),
        ({"keys": [None], "column": "id"}, InputError, "are null"),
        ({"keys": [0], "column": "night"}, SpecError, "200 of the 200 rows"),
    ],
)
def test_of_rows_without_a_key(
    plain: Catalog, chosen: dict[str, Any], error: type[HipslakeError], message: str
) -> None:
    with pytest.raises(error, match=message):
        plain.delete(**chosen)
    assert plain.versions() == [1, 2]


def test_a_catalog_that_is_replaced_whole(tmp_path: Path) -> None:
    in_process.write_source(tmp_path / "landing", rows=50)
    spec = in_process.write_spec(tmp_path / "stars.yaml", f"{tmp_path}/landing/*.parquet")
    in_process.ingest(in_process.start(tmp_path / "warehouse", spec))
    with pytest.raises(SpecError, match="of mode replace, whose next run replaces all rows"):
        Catalog.open(tmp_path / "warehouse" / "catalogs" / "stars").delete(filters="mag > 0", force=True)


def test_what_is_gone_or_never_was_makes_no_version(tmp_path: Path) -> None:
    survey = Survey(tmp_path, more="index: [id]")
    survey.land(0, night_rows(0, 100))
    survey.append(0)
    in_process.make_indices(survey.begin(), published=True)
    catalog = survey.catalog
    assert catalog.delete(keys=[10**6, 10**7]).version == 2
    assert catalog.delete(region="cone 200 -80 1deg").version == 2
    assert catalog.delete(keys=[7, 10**6], max_fraction=0.01).version == 3
    assert catalog.delete(keys=[7]).version == 3
    assert catalog.versions() == [1, 2, 3]
    assert Catalog.open(survey.root).find("id", [7, 8])["id"].to_pylist() == [8]
    survey.catalog.verify(all=True).raise_if_failed()


def test_keys_of_many_forms(tmp_path: Path) -> None:
    survey = UpsertSurvey(tmp_path, key="[id, night]")
    records = [Record("I", key, key, 10.0 + key, 5.0, 1.0, key % 3) for key in range(30)]
    survey.upsert(0, records)
    forms: list[Any] = [
        [(0, 0), (1, 1)],
        [{"id": 2, "night": 2}, {"night": 0, "id": 3}],
        {"id": [4, 5], "night": np.array([1, 2])},
        pd.DataFrame({"night": [0, 1], "id": [6, 7]}),
        pa.table({"id": [8, 9], "mag": [0.0, 0.0], "night": pa.array([2, 0], pa.int64())}),
        [("10", "1"), ("11", "2")],
        [(12, 1), (100, 0)],  # which no row has
    ]
    for number, keys in enumerate(forms):
        after = survey.catalog.delete(keys=keys, max_fraction=0.5)
        gone = min(2 * number + 2, 12)
        assert sorted(after.read()["id"].to_pylist()) == list(range(gone, 30))
    for wrong in ([1, 2], [(1, 2, 3)], [[1]]):
        with pytest.raises(SchemaMismatchError, match="has no columns id, night"):
            survey.catalog.delete(keys=wrong)


def test_a_catalog_that_keeps_earlier_rows(tmp_path: Path) -> None:
    survey = UpsertSurvey(tmp_path, more="validity: {from: since, to: until}")
    survey.upsert(0, [Record("I", 1, 1, 10.0, 5.0, 1.0, 0)])
    with pytest.raises(SpecError, match="keeps earlier rows of its keys"):
        survey.catalog.delete(keys=[1], force=True)
    assert survey.catalog.versions() == [1]
