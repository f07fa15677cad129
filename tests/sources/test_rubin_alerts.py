"""Alerts with Rubin's schema, written by Rubin's own package, against fastavro's reading of them."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.tables import read_table

from tests.sources.reading import read, source
from tests.steps.in_process import ingest, start, write_spec

fastavro = pytest.importorskip("fastavro")
packet = pytest.importorskip("lsst.alert.packet")

PLAIN = {
    "int": lambda rng: int(rng.integers(-(1 << 31), 1 << 31)),
    "long": lambda rng: int(rng.integers(-(1 << 60), 1 << 60)),
    "float": lambda rng: float(np.float32(rng.normal())),
    "double": lambda rng: float(rng.normal()),
    "boolean": lambda rng: bool(rng.integers(2)),
    "string": lambda rng: "x" * int(rng.integers(9)),
    "bytes": lambda rng: rng.bytes(int(rng.integers(60))),
}


def value_of(kind: Any, rng: np.random.Generator, named: dict[str, Any]) -> Any:
    """A value of a kind of Avro's; one in three of those that may be null is."""
    if isinstance(kind, list):
        some = [each for each in kind if each != "null"]
        return None if len(some) < len(kind) and rng.random() < 0.33 else value_of(some[0], rng, named)
    if isinstance(kind, str):
        return PLAIN[kind](rng) if kind in PLAIN else value_of(named[kind], rng, named)
    if kind["type"] == "record":
        named[kind["name"]] = kind
        return {field["name"]: value_of(field["type"], rng, named) for field in kind["fields"]}
    if kind["type"] == "array":
        return [value_of(kind["items"], rng, named) for _ in range(int(rng.integers(4)))]
    if "logicalType" in kind:  # times that Python's have, too
        return int(rng.integers(0, 1 << 51))
    return value_of(kind["type"], rng, named)


def write_alerts(folder: Path, alerts: int, per_file: int, distinct: int = 500) -> None:
    """Files of alerts at places all over the sky; their values come again after so many, but for the id."""
    schema, rng = packet.Schema.from_file(), np.random.default_rng(4)
    named: dict[str, Any] = {}
    made = [value_of(schema.definition, rng, named) for _ in range(min(distinct, alerts))]
    ra, dec = rng.uniform(0, 360, alerts), np.degrees(np.arcsin(rng.uniform(-1, 1, alerts)))

    def alert(number: int) -> dict[str, Any]:
        one = dict(made[number % len(made)])
        one["diaSourceId"] = number
        one["diaSource"] = one["diaSource"] | {"ra": float(ra[number]), "dec": float(dec[number])}
        return one

    folder.mkdir()
    for first in range(0, alerts, per_file):
        with (folder / f"{first:09d}.avro").open("wb") as file:
            schema.store_alerts(file, (alert(at) for at in range(first, min(first + per_file, alerts))))


def columns_of(records: list[Any], schema: Any) -> dict[str, list[Any]]:
    """What fastavro reads, as columns: records within records by their paths, arrays of them as lists."""
    columns: dict[str, list[Any]] = {}
    named: dict[str, Any] = {}

    def resolved(kind: Any) -> Any:
        kind = next(each for each in kind if each != "null") if isinstance(kind, list) else kind
        if isinstance(kind, dict) and kind["type"] == "record":
            named[kind["name"]] = kind
        return named.get(kind, kind) if isinstance(kind, str) else kind

    def put(path: str, kind: Any, values: list[Any]) -> None:
        kind = resolved(kind)
        if isinstance(kind, dict) and kind["type"] == "record":
            for field in kind["fields"]:
                name = field["name"]
                put(f"{path}_{name}", field["type"], [value and value[name] for value in values])
        elif isinstance(kind, dict) and kind["type"] == "array":
            names = [field["name"] for field in resolved(kind["items"])["fields"]]
            columns[path] = [
                None if value is None else {name: [each[name] for each in value] for name in names}
                for value in values
            ]
        else:
            columns[path] = values

    for field in schema["fields"]:
        put(field["name"], field["type"], [record[field["name"]] for record in records])
    return columns


def read_by_fastavro(path: Path) -> dict[str, list[Any]]:
    with path.open("rb") as file:
        reader = fastavro.reader(file)
        return columns_of(list(reader), reader.writer_schema)


def test_alerts_are_those_that_fastavro_reads(tmp_path: Path) -> None:
    write_alerts(tmp_path / "alerts", 150, 100)
    found = read(source("avro", f"{tmp_path}/alerts/*.avro"), 100_000)
    assert found.num_rows == 150
    assert {"diaSource_ra", "diaObject_ra", "prvDiaSources", "cutoutScience"} <= set(found.column_names)
    expected = [read_by_fastavro(path) for path in sorted((tmp_path / "alerts").iterdir())]
    for name in found.column_names:
        assert found[name].to_pylist() == list(chain.from_iterable(each[name] for each in expected)), name
    assert list(expected[0]) == found.column_names


@pytest.mark.slow
def test_a_hundred_thousand_alerts_become_a_catalog_with_all_their_values(tmp_path: Path) -> None:
    alerts = 100_000
    write_alerts(tmp_path / "alerts", alerts, 10_000)
    spec = write_spec(tmp_path / "stars.yaml", f"{tmp_path}/alerts/*.avro", threshold="5000 rows")
    text = spec.read_text().replace("format: parquet", "format: avro")
    spec.write_text(text.replace("{ra: ra, dec: dec}", "{ra: diaSource_ra, dec: diaSource_dec}"))
    folder = start(tmp_path / "warehouse", spec)
    ingest(folder)
    paths = read_table(folder.storage, folder.PARTITIONS)["path"].to_pylist()
    leaves = [pq.ParquetFile(f"{FrozenRun.of(folder).catalog_uri}/{path}") for path in paths]
    for number, path in enumerate(sorted((tmp_path / "alerts").iterdir())):
        expected = read_by_fastavro(path)
        low, high = number * 10_000, (number + 1) * 10_000
        at = pa.compute.field("diaSourceId")
        mine = [leaf.read().filter((at >= low) & (at < high)) for leaf in leaves]
        rows = pa.concat_tables(mine).sort_by("diaSourceId")
        assert rows.num_rows == high - low
        for name, values in expected.items():
            assert rows[name].to_pylist() == values, name
