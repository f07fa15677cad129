"""Reassignments that are refused: nothing changes, and the message says what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hipslake
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hipslake import Catalog
from hipslake.errors import (
    FilterError,
    HipslakeError,
    InputError,
    SchemaMismatchError,
    SpecError,
    VerificationError,
)

from tests.steps.upserts import Record, UpsertHistory, UpsertSurvey

PLACED: dict[str, Any] = {"position": {"ra": "ra", "dec": "dec"}}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten objects, and two hundred sources of them, whose objects are told in three ways."""
    place = tmp_path_factory.mktemp("warehouse")
    ids = np.arange(10)
    objects = pa.table({"id": ids, "ra": 10.0 * ids, "dec": 5.0 * ids})
    spec = PLACED | {"name": "objects", "mode": "append", "co_partitioned": ["id"], "index": ["id"]}
    hipslake.ingest(objects, spec=spec, warehouse=place, interval="2026-11-01", spark=False)
    of = np.arange(200) % 10
    table = pa.table(
        {"id": np.arange(200), "object_id": of, "ra": 10.0 * of, "dec": 5.0 * of, "seq": np.arange(200)}
    )
    keyed = PLACED | {"mode": "upsert", "key": "id", "order_by": "seq"}
    placed = {"position_from": {"catalog": "objects", "on": {"object_id": "id"}}}
    for name, more in (("sources", placed), ("marked", {"co_partitioned": ["object_id"]}), ("free", {})):
        spec = keyed | more | {"name": name}
        hipslake.ingest(table, spec=spec, warehouse=place, interval="2026-11-01", spark=False)
    return place


def opened(warehouse: Path, name: str) -> Catalog:
    return Catalog.open(warehouse / "catalogs" / name)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"to": 1}, SpecError, "a reassignment takes exactly one of keys, filters and region; none of them"),
        ({"keys": [1], "filters": "id > 1", "to": 1}, SpecError, "keys and filters was given"),
        ({"filters": "id = 1"}, SpecError, "'object_id', which says it of each; neither of them"),
        ({"keys": {"id": [1], "object_id": [2]}, "to": 1}, SpecError, "both was given"),
        ({"keys": pd.DataFrame({"id": [1], "object_id": [2]}), "to": 1}, SpecError, "both was given"),
        ({"keys": pa.table({"id": [1], "object_id": [2]}), "to": 1}, SpecError, "both was given"),
        ({"keys": [1, 2]}, SchemaMismatchError, "has no columns id, object_id"),
        ({"keys": {"id": [1]}}, SchemaMismatchError, "has no columns id, object_id"),
        ({"keys": [1], "to": "x"}, SchemaMismatchError, "column 'object_id' is of type int64"),
        ({"keys": [1], "to": 1.5}, SchemaMismatchError, "they are double"),
        ({"keys": ["x"], "to": 1}, SchemaMismatchError, "column 'id' is of type int64"),
        ({"keys": [(1, None)]}, InputError, "1 of 1 values of 'object_id' are null"),
        ({"keys": [None], "to": 1}, InputError, "are null"),
        ({"keys": [(1, 2), (3, 4), (1, 5)]}, InputError, "id 1 is given to two objects"),
        ({"keys": [1], "to": 777}, InputError, "objects that there are not: object_id 777"),
        ({"keys": [(1, 2), (3, 777)], "force": True}, InputError, "777"),
        ({"filters": "colour > 1", "to": 1}, FilterError, "colour"),
        ({"keys": [1], "to": 1, "column": "colour"}, SchemaMismatchError, "no column 'colour'"),
        ({"keys": [1], "to": 1, "column": "id"}, SpecError, "id is a column of key"),
        ({"keys": [1], "to": 1, "column": "seq"}, SpecError, "seq is a column of order_by"),
        ({"keys": [1], "to": 1, "column": "dec"}, SpecError, "dec is a column of position"),
        ({"filters": "id >= 0", "to": 1}, SpecError, "200 of the 200 rows .* would be reassigned, .* lets 2"),
        ({"keys": [1], "to": 1, "max_fraction": 2}, SpecError, "2 is no part"),
    ],
)
def test_sources(warehouse: Path, given: dict[str, Any], error: type[HipslakeError], message: str) -> None:
    catalog = opened(warehouse, "sources")
    with pytest.raises(error, match=message):
        catalog.reassign(**given)
    assert catalog.versions() == [1]
    left = [path.name for path in Path(catalog.uri).iterdir() if path.name[0].isdigit()]
    assert left == [catalog.metadata.write_id]


def test_a_column_of_objects_has_to_be_known(warehouse: Path) -> None:
    with pytest.raises(SpecError, match="does not say which column names the object"):
        opened(warehouse, "free").reassign([1], 2)
    with pytest.raises(VerificationError, match="object_id"):  # rows lie where they were seen
        opened(warehouse, "marked").reassign([1], 2)
    assert opened(warehouse, "marked").versions() == [1]
    catalog = opened(warehouse, "free").reassign([1], 2, column="object_id")
    assert catalog.read(filters="id = 1")["object_id"].to_pylist() == [2]


def test_catalogs_whose_rows_stay_or_have_no_key(tmp_path: Path, warehouse: Path) -> None:
    with pytest.raises(SpecError, match="is not of mode upsert"):
        opened(warehouse, "objects").reassign([1], 2, column="id")
    history = UpsertHistory(tmp_path)
    history.upsert(0, [Record("I", key, key, 10.0, 5.0, 1.0, 0) for key in range(9)])
    with pytest.raises(SpecError, match="keeps earlier rows of its keys"):
        history.catalog.reassign([1], 2.0, column="mag")
    assert history.catalog.versions() == [1]


def test_nothing_to_do_makes_no_version(tmp_path: Path) -> None:
    survey = UpsertSurvey(tmp_path)
    survey.upsert(0, [Record("I", key, key, 10.0 + key, 5.0, 1.0, 0) for key in range(9)])
    catalog = survey.catalog
    assert catalog.reassign([3, 777], 1.0, column="mag", force=True).version == 1
    assert catalog.reassign([777], 2.0, column="mag").version == 1
    assert catalog.reassign([(777, 3.0)], column="mag").version == 1
    assert catalog.reassign([3, 777], 2.0, column="mag", force=True).version == 2
    survey.catalog.verify(all=True).raise_if_failed()
