"""Avro files against fastavro's own reading of them: records as they are, beside the columns they become."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hipslake.errors import (
    InputError,
    MissingPackageError,
    ReservedColumnError,
    SchemaMismatchError,
)

from tests.sources.avro_files import ALERT, SOURCE, alerts, avro, container_of, fastavro, record_of, write
from tests.sources.reading import read


def flat(record: dict[str, Any], separator: str = "_") -> dict[str, Any]:
    """The columns of a record, written down once more, without Arrow."""
    row: dict[str, Any] = {}

    def put(path: str, schema: Any, value: Any) -> None:
        kind = next(each for each in schema if each != "null") if isinstance(schema, list) else schema
        kind = SOURCE if kind in ("diaSource", "lsst.v1.diaSource") else kind
        if isinstance(kind, dict) and kind["type"] == "record":
            for field in kind["fields"]:
                put(
                    path + separator + field["name"],
                    field["type"],
                    None if value is None else value[field["name"]],
                )
        elif isinstance(kind, dict) and kind["type"] == "array" and kind["items"] == "diaSource":
            names = [field["name"] for field in SOURCE["fields"]]  # type: ignore[index]
            row[path] = None if value is None else {name: [each[name] for each in value] for name in names}
        else:
            row[path] = value

    for field in ALERT["fields"]:
        put(field["name"], field["type"], record[field["name"]])  # type: ignore[index]
    return row


@pytest.mark.sampled(3)
@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
@pytest.mark.parametrize("target", [1 << 28, 3000, 1])
def test_records_are_those_that_fastavro_reads(tmp_path: Path, codec: str, target: int) -> None:
    rows = 12 if target == 1 else 300
    write(tmp_path / "a.avro", ALERT, alerts(rows), codec)
    write(tmp_path / "b.avro", ALERT, alerts(5, seed=2), codec)
    (tmp_path / "c.avro").write_bytes(b"")
    expected = []
    for name in ("a", "b"):
        with (tmp_path / f"{name}.avro").open("rb") as file:
            expected += [flat(record) for record in fastavro.reader(file)]
    found = read(avro(tmp_path), target)
    assert found.num_rows == rows + 5
    assert found.to_pylist() == expected


def test_each_part_of_a_file_is_read_alone(tmp_path: Path) -> None:
    write(tmp_path / "a.avro", ALERT, alerts(900))
    reader = avro(tmp_path)
    files = reader.list_files()
    whole, schema = read(reader), reader.schema(files)
    assert schema is not None
    for target in (500, 777, 4096, 100_000):
        splits = reader.splits(files, target)
        parts = [list(reader.read(split, schema)) for split in splits]
        assert pa.Table.from_batches([batch for part in parts for batch in part], schema).equals(whole)
        if target == 4096:
            assert sum(bool(part) for part in parts) > 10


def test_some_columns_are_read_without_the_others(tmp_path: Path) -> None:
    write(tmp_path / "a.avro", ALERT, alerts(100))
    whole = read(avro(tmp_path))
    for names in (["diaSource_ra", "diaSource_dec"], ["last_psfFlux", "prvDiaSources"], ["kind"]):
        assert read(avro(tmp_path), columns=names).equals(
            whole.select([n for n in whole.column_names if n in names])
        )


def test_types_units_and_paths(tmp_path: Path) -> None:
    write(tmp_path / "a.avro", ALERT, alerts(10))
    schema = read(avro(tmp_path)).schema
    assert schema.field("diaSource_ra").metadata == {b"description": b"Right ascension [deg]"}
    assert schema.field("diaSource_seen").type == pa.timestamp("us", "UTC")
    assert schema.field("diaSource_psfFlux").type == pa.float32()
    assert schema.field("mark").type == pa.binary(4)
    lists = schema.field("prvDiaSources").type
    assert pa.types.is_struct(lists)
    assert {field.name: field.type for field in lists}["ra"] == pa.list_(pa.float64())
    named = read(avro(tmp_path, separator="__")).schema.names
    assert "diaSource__ra" in named
    assert "diaSource_ra" not in named


def test_paths_that_meet_are_told(tmp_path: Path) -> None:
    inner = {"type": "record", "name": "a", "fields": [{"name": "ra", "type": "double"}]}
    fields = [{"name": "a", "type": inner}, {"name": "a_ra", "type": "double"}]
    write(
        tmp_path / "a.avro",
        {"type": "record", "name": "r", "fields": fields},
        [{"a": {"ra": 1.0}, "a_ra": 2.0}],
    )
    with pytest.raises(ReservedColumnError, match=r"names joined by '_'.*'a_ra' stands twice"):
        read(avro(tmp_path))
    assert read(avro(tmp_path, separator="__")).to_pylist() == [{"a__ra": 1.0, "a_ra": 2.0}]


LOGICAL = [
    ({"type": "int", "logicalType": "date"}, 20_000, pa.date32()),
    ({"type": "int", "logicalType": "time-millis"}, 5_000, pa.time32("ms")),
    ({"type": "long", "logicalType": "time-micros"}, 5_000_000, pa.time64("us")),
    ({"type": "long", "logicalType": "timestamp-millis"}, -5, pa.timestamp("ms", "UTC")),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, 1 << 55, pa.timestamp("us")),
    ({"type": "string", "logicalType": "uuid"}, "00000000-0000-0000-0000-000000000001", pa.string()),
    ("int", -7, pa.int32()),
    (["null", "double"], None, pa.float64()),
    (["double"], 0.5, pa.float64()),
    ({"type": "array", "items": ["null", "int"]}, [1, None], pa.list_(pa.int32())),
    (
        {"type": "array", "items": {"type": "array", "items": "float"}},
        [[0.5], []],
        pa.list_(pa.list_(pa.float32())),
    ),
]


@pytest.mark.parametrize(("kind", "value", "arrow"), LOGICAL, ids=lambda value: str(value)[:40])
def test_a_value_of_each_kind(tmp_path: Path, kind: Any, value: Any, arrow: pa.DataType) -> None:
    plain = kind["type"] if isinstance(kind, dict) and "logicalType" in kind else kind
    with (tmp_path / "a.avro").open("wb") as file:  # values as they are encoded, without their meaning
        fastavro.writer(file, fastavro.parse_schema(record_of(plain)), [{"id": 1, "v": value}])
    content = (tmp_path / "a.avro").read_bytes()
    write(tmp_path / "b.avro", record_of(kind), [])
    header = (tmp_path / "b.avro").read_bytes()
    sync = content[-16:]
    body = content[content.index(sync) + 16 :].replace(sync, header[-16:])
    (tmp_path / "a.avro").write_bytes(header + body)
    (tmp_path / "b.avro").unlink()
    found = read(avro(tmp_path))["v"]
    assert found.type == arrow
    stored = {"int": pa.int32(), "long": pa.int64()}.get(str(plain), arrow)  # as it is encoded
    assert found.combine_chunks().equals(pa.array([value], stored).cast(arrow))


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ({"type": "map", "values": "long"}, "has the type 'map'"),
        (["null", "int", "string"], "is one of 2 types"),
        ("null", "has the type 'null'"),
        ({"type": "array", "items": "null"}, "has the type 'null'"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, "is a decimal"),
        ({"type": "record", "name": "empty", "fields": []}, "has no fields"),
        ({"type": "array", "items": ["null", SOURCE]}, "is an array whose records may be null"),
        (
            {"type": "record", "name": "r", "fields": [{"name": "v", "type": ["null", "r"]}]},
            "'r'.* is nested in itself|within itself",
        ),
    ],
    ids=str,
)
def test_what_columns_cannot_be_is_refused_by_its_path(tmp_path: Path, kind: Any, said: str) -> None:
    header = container_of(record_of(kind), [])
    (tmp_path / "a.avro").write_bytes(header)
    with pytest.raises(InputError, match=said) as told:
        read(avro(tmp_path))
    assert "a.avro" in str(told.value)


def test_without_fastavro_it_is_said_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a.avro", record_of("int"), [{"id": 1, "v": 2}])
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(
        MissingPackageError, match=r"Reading Avro files needs .* pip install 'hipslake\[avro\]'"
    ):
        read(avro(tmp_path))


def test_a_changed_schema_is_told_with_both_files(tmp_path: Path) -> None:
    write(tmp_path / "a.avro", record_of("double"), [{"id": 1, "v": 0.5}])
    write(tmp_path / "b.avro", record_of("string"), [{"id": 1, "v": "x"}])
    with pytest.raises(SchemaMismatchError, match=r"'v' is string in .*b\.avro but double in .*a\.avro"):
        read(avro(tmp_path))
    less = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}
    write(tmp_path / "b.avro", less, [{"id": 2}])
    with pytest.raises(SchemaMismatchError, match=r"b\.avro has no column 'v'"):
        read(avro(tmp_path))
    assert read(avro(tmp_path, missing_columns="null"))["v"].to_pylist() == [0.5, None]
