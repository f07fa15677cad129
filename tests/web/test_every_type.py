"""Columns of every type: rows, order, statistics and files beside what Arrow says of the catalog's rows."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hipslake
import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pyarrow.types as kinds
import pytest
from astropy.io import votable
from astropy.table import Table
from hipslake import Catalog

from tests.web import every_type

if TYPE_CHECKING:
    from starlette.testclient import TestClient

ROWS = 60
COLUMNS = {f"c{at:02d}": kind for at, kind in enumerate((*every_type.SIMPLE, *every_type.NESTED))}
NAMES = pytest.mark.parametrize("name", COLUMNS, ids=lambda name: f"{name} {COLUMNS[name]}")
ORDERED = [name for name, kind in COLUMNS.items() if kind in every_type.SIMPLE]
UNORDERED = (pa.bool_(), pa.binary(), pa.large_binary(), pa.binary(3), pa.dictionary(pa.int32(), pa.binary()))
PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    rng = np.random.default_rng(5)
    columns = {name: every_type.column_of(kind, ROWS, rng) for name, kind in COLUMNS.items()}
    rows = pa.table(
        {"id": np.arange(ROWS), "ra": rng.uniform(0, 360, ROWS), "dec": rng.uniform(-80, 80, ROWS)}
    )
    for name, column in columns.items():
        rows = rows.append_column(name, column)
    spec = {"name": "types", "position": {"ra": "ra", "dec": "dec"}, "threshold": "25 rows"}
    return hipslake.ingest(rows, spec=spec, warehouse=tmp_path_factory.mktemp("types"), spark=False)


@pytest.fixture(scope="module")
def rows(catalog: Catalog) -> pa.Table:
    found = catalog.read()
    assert found.num_rows == ROWS
    return found


@pytest.fixture(scope="module")
def user(airflow: Path, catalog: Catalog) -> Iterator[TestClient]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW__CORE__AUTH_MANAGER", "tests.web.catalogs_page.PerDag")
        from airflow.api_fastapi.app import purge_cached_app

        from tests.web.catalogs_page import Page

        warehouse = Path(catalog.uri).parents[1]
        (warehouse / "specs" / "catalogs").mkdir(parents=True)
        yield Page(warehouse, warehouse / "specs").as_user()
        purge_cached_app()


def get(user: TestClient, path: str, code: int = 200, **asked: Any) -> Any:
    answer = user.get(f"/hipslake/api/catalogs/types/{path}", params=asked)
    assert answer.status_code == code, answer.text[:500]
    return answer


def plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    return column.cast(kind.value_type) if kinds.is_dictionary(kind) else column


def key(scalar: pa.Scalar) -> Any:
    """What a value is, as Python compares it: times and durations as their numbers."""
    kind = scalar.type
    if not scalar.is_valid:
        return None
    if kinds.is_temporal(kind):
        return pa.array([scalar], kind).view(pa.int32() if kind.bit_width == 32 else pa.int64())[0].as_py()
    if kinds.is_struct(kind):
        return {field.name: key(scalar[field.name]) for field in kind}
    if kinds.is_map(kind):
        return [[key(pair["key"]), key(pair["value"])] for pair in scalar.values]
    if kinds.is_nested(kind):
        return [key(each) for each in scalar.values]
    return scalar.as_py()


def read_back(told: Any, kind: pa.DataType) -> Any:
    """The value that JSON or a text tells, as `key` has it."""
    if told is None:
        return None
    if kinds.is_struct(kind):
        return {field.name: read_back(told[field.name], field.type) for field in kind}
    if kinds.is_map(kind):
        return [[pair[0], read_back(pair[1], kind.item_type)] for pair in told]
    if kinds.is_nested(kind):
        return [read_back(each, kind.value_type) for each in told]
    if kinds.is_integer(kind) or kinds.is_duration(kind):
        return int(told)
    if kinds.is_floating(kind):
        return np.dtype(kind.to_pandas_dtype()).type(told).item()
    if kinds.is_decimal(kind):
        return Decimal(told)
    if kinds.is_date(kind):
        days = int(np.datetime64(told, "D").astype("i8"))
        return days if kinds.is_date32(kind) else days * 86_400_000
    if kinds.is_time(kind):
        hours, minutes, seconds = told.split(":")
        whole, _, fraction = seconds.partition(".")
        unit = PER_SECOND[kind.unit]
        return (3600 * int(hours) + 60 * int(minutes) + int(whole)) * unit + int(
            (fraction or "0").ljust(len(str(unit)) - 1, "0") or 0
        )
    if kinds.is_timestamp(kind):
        match = re.fullmatch(r"(\d{4}-\d\d-\d\d)[T ]([\d:.]+)(?:Z|([+-])(\d\d):?(\d\d))?", told)
        assert match, told
        number = int(np.datetime64(f"{match[1]}T{match[2]}", kind.unit).astype("i8"))
        ahead = 60 * (60 * int(match[4] or 0) + int(match[5] or 0)) * PER_SECOND[kind.unit]
        return number - (-ahead if match[3] == "-" else ahead)
    return (
        bytes.fromhex(told)
        if kinds.is_binary(kind) or kinds.is_large_binary(kind) or kinds.is_fixed_size_binary(kind)
        else told
    )


def same(left: Any, right: Any) -> bool:
    """Whether values are the same; NaN is NaN."""
    return repr(left) == repr(right) or left == right


def test_rows_tell_every_value(user: TestClient, rows: pa.Table) -> None:
    found = get(user, "rows", columns=["id", *COLUMNS], limit=1000).json()
    told = dict(zip((column["name"] for column in found["columns"]), found["data"], strict=True))
    assert told["id"] == rows["id"].to_pylist()
    for name in COLUMNS:
        check_values(told[name], rows[name])


def check_values(told: list[Any], column: pa.ChunkedArray) -> None:
    kind = plain(column).type
    for value, scalar in zip(told, plain(column), strict=True):
        assert same(read_back(value, kind), key(scalar)), (value, scalar)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("descending", [False, True])
@NAMES
def test_rows_are_sorted_or_that_is_refused(
    user: TestClient, rows: pa.Table, name: str, descending: bool
) -> None:
    column = plain(rows[name])
    if rows.schema.field(name).type in UNORDERED or kinds.is_nested(column.type):
        answer = get(user, "rows", 422, sort=name, limit=7, descending=descending).json()
        assert "has no order" in answer["detail"]
        return
    found = get(user, "rows", columns=["id"], sort=name, limit=ROWS, descending=descending).json()
    by_id = dict(zip(rows["id"].to_pylist(), map(key, column), strict=True))
    given = [by_id[each] for each in found["data"][0]]
    numbers = [value for value in by_id.values() if value is not None and value == value]
    assert sorted(given, key=repr) == sorted(by_id.values(), key=repr)
    assert given[: len(numbers)] == sorted(numbers, reverse=descending)


def test_columns_tell_the_ends_of_all(user: TestClient, rows: pa.Table) -> None:
    told = {each["name"]: each for each in get(user, "columns").json()["columns"]}
    for name in ORDERED:
        check_ends(told[name], rows[name])
        assert told[name]["problem"] is None


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ORDERED, ids=lambda name: f"{name} {COLUMNS[name]}")
def test_a_column_tells_its_ends_and_counts(user: TestClient, rows: pa.Table, name: str) -> None:
    found = get(user, "column", column=name).json()
    check_ends(found, rows[name])
    assert found["rows"] == ROWS
    if found["histogram"] is not None:
        numbers = [key(each) for each in plain(rows[name])]
        assert sum(found["histogram"]["counts"]) == sum(
            value is not None and np.isfinite(float(value)) for value in numbers
        )


def check_ends(told: dict[str, Any], column: pa.ChunkedArray) -> None:
    kind = plain(column).type
    known = [value for value in map(key, plain(column)) if value is not None and value == value]
    assert told["nulls"] == column.null_count
    if column.type in UNORDERED[1:]:
        assert (told["min"], told["max"]) == (None, None)
        return
    assert read_back(told["min"], kind) == min(known)
    assert read_back(told["max"], kind) == max(known)


def test_a_row_tells_its_values(user: TestClient, rows: pa.Table) -> None:
    keys = get(user, "rows", columns=["id"], limit=3).json()["keys"]
    for at, each in enumerate(keys):
        row = get(user, "row", key=each).json()
        told = dict(zip([column["name"] for column in row["columns"]], row["values"], strict=True))
        for name in COLUMNS:
            check_values([told[name]], rows[name].slice(at, 1))


def test_parquet_is_the_rows(user: TestClient, rows: pa.Table) -> None:
    content = get(user, "download", format="parquet", columns=["id", *COLUMNS]).content
    found = pq.read_table(io.BytesIO(content))
    for name in ("id", *COLUMNS):
        for left, right in zip(plain(found[name]), plain(rows[name]), strict=True):
            assert same(key(left), key(right)), name


def test_csv_tells_every_value_and_refuses_nested_columns(user: TestClient, rows: pa.Table) -> None:
    for name, kind in COLUMNS.items():
        if kinds.is_nested(kind) and not kinds.is_dictionary(kind):
            assert name in get(user, "download", 422, format="csv", columns=["id", name]).json()["detail"]
    found = pacsv.read_csv(
        io.BytesIO(get(user, "download", format="csv", columns=["id", *ORDERED]).content),
        parse_options=pacsv.ParseOptions(newlines_in_values=True),
        convert_options=pacsv.ConvertOptions(
            column_types=dict.fromkeys(ORDERED, pa.string()),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[""],
        ),
    )
    assert found["id"].to_pylist() == rows["id"].to_pylist()
    for name in ORDERED:
        if COLUMNS[name] == pa.bool_():
            assert found[name].to_pylist() == rows[name].cast(pa.string()).to_pylist()
        else:
            check_values(found[name].to_pylist(), rows[name])


@pytest.mark.sampled(3)
@NAMES
def test_votable_tells_every_value_or_refuses_the_column(user: TestClient, rows: pa.Table, name: str) -> None:
    column = plain(rows[name])
    answer = user.get(
        "/hipslake/api/catalogs/types/download", params={"format": "votable", "columns": ["id", name]}
    )
    if answer.status_code == 422:
        assert name in answer.json()["detail"]
        assert kinds.is_nested(column.type)
        return
    assert answer.status_code == 200, answer.text
    found = votable.parse(io.BytesIO(answer.content), verify="exception").get_first_table().array
    assert found["id"].tolist() == rows["id"].to_pylist()
    if kinds.is_nested(column.type):
        return
    for told, scalar in zip(found[name], column, strict=True):
        value = key(scalar)
        if value is None or value != value:
            assert told is np.ma.masked or str(told) in ("", "nan")
        elif isinstance(value, str):
            assert str(told).split() == value.split()
        elif kinds.is_boolean(column.type):
            assert bool(told) == value
        else:
            assert read_back(str(told) if isinstance(told, str) else told, column.type) == value


@pytest.mark.sampled(3)
@NAMES
def test_fits_tells_every_value_or_refuses_the_column(user: TestClient, rows: pa.Table, name: str) -> None:
    answer = user.get(
        "/hipslake/api/catalogs/types/download", params={"format": "fits", "columns": ["id", name]}
    )
    if answer.status_code == 422:
        assert name in answer.json()["detail"]
        return
    assert answer.status_code == 200, answer.text
    column = plain(rows[name])
    found = Table.read(io.BytesIO(answer.content), hdu=1, character_as_bytes=False)
    assert found["id"].tolist() == rows["id"].to_pylist()
    for told, scalar in zip(found[name], column, strict=True):
        value = key(scalar)
        if value is None or value != value:
            assert np.ma.is_masked(told) or str(told) in ("", "nan", "False")
        elif kinds.is_nested(column.type):
            assert np.ma.filled(told, 0).tolist() == [each or 0 for each in value]
        elif kinds.is_decimal(column.type):
            assert float(told) == pytest.approx(float(value), rel=1e-15)
        elif kinds.is_boolean(column.type):
            assert bool(told) == value
        else:
            text = isinstance(told, str)
            assert same(read_back(str(told) if text else told.item(), column.type), value), (told, scalar)


SOURCES = {
    name: [field.name for field in kind.value_type]
    for name, kind in COLUMNS.items()
    if kinds.is_list(kind) and kinds.is_struct(kind.value_type)
}


@pytest.mark.parametrize(("name", "time"), [(name, time) for name in SOURCES for time in SOURCES[name]])
def test_light_curves_are_in_the_order_of_any_time(
    user: TestClient, rows: pa.Table, name: str, time: str
) -> None:
    keys = get(user, "rows", columns=["id"], limit=ROWS).json()["keys"]
    kind = COLUMNS[name].value_type.field(time).type
    for each, scalar in zip(keys[:10], rows[name].slice(0, 10), strict=True):
        asked = {"key": each, "column": name, "time": time}
        if kinds.is_nested(kind):
            assert "is no time" in get(user, "light_curve", 422, **asked).json()["detail"]
            continue
        found = get(user, "light_curve", **asked).json()
        told = dict(zip((column["name"] for column in found["columns"]), found["data"], strict=True))
        times = [read_back(value, kind) for value in told[time]]
        sources = [dict.fromkeys(SOURCES[name]) if given is None else given for given in key(scalar) or []]
        expected = [source[time] for source in sources]
        known = sorted(value for value in expected if value is not None and value == value)
        assert times[: len(known)] == known
        assert sorted(map(repr, times)) == sorted(map(repr, expected))
