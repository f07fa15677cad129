"""The newest row of each key stays, as SQLite's window functions tell it, however rows are cut into files."""

from __future__ import annotations

import math
import sqlite3
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import hipslake
import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest
import yaml
from hipslake.engine.this_process import ThisProcess
from hipslake.errors import BadRowsError, InputError, SchemaMismatchError, StepError
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.ingest import histogram
from hipslake.steps.ingest.request import HistogramReport, HistogramRequest
from hipslake.steps.report import perform
from hipslake.steps.run import RunFolder

from tests.steps import in_process

FIRST = datetime(2026, 11, 20, tzinfo=UTC)
COLUMNS = ["n", "object", "band", "seen", "ra", "dec", "mag"]


def visits(seed: int, order: str, *, rows: int = 600, bad: int = 0, equal: int = 40) -> pa.Table:
    """Objects seen again and again, each time elsewhere; some rows stand twice, some have no key.

    No two rows of an object share their order, but for those that are equal; of some it is null, or NaN.
    """
    rng = np.random.default_rng(seed)
    objects = rng.integers(0, rows // 4, rows)
    seen: list[Any] = rng.permutation(rows).tolist()
    last = {(key, n % 2): n for n, key in sorted(enumerate(objects.tolist()), key=lambda each: seen[each[0]])}
    older = [n for n in range(rows) if n not in set(last.values()) and rng.random() < 0.3]
    dec = np.degrees(np.arcsin(rng.uniform(-1, 1, rows)))
    dec[rng.permutation(rows)[:bad]] = 99.0
    if order == "float":
        seen = [number / 7 - 20 for number in seen]
    elif order == "time":
        seen = [FIRST + timedelta(seconds=13 * number) for number in seen]
    elif order == "text":
        seen = [f"v{number:05d}" for number in seen]
    for number, at in enumerate(older):  # never two of them in one object, which would be tied
        first_of_object = objects[at] not in objects[older[:number]]
        if first_of_object:
            seen[at] = math.nan if order == "float" and number % 2 else None
    table = pa.table(
        {
            "n": np.arange(rows),
            "object": pa.array(objects, mask=rng.random(rows) < 0.05),
            "band": pa.array([f"b{number % 2}" for number in range(rows)]),
            "seen": pa.array(seen, pa.timestamp("us", "UTC") if order == "time" else None),
            "ra": rng.uniform(0, 360, rows),
            "dec": dec,
            "mag": pa.array(rng.normal(20, 1, rows), mask=rng.random(rows) < 0.1),
        }
    )
    again = table.take(pa.array(rng.integers(0, rows, equal)))
    both = pa.concat_tables([table, again])
    return both.take(pa.array(rng.permutation(both.num_rows)))


def newest_by_sqlite(table: pa.Table, key: list[str]) -> list[tuple[Any, ...]]:
    """The rows that stay: SQLite sorts nulls first, and takes NaN for one."""
    good = [row for row in table.to_pylist() if row["dec"] <= 90]
    plain = [tuple(_plain(row[name]) for name in COLUMNS) for row in good]
    with sqlite3.connect(":memory:") as database:
        database.execute(f"create table visits ({', '.join(f'{name} any' for name in COLUMNS)}) strict")
        database.executemany(f"insert into visits values ({', '.join('?' * len(COLUMNS))})", plain)
        nulls = " or ".join(f"{name} is null" for name in key)
        return database.execute(
            f"select {', '.join(COLUMNS)} from (select *, ({nulls}) as alone, row_number() over "
            f"(partition by {', '.join(key)} order by seen desc) as place from visits) "
            "where place = 1 or alone order by n"
        ).fetchall()


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return None if isinstance(value, float) and math.isnan(value) else value


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """The rows of a catalog, as SQLite gives them."""
    found = table.select(COLUMNS).sort_by("n").to_pylist()
    return [tuple(_plain(row[name]) for name in COLUMNS) for row in found]


def land(folder: Path, table: pa.Table, kind: str, seed: int = 0) -> None:
    """Cut rows into files of any size, Parquet with row groups of any size."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    cuts = np.unique([0, *rng.integers(0, table.num_rows, int(rng.integers(1, 9))), table.num_rows]).tolist()
    for number, (low, high) in enumerate(pairwise(cuts)):
        part, path = table.slice(low, high - low), folder / f"{number}.{kind}"
        if kind == "csv":
            pcsv.write_csv(part, path)
        elif kind == "avro":
            _write_avro(part, path)
        else:
            pq.write_table(part, path, row_group_size=int(rng.integers(5, 90)))


def _write_avro(table: pa.Table, path: Path) -> None:
    fastavro = pytest.importorskip("fastavro")
    kinds = {pa.int64(): "long", pa.float64(): "double", pa.string(): "string"}
    kinds[pa.timestamp("us", "UTC")] = {"type": "long", "logicalType": "timestamp-micros"}
    fields = [{"name": field.name, "type": ["null", kinds[field.type]]} for field in table.schema]
    schema = fastavro.parse_schema({"type": "record", "name": "visit", "fields": fields})
    with path.open("wb") as file:
        fastavro.writer(file, schema, table.to_pylist(), sync_interval=2000)


def spec(tmp_path: Path, kind: str = "parquet", **more: Any) -> Path:
    given: dict[str, Any] = {
        "name": "stars",
        "source": {"uri": f"{tmp_path}/in/*", "format": kind},
        "position": {"ra": "ra", "dec": "dec"},
        "threshold": "60 rows",
        "mapping_order": 4,
        "newest": {"key": "object", "order": "seen"},
    }
    given["source"] |= more.pop("source", {})
    path = tmp_path / "stars.yaml"
    path.write_text(yaml.safe_dump(given | more))
    return path


def counted(folder: RunFolder, **knobs: int) -> HistogramReport:
    request = HistogramRequest.model_validate({"run_uri": folder.uri} | knobs)
    return perform(lambda asked: histogram.run(asked, ThisProcess(2)), request, HistogramReport)


def published(tmp_path: Path, path: Path, **knobs: int) -> tuple[hipslake.Catalog, HistogramReport]:
    """Ingest by the steps of a run, which keep their own balance and verify what they wrote."""
    folder = in_process.start(tmp_path / "warehouse", path)
    in_process.freeze(folder)
    report = counted(folder, **knobs)
    for step in (in_process.make_plan, in_process.write_leaves, in_process.check, in_process.commit):
        assert step(folder).ok
    return hipslake.Catalog.open(FrozenRun.of(folder).catalog_uri), report


CASES = [
    ("parquet", "int", ["object"]),
    ("parquet", "float", ["object", "band"]),
    ("csv", "float", ["object"]),
    ("csv", "time", ["object", "band"]),
    ("avro", "time", ["object"]),
    ("parquet", "text", ["band", "object"]),
]


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "seed", [1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(("kind", "order", "key"), CASES)
def test_the_rows_are_those_of_a_window_function(
    tmp_path: Path, kind: str, order: str, key: list[str], seed: int
) -> None:
    table = visits(seed, order, bad=9)
    land(tmp_path / "in", table, kind, seed)
    quarantine = {"policy": "quarantine", "max_fraction": 0.1}
    path = spec(tmp_path, kind, newest={"key": key, "order": "seen"}, bad_rows=quarantine)
    catalog, report = published(tmp_path, path, split_target_bytes=3000)
    expected = newest_by_sqlite(table, key)
    assert rows_of(catalog.read()) == expected
    bad = sum(dec > 90 for dec in table["dec"].to_pylist())
    told = (report.rows_in, report.rows_out, report.rows_rejected, report.rows_superseded)
    assert told == (640, len(expected), bad, 640 - bad - len(expected))
    [increment] = catalog.increments
    assert (increment.rejects.rows, increment.superseded) == (bad, report.rows_superseded)
    assert catalog.metadata.rows_read == 640


def test_of_equal_rows_the_first_stays(tmp_path: Path) -> None:
    rows = [{"object": 1, "seen": 5, "ra": 10.0, "dec": 20.0, "near": [1.0, math.nan], "mag": None}] * 3
    table = pa.Table.from_pylist([*rows, {**rows[0], "seen": 4}, {**rows[0], "object": 2, "seen": None}])
    (tmp_path / "in").mkdir()
    for number in range(5):
        pq.write_table(table.slice(number, 1), tmp_path / "in" / f"{number}.parquet")
    groups = [{"name": "main", "columns": ["object", "seen", "ra", "dec"]}, {"name": "rest", "columns": "*"}]
    catalog, report = published(tmp_path, spec(tmp_path, column_groups=groups))
    assert report.rows_superseded == 3
    assert sorted(catalog.read(columns=["_row"])["_row"].to_pylist()) == [0, 4]
    assert catalog.read()["object"].to_pylist() == [1, 2]


@pytest.mark.parametrize(("order", "shown"), [(7, "7"), (None, "None"), (math.nan, "nan")])
def test_rows_that_are_tied_and_differ_are_shown(tmp_path: Path, order: float | None, shown: str) -> None:
    table = visits(4, "float")
    tied = table.slice(0, 1).to_pylist()[0] | {"object": 10_000, "seen": order}
    two = pa.Table.from_pylist([tied, tied | {"mag": 3.0}], table.schema)
    (tmp_path / "in").mkdir()
    pq.write_table(
        pa.concat_tables([table, two.slice(0, 1)]), tmp_path / "in" / "a.parquet", row_group_size=70
    )
    pq.write_table(pa.concat_tables([two.slice(1), table.slice(0, 5)]), tmp_path / "in" / "b.parquet")
    folder = in_process.start(tmp_path / "warehouse", spec(tmp_path))
    in_process.freeze(folder)
    places = r".*a.parquet, row 641 and .*b.parquet, row 1\."
    message = rf"newest: 1 keys .* seen .*object 10000 with seen {shown}.* in {places}"
    with pytest.raises(InputError, match=message):
        counted(folder, split_target_bytes=2000)
    (tmp_path / "in" / "b.parquet").unlink()
    later = pa.Table.from_pylist([tied | {"seen": 1e6}, tied | {"mag": 3.0}], table.schema)
    pq.write_table(later, tmp_path / "in" / "b.parquet")
    catalog, _ = published(tmp_path, spec(tmp_path))  # a tie of older rows is none
    assert (10_000, 1e6) in zip(
        *(catalog.read()[name].to_pylist() for name in ("object", "seen")), strict=True
    )


def test_a_bad_row_takes_the_place_of_none(tmp_path: Path) -> None:
    row = {"object": 1, "seen": 1, "ra": 1.0, "dec": 2.0}
    (tmp_path / "in").mkdir()
    pq.write_table(
        pa.Table.from_pylist([row, row | {"seen": 2, "dec": 100.0}]), tmp_path / "in" / "a.parquet"
    )
    with pytest.raises(BadRowsError, match="1 of 2 rows"):
        hipslake.ingest(spec=spec(tmp_path), warehouse=tmp_path / "warehouse", spark=False)
    path = spec(tmp_path, bad_rows={"policy": "quarantine", "max_fraction": 0.5})
    catalog, report = published(tmp_path, path)
    assert catalog.read()["seen"].to_pylist() == [1]
    assert (report.rows_rejected, report.rows_superseded) == (1, 0)
    assert catalog.increments[0].superseded is None


def test_keys_may_be_derived(tmp_path: Path) -> None:
    table = visits(6, "int")
    land(tmp_path / "in", table, "parquet")
    columns = {"drop": ["object"], "derive": {"object_id": "object * 2", "when": "seen + 0.5"}}
    path = spec(tmp_path, source={"columns": columns}, newest={"key": "object_id", "order": "when"})
    catalog, _ = published(tmp_path, path)
    assert sorted(catalog.read()["n"].to_pylist()) == [row[0] for row in newest_by_sqlite(table, ["object"])]


def test_large_ids_and_words_of_dictionaries_are_keys(tmp_path: Path) -> None:
    ids = [2**64 - 1, 5, 2**64 - 1, 2**63, 5]
    words = pa.array(["r", "g", "r", "r", "i"]).dictionary_encode()
    table = pa.table(
        {
            "object": pa.array(ids, pa.uint64()),
            "band": words,
            "seen": range(5),
            "ra": range(5),
            "dec": range(5),
        }
    )
    (tmp_path / "in").mkdir()
    pq.write_table(table, tmp_path / "in" / "a.parquet")
    path = spec(tmp_path, newest={"key": ["object", "band"], "order": "seen"})
    catalog, _ = published(tmp_path, path)
    assert sorted(catalog.read()["seen"].to_pylist()) == [1, 2, 3, 4]


@pytest.mark.parametrize("kind", [pa.decimal32(6, 2), pa.decimal64(15, 3)], ids=str)
def test_small_decimals_are_keys_and_orders(tmp_path: Path, kind: pa.DataType) -> None:
    rng = np.random.default_rng(8)
    table = visits(8, "int", rows=200, equal=0)
    dates = [None if seen is None else Decimal(seen - 100).scaleb(-2) for seen in table["seen"].to_pylist()]
    keys = pa.array([Decimal(int(number)) for number in rng.integers(0, 40, 200)], kind)
    decimals = table.set_column(1, "object", keys).set_column(3, "seen", pa.array(dates, kind))
    decimals = decimals.filter(decimals["seen"].is_valid())
    land(tmp_path / "in", decimals, "parquet")
    catalog, _ = published(tmp_path, spec(tmp_path))
    newest: dict[Decimal, tuple[Decimal, int]] = {}
    for key, *last in zip(*(decimals[name].to_pylist() for name in ("object", "seen", "n")), strict=True):
        newest[key] = max(newest.get(key, (Decimal(-10_000), -1)), tuple(last))
    assert sorted(catalog.read()["n"].to_pylist()) == sorted(n for _, n in newest.values())


def test_a_whole_step_that_is_done_again_finds_the_same(tmp_path: Path) -> None:
    land(tmp_path / "in", visits(7, "int"), "parquet")
    folder = in_process.start(tmp_path / "warehouse", spec(tmp_path))
    in_process.freeze(folder)
    first = counted(folder)
    again = counted(folder, max_examples=3)  # another request, so that nothing is taken over
    assert first.rows_superseded == again.rows_superseded > 0
    in_process.make_plan(folder)
    told = folder.storage.read(RunFolder.PLAN_SUMMARY).decode()
    assert f"the newest by seen of each object stays: {first.rows_superseded} of 640 rows" in told
    [lost, *_] = folder.storage.list("newest/bits")
    folder.storage.delete(lost.path)
    with pytest.raises(StepError, match=r"is gone, which says what rows are superseded; clear the run"):
        in_process.write_leaves(folder)


@pytest.mark.parametrize(
    ("newest", "message"),
    [
        (
            {"key": "objekt", "order": "seen"},
            r"newest\.key: the source has no column 'objekt'; there are n, ",
        ),
        ({"key": "object", "order": "time"}, r"newest\.order: the source has no column 'time'"),
        ({"key": ["object", "mag"], "order": "seen"}, r"newest\.key: column 'mag' is of type double; a key"),
        ({"key": "object", "order": "list"}, r"newest\.order: column 'list' is of type list.*numbers, times"),
    ],
)
def test_columns_that_do_not_fit_are_told_before_a_row_is_read(
    tmp_path: Path, newest: dict[str, str], message: str
) -> None:
    table = visits(5, "int").append_column("list", pa.array([[1]] * 640))
    land(tmp_path / "in", table, "parquet")
    folder = in_process.start(tmp_path / "warehouse", spec(tmp_path, newest=newest))
    with pytest.raises(SchemaMismatchError, match=message):
        in_process.freeze(folder)


def test_files_without_rows_are_an_empty_night(tmp_path: Path) -> None:
    from tests.steps.nights import Survey, night_rows

    survey = Survey(tmp_path, more="newest: {key: id, order: mag}")
    survey.land(0, night_rows(0, rows=0))
    assert survey.append(0).version is None
    survey.night(1)
    survey.night(2, rows=0)
    survey.assert_holds_what_landed()


@pytest.mark.parametrize("seed", range(6))
def test_ties_are_settled_as_a_loop_over_rows_settles_them(tmp_path: Path, seed: int) -> None:
    """Few values, so that rows of a key are often tied, and then often equal in all columns."""
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(6, 40))
    objects = rng.integers(0, 25, rows)
    seen = [None if number > 3 else int(number) for number in rng.integers(0, 5, rows)]
    light = [[int(number)] for number in rng.integers(0, 1 + seed % 2, rows)]
    place = {"ra": objects.astype(float), "dec": np.zeros(rows)}
    table = pa.table({"object": objects, "seen": pa.array(seen, pa.int64()), "light": light} | place)
    land(tmp_path / "in", table, "parquet", seed)
    newest: dict[int, tuple[int, set[int]]] = {}
    for key, order, value in zip(objects.tolist(), seen, light, strict=True):
        known = -1 if order is None else order
        best, values = newest.get(key, (-2, set()))
        if known >= best:
            newest[key] = known, {value[0]} | (values if known == best else set())
    folder = in_process.start(tmp_path / "warehouse", spec(tmp_path))
    in_process.freeze(folder)
    undecided = sum(len(values) > 1 for _, values in newest.values())
    if undecided:
        with pytest.raises(InputError, match=f"newest: {undecided} keys have rows that share their seen"):
            counted(folder, split_target_bytes=300)
    else:
        assert counted(folder, split_target_bytes=300).rows_out == len(newest)
