"""Transactions put the metadata of their table together once for each change."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hipslake.tables.iceberg.transactions import transaction_of
from pyiceberg import table as module
from pyiceberg.table.metadata import TableMetadata

from tests.tables.sinking import Lake


def timeless(metadata: TableMetadata) -> TableMetadata:
    return metadata.model_copy(update={"last_updated_ms": 0})


def test_metadata_are_put_together_once_for_each_change(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = lake.spec()
    lake.sink(spec, pa.table({"id": [1, 2]}))
    table = lake.table(spec)
    made: list[Any] = []
    real = module.update_table_metadata

    def counted(*given: Any) -> Any:
        made.append(given)
        return real(*given)

    monkeypatch.setattr(module, "update_table_metadata", counted)
    before = table.metadata
    with transaction_of(table) as ours:
        plain = table.transaction()
        assert [timeless(ours.table_metadata) == timeless(plain.table_metadata) for _ in range(3)] == [
            True
        ] * 3
        assert len(made) == 1 + 3
        for name in ("one", "two"):
            ours.set_properties({name: "1"})
            plain.set_properties({name: "1"})
            assert timeless(ours.table_metadata) == timeless(plain.table_metadata)
            assert ours.table_metadata.properties[name] == "1"
        assert table.metadata == before
        assert table.metadata is not ours.table_metadata
    assert {"one", "two"} <= lake.table(spec).properties.keys()
    assert timeless(ours.table_metadata) == timeless(table.metadata)  # which is what was committed


def test_a_commit_looks_often_and_copies_the_metadata_few_times(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = lake.spec()
    lake.sink(spec, pa.table({"id": [1, 2]}))
    made: list[Any] = []
    real = module.update_table_metadata
    monkeypatch.setattr(module, "update_table_metadata", lambda *given: made.append(given) or real(*given))
    lake.sink(spec, pa.table({"id": [3, 4]}))
    assert 0 < len(made) < 10  # of each change of a commit, and of what is planned to fit the table
