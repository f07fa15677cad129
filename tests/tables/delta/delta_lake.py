"""Small sinks into Delta tables for tests, and their content again, read in plain Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from hipslake.specs.table_spec import TableSpec

from tests.peers.running import run_peer
from tests.tables.delta.vectors import positions_of
from tests.tables.sinking import Lake

OTHERS = Path(__file__).with_name("others_write_delta.py")
Row = dict[str, Any]


class DeltaLake(Lake):
    """A warehouse with Delta tables."""

    def spec(self, **given: Any) -> TableSpec:
        usual = {
            "name": "sample",
            "table": "survey.sample",
            "format": "delta",
            "source": {"files": {"uri": "/nowhere/*.parquet", "format": "parquet"}},
        }
        return TableSpec.model_validate(usual | given)

    def location(self, spec: TableSpec) -> Path:
        """The folder of a table."""
        return Path(self.warehouse, "delta", *spec.table.split("."))


def plain_log(location: Path, version: int | None = None) -> dict[str, dict[str, Any]]:
    """The live `add` actions of a table by path, from the JSON of its log alone, which must be whole."""
    live: dict[str, dict[str, Any]] = {}
    features: list[str] = []
    enabled: str | None = None
    for path in sorted((location / "_delta_log").glob("*.json")):
        if version is not None and int(path.stem) > version:
            continue
        seen, added, gone = set(), {}, set()
        for line in path.read_text().splitlines():
            [(kind, told)] = json.loads(line).items()
            if kind in ("add", "remove"):
                same = (told["path"], json.dumps(told.get("deletionVector"), sort_keys=True))
                assert same not in seen, "a file comes twice in a commit"
                seen.add(same)
            if kind == "add":
                added[told["path"]] = told
            elif kind == "remove":
                assert live[told["path"]].get("deletionVector") == told.get("deletionVector")
                gone.add(told["path"])
            elif kind == "protocol":
                features = told.get("readerFeatures", [])
            elif kind == "metaData":
                enabled = told["configuration"].get("delta.enableDeletionVectors")
        for each in added.values():
            if each.get("deletionVector") and each["dataChange"]:
                assert "deletionVectors" in features, "the table has no deletion vectors"
                assert enabled == "true"
        live = {name: told for name, told in live.items() if name not in gone} | added
    return live


def plain_delta_rows(location: Path, version: int | None = None) -> list[Row]:
    """The rows of a table, in plain Python; partition values as texts."""
    found = []
    for path, told in plain_log(location, version).items():
        rows = pq.ParquetFile(location / unquote(path)).read().to_pylist()
        stats = json.loads(told["stats"])
        assert stats["numRecords"] == len(rows)
        if told.get("deletionVector"):
            assert stats["tightBounds"] is False
            gone = set(positions_of(told["deletionVector"], location))
            assert max(gone) < len(rows)
            rows = [row for number, row in enumerate(rows) if number not in gone]
        assert told["size"] == (location / unquote(path)).stat().st_size
        found += [row | told["partitionValues"] for row in rows]
    return found


def by_peers(
    python: str, location: Path | str, folder: Path, only: tuple[str, ...] = ()
) -> dict[str, pa.Table]:
    """What delta-rs, polars and DuckDB read of a table; `only` names some of them."""
    folder.mkdir(parents=True, exist_ok=True)
    program = Path(__file__).with_name("read_delta_by_peers.py")
    run_peer(python, program, str(location), str(folder), ",".join(only))
    return {path.stem: pq.read_table(path) for path in sorted(folder.glob("*.parquet"))}


def others(python: str, location: Path | str, *what: str) -> Any:
    """Let delta-rs write, or look."""
    return json.loads(run_peer(python, OTHERS, str(location), *what))


def values(location: Path) -> list[tuple[int, int]]:
    return sorted((row["id"], row["value"]) for row in plain_delta_rows(location))


def rows(keys: list[int], value: int, group: str = "g0") -> pa.Table:
    return pa.table(
        {
            "id": pa.array(keys, pa.int64()),
            "group": pa.array([group] * len(keys), pa.string()),
            "value": pa.array([value] * len(keys), pa.int64()),
        }
    )
