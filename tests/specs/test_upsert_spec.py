"""Mode upsert in a catalog spec: what it takes, and what does not fit."""

from __future__ import annotations

from typing import Any

import pytest
from hipslake.specs.catalog_spec import CatalogSpec, Mode
from hipslake.specs.upsert_spec import MissingDeletes
from pydantic import ValidationError

OPERATION = {"column": "op"}
VALIDITY = {"from": "since", "to": "until"}


def spec(**keys: Any) -> CatalogSpec:
    base: dict[str, Any] = {
        "name": "stars",
        "source": {"uri": "/data/night={{ night }}/*.parquet", "format": "parquet"},
        "position": {"ra": "ra", "dec": "dec"},
        "mode": "upsert",
        "key": "id",
    }
    return CatalogSpec.model_validate(
        {name: given for name, given in {**base, **keys}.items() if given is not None}
    )


def test_a_spec_survives_its_json() -> None:
    full = spec(
        key=["field", "id"],
        order_by="seq",
        operation={"column": "op", "insert": 1},
        missing_deletes="fail",
        validity={"from": "valid_from", "to": "valid_to"},
    )
    assert full.mode is Mode.UPSERT
    assert full.mode.by_intervals
    assert full.key == ("field", "id")
    assert full.operation is not None
    assert (full.operation.insert, full.operation.update, full.operation.delete) == ("1", "U", "D")
    assert full.missing_deletes is MissingDeletes.FAIL
    assert full.validity is not None
    assert full.validity.columns == ("valid_from", "valid_to")
    assert full.model_dump(mode="json")["validity"] == {"from": "valid_from", "to": "valid_to"}
    assert CatalogSpec.model_validate_json(full.model_dump_json()) == full
    assert full.with_overrides(threshold=None, spark_above_bytes=0).validity == full.validity


def test_specs_of_other_modes_survive_theirs() -> None:
    for mode in ("append", "replace"):
        uri = "/data/{{ night }}/*.parquet" if mode == "append" else "/data/*.parquet"
        other = spec(mode=mode, key=None, source={"uri": uri, "format": "parquet"})
        assert CatalogSpec.model_validate_json(other.model_dump_json()) == other


def test_leaves_gather_files_as_in_an_append() -> None:
    assert spec(append="add_file").gathers
    assert not spec().gathers


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"key": None}, "mode: upsert tells rows by their key"),
        ({"key": ["id", "id"]}, "key: id stands twice"),
        ({"key": ["id", ""]}, "at least 1 character"),
        ({"order_by": "id"}, "order_by: id is part of the key"),
        ({"newest": {"key": "id", "order": "t"}}, "newest: mode upsert lets the last record"),
        ({"source": {"uri": "/data/*.parquet", "format": "parquet"}}, "mode: upsert needs a source.uri"),
        ({"operation": {"column": "op", "insert": "D"}}, "insert and delete are both 'D'"),
        ({"operation": {"column": "op", "update": "x", "delete": "x"}}, "update and delete are both 'x'"),
        ({"operation": {"column": "op", "delete": True}}, "valid string"),
        ({"operation": {"column": "id"}}, "operation.column: id is named by key too"),
        ({"operation": {"column": "t"}, "order_by": "t"}, "operation.column: t is named by order_by too"),
        ({"operation": {"column": "ra"}}, "operation.column: ra is named by position too"),
        ({"operation": OPERATION, "index": ["op"]}, "operation.column: op is named by index too"),
        (
            {"operation": OPERATION, "column_groups": [{"name": "main"}, {"name": "b", "columns": ["op"]}]},
            "operation.column: op is named by column group b too",
        ),
        ({"missing_deletes": "ignore"}, "'count' or 'fail'"),
        ({"mode": "append"}, "key: is only of mode upsert"),
        ({"mode": "append", "key": None, "order_by": "t"}, "order_by: is only of mode upsert"),
        ({"mode": "append", "key": None, "operation": OPERATION}, "operation: is only of mode upsert"),
        (
            {"mode": "append", "key": None, "missing_deletes": "fail"},
            "missing_deletes: is only of mode upsert",
        ),
        ({"mode": "append", "key": None, "validity": VALIDITY}, "validity: is only of mode upsert"),
        ({"validity": {"from": "since"}}, "validity.to"),
        ({"validity": {"from": "since", "to": "Since"}}, "from and to are both column 'since'"),
        ({"validity": VALIDITY | {"to": "ID"}}, "validity.to: ID is named by key too"),
        ({"validity": VALIDITY, "order_by": "since"}, "validity.from: since is named by order_by too"),
        ({"validity": VALIDITY, "index": ["until"]}, "validity.to: until is named by index too"),
        (
            {"validity": VALIDITY, "operation": {"column": "until"}},
            "validity.to: until is named by operation.column too",
        ),
    ],
)
def test_what_does_not_fit(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message.replace("(", r"\(")):
        spec(**keys)
