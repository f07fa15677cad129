"""Mode upsert with `validity`: rows of a key stay, with the interval in which each was that of its key."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import hipslake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake import Catalog
from hipslake.catalog.checks.record_checks import record_problems
from hipslake.engine.this_process import ThisProcess
from hipslake.errors import HipslakeError, ReservedColumnError, SpecError

from tests.catalog.plain_changes import assert_leads, rows_of
from tests.steps import in_process
from tests.steps.nights import FIRST
from tests.steps.upserts import HISTORY, TWO_GROUPS, Record, UpsertHistory, UpsertSurvey
from tests.steps.upserts import rows_of as values_of


def put(key: int, seq: int, night: int, *, ra: float | None = None, mag: float = 0.5) -> Record:
    return Record("U", key, seq, 10.0 + key if ra is None else ra, 5.0, mag, night)


def delete(key: int, seq: int, night: int) -> Record:
    return Record("D", key, seq, None, None, 0.0, night)


def intervals(survey: UpsertSurvey, key: int) -> list[tuple[Any, Any]]:
    """The intervals of the rows of a key, in order."""
    rows = survey.catalog.read(["valid_from", "valid_to"], f"id = {key}")
    return sorted(
        zip(rows["valid_from"].to_pylist(), rows["valid_to"].to_pylist(), strict=True),
        key=lambda each: each[0],
    )


def test_the_intervals_of_a_row_that_changes_goes_and_comes_late(tmp_path: Path) -> None:
    survey = UpsertHistory(tmp_path)
    survey.upsert(0, [put(1, 10, 0), put(2, 10, 0)])
    survey.upsert(2, [put(1, 30, 2, ra=200.0), delete(2, 30, 2)])
    assert intervals(survey, 1) == [(10, 30), (30, None)]
    assert intervals(survey, 2) == [(10, 30)]

    report = survey.upsert(1, [put(1, 20, 1, ra=100.0), put(2, 20, 1)])  # late
    assert (report.outdated, report.inserted, report.updated) == (2, 0, 0)
    assert intervals(survey, 1) == [(10, 20), (20, 30), (30, None)]
    assert intervals(survey, 2) == [(10, 20), (20, 30)]

    survey.upsert(2, [put(3, 30, 2)])  # run again, without both
    assert intervals(survey, 1) == [(10, 20), (20, None)]
    assert intervals(survey, 2) == [(10, 20), (20, None)]
    survey.assert_holds_the_state()
    records = survey.catalog.metadata.key_records
    assert records is not None
    assert records.rows_superseded == len(records.superseded) == 0


def test_nights_themselves_are_the_times(tmp_path: Path) -> None:
    survey = UpsertHistory(tmp_path, ordered=False, more=TWO_GROUPS)
    for number in (0, 3, 1):
        survey.upsert(number, [put(1, 0, number, ra=40.0 * number)])
    times = [FIRST + timedelta(days=number) for number in (0, 1, 3)]
    assert intervals(survey, 1) == list(zip(times, [*times[1:], None], strict=True))
    assert survey.catalog.schema.field("valid_from").type == pa.timestamp("us", "UTC")
    survey.assert_holds_the_state()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("groups", ["", TWO_GROUPS])
def test_only_leaves_with_such_rows_are_written(tmp_path: Path, groups: str) -> None:
    survey = UpsertHistory(tmp_path, threshold="3 rows", more=f"append: add_file{groups}")
    survey.upsert(0, [put(key, 1, 0, ra=9.0 * key) for key in range(40)])
    before = _paths(survey)
    survey.upsert(1, [delete(7, 2, 1), put(20, 2, 1, ra=9.0 * 20 + 90)])
    gone, came = before - _paths(survey), _paths(survey) - before
    written = [pq.ParquetFile(survey.root / path).read(["ra"])["ra"].to_pylist() for path in gone]
    assert all({63.0, 180.0} & set(rows) for rows in written)
    assert len(gone) == len(survey.catalog.groups) * 2
    assert came
    survey.assert_holds_the_state()


def _paths(survey: UpsertSurvey) -> set[str]:
    metadata, storage = survey.catalog.metadata, survey.catalog.storage
    return {path for group in metadata.groups for path in group.table(storage)["path"].to_pylist()}


SPEC = {
    "name": "stars",
    "mode": "upsert",
    "key": "id",
    "order_by": "at",
    "operation": {"column": "op"},
    "validity": {"from": "since", "to": "until"},
    "position": {"ra": "ra", "dec": "dec"},
    "threshold": "20 rows",
}
TIMES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int16": (pa.int16(), [-3, 0, 7]),
    "uint64": (pa.uint64(), [0, 5, 2**64 - 1]),
    "float32": (pa.float32(), [-1.5, -0.0, 61000.25]),
    "float64": (pa.float64(), [61000.1, 61000.2, 61000.30000000001]),
    "string": (pa.string(), ["a", "b", "bé"]),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), ["a", "b", "c"]),
    "date": (pa.date32(), [date(1969, 1, 1), date(2026, 1, 1), date(2026, 1, 2)]),
    "timestamp": (
        pa.timestamp("ns", "UTC"),
        [datetime(1960, 1, 1, tzinfo=UTC) + timedelta(days=9999 * n) for n in range(3)],
    ),
    "decimal": (pa.decimal128(20, 4), [Decimal(n) / 4 for n in range(3)]),
    "decimal32": (pa.decimal32(7, 2), [Decimal(n) / 4 for n in range(3)]),
}


def bring(place: Path, night: int, rows: pa.Table, **changed: Any) -> Catalog:
    spec = {name: given for name, given in {**SPEC, **changed}.items() if given is not None}
    return hipslake.ingest(rows, spec=spec, warehouse=place, interval=61000 + night, spark=False)


def rows_at(kind: pa.DataType, times: list[Any], **columns: list[Any]) -> pa.Table:
    count = len(times)
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    at = pa.array(times, plain)
    return pa.table(
        {
            "id": pa.array([1] * count),
            "op": ["U"] * count,
            "at": at.dictionary_encode().cast(kind) if plain != kind else at,
            "ra": [10.0 * n for n in range(count)],
            "dec": [0.0] * count,
            **columns,
        }
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", TIMES)
def test_times_of_any_type(tmp_path: Path, kind: str) -> None:
    of, times = TIMES[kind]
    bring(tmp_path, 0, rows_at(of, [times[2], times[0]]))
    catalog = bring(tmp_path, 1, rows_at(of, [times[1]]))
    catalog.verify().raise_if_failed()
    plain = of.value_type if pa.types.is_dictionary(of) else of
    assert catalog.schema.field("since").type == catalog.schema.field("until").type == plain
    found = rows_of(Path(catalog.uri), 2)
    pairs = dict(zip(found["since"].to_pylist(), found["until"].to_pylist(), strict=True))
    scalars = [pa.scalar(each, plain).as_py() for each in times]
    assert pairs == dict(zip(scalars, [*scalars[1:], None], strict=True))
    assert "-0.0" not in map(str, pairs)
    changes = catalog.changes(1).to_arrow()
    assert_leads(changes, rows_of(Path(catalog.uri), 1), found, ["id", "since"])
    assert sorted(changes["_change"].to_pylist()) == ["insert", "update_after", "update_before"]


def test_what_is_said_of_the_order_is_said_of_the_interval(tmp_path: Path) -> None:
    catalog = bring(tmp_path, 0, rows_at(pa.float64(), [1.0]), columns={"at": {"unit": "d"}})
    for name in ("since", "until"):
        field = catalog.schema.field(name)
        assert field.metadata[b"unit"] == b"d"
        assert b"at" in field.metadata[b"description"]


def test_a_night_brings_a_column(tmp_path: Path) -> None:
    bring(tmp_path, 0, rows_at(pa.int64(), [1, 5]))
    catalog = bring(tmp_path, 1, rows_at(pa.int64(), [3], flag=["new"]))
    catalog.verify().raise_if_failed()
    rows = catalog.read(["since", "until", "flag"]).sort_by("since").to_pylist()
    assert [tuple(row.values()) for row in rows] == [(1, 3, None), (3, 5, "new"), (5, None, None)]


class TestRefused:
    @pytest.mark.parametrize(
        ("rows", "changed", "error", "message"),
        [
            ({"since": [1]}, {}, ReservedColumnError, "'since' has a name that the catalog adds itself"),
            ({"UNTIL": [1]}, {}, ReservedColumnError, "'UNTIL' has a name that the catalog adds itself"),
            ({}, {"validity": {"from": "_row", "to": "until"}}, ReservedColumnError, "'_row' is a name that"),
            ({}, {"validity": {"from": "a", "to": "Norder"}}, ReservedColumnError, "'Norder' is a name that"),
            ({}, {"order_by": "att"}, HipslakeError, "order_by: the source has no column 'att'"),
        ],
    )
    def test_names(
        self, tmp_path: Path, rows: dict[str, Any], changed: Any, error: Any, message: str
    ) -> None:
        with pytest.raises(error, match=message):
            bring(tmp_path, 0, rows_at(pa.int64(), [1], **rows), **changed)

    def test_another_validity_than_nights_have_come_with(self, tmp_path: Path) -> None:
        bring(tmp_path, 0, rows_at(pa.int64(), [1]))
        for changed in ({"validity": None}, {"validity": {"from": "since", "to": "till"}}):
            with pytest.raises(
                SpecError, match=r"validity is .*, but version 1 was made with from since, to until"
            ):
                bring(tmp_path, 1, rows_at(pa.int64(), [2]), **changed)
        other = tmp_path / "other"
        bring(other, 0, rows_at(pa.int64(), [1]), validity=None)
        with pytest.raises(
            SpecError, match="validity is from since, to until, but version 1 was made with nothing"
        ):
            bring(other, 1, rows_at(pa.int64(), [2]))

    def test_a_key_by_which_changes_cannot_be_told(self, tmp_path: Path) -> None:
        bring(tmp_path, 0, rows_at(pa.int64(), [1]))
        catalog = bring(tmp_path, 1, rows_at(pa.int64(), [2]))
        with pytest.raises(HipslakeError, match="name a key that tells rows apart"):
            catalog.changes(1, key=["id"]).to_arrow()
        present = catalog.changes(1, key=["id"], filters="until is null").counts()
        assert present == {"delete": 0, "update_before": 1, "update_after": 1, "insert": 0}


@pytest.mark.parametrize("column", ["valid_from", "valid_to"])
@pytest.mark.parametrize("group", ["main", "light"])
def test_another_interval_than_records_say_is_told(tmp_path: Path, column: str, group: str) -> None:
    survey = UpsertHistory(tmp_path, more=TWO_GROUPS)
    survey.upsert(0, [put(key, 1, 0) for key in range(5)])
    survey.upsert(1, [put(3, 2, 1), delete(4, 2, 1)])
    catalog = survey.catalog
    path = survey.root / catalog.metadata.group(group).table(catalog.storage)["path"][0].as_py()
    rows = pq.ParquetFile(path).read()
    values = rows[column].to_pylist()
    values[0] = 9 if values[0] is None else None if column == "valid_to" else 9
    at = rows.column_names.index(column)
    pq.write_table(rows.set_column(at, rows.schema.field(at), [values]), path)
    problems = [str(each) for each in record_problems(catalog.storage, catalog.metadata, ThisProcess(2))]
    assert len(problems) == 1
    assert f"rows have other values in '{column}' than their records" in problems[0]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "columns", [["id"], ["mag"], ["id", "mag"], ["valid_to"], ["mag", "valid_to"], ["id", "valid_from"]]
)
def test_changes_of_columns_of_any_group(two_groups: UpsertHistory, columns: list[str]) -> None:
    versions = two_groups.catalog.versions()
    for since, until in [(one, other) for one in versions for other in versions]:
        changes = two_groups.catalog.changes(since, until, columns, key=[]).to_arrow()
        assert changes.column_names[2:] == columns
        assert_leads(changes, *(rows_of(two_groups.root, each) for each in (since, until)))


@pytest.fixture(scope="module")
def two_groups(tmp_path_factory: pytest.TempPathFactory) -> UpsertHistory:
    """Three versions of two column groups: rows change, move, go, and come late."""
    survey = UpsertHistory(tmp_path_factory.mktemp("groups"), threshold="9 rows", more=TWO_GROUPS)
    survey.upsert(0, [put(key, 10, 0) for key in range(12)])
    survey.upsert(2, [put(1, 30, 2, ra=200.0), put(2, 30, 2, mag=7.0), delete(3, 30, 2), put(20, 30, 2)])
    survey.upsert(1, [put(1, 20, 1), put(3, 20, 1, ra=300.0), put(4, 20, 1)])
    return survey


def test_an_index_finds_all_rows_of_a_key(tmp_path: Path) -> None:
    survey = UpsertHistory(tmp_path, threshold="9 rows", more="index: [id]")
    survey.upsert(0, [put(key, 1, 0, ra=9.0 * key) for key in range(30)])
    in_process.make_indices(survey.begin(), published=True)
    survey.upsert(1, [put(key, 2, 1, ra=9.0 * key + 90) for key in range(0, 30, 3)])
    survey.upsert(2, [delete(key, 3, 2) for key in range(0, 30, 2)])
    survey.assert_holds_the_state()
    for key in (0, 2, 3, 5):
        expected = [row for row in values_of(survey.catalog.read(), HISTORY) if row[0] == key]
        assert sorted(values_of(survey.catalog.find("id", key), HISTORY)) == sorted(expected)
