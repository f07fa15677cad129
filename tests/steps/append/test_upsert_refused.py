"""Mode upsert: what is refused, with file, row and value, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hipslake.errors import InputError, SchemaMismatchError, SpecError

from tests.steps.upserts import Record, UpsertSurvey, table_of

pytestmark = pytest.mark.sampled(3)


def put(key: int, seq: int, *, op: str = "U", ra: float = 10.0, night: int = 0) -> Record:
    return Record(op, key, seq, ra, 5.0, 0.5, night)


@pytest.fixture
def survey(tmp_path: Path) -> UpsertSurvey:
    survey = UpsertSurvey(tmp_path)
    survey.upsert(0, [put(key, 1) for key in range(5)])
    return survey


def changed(name: str, row: int, value: Any) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        values = table[name].to_pylist()
        values[row] = value
        at = table.column_names.index(name)
        return table.set_column(at, name, pa.array(values, table.schema.field(name).type))

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (changed("id", 3, None), r"part-1.parquet, row 1: id is None, so that it has no key"),
        (changed("seq", 2, None), r"part-0.parquet, row 3: seq is None, so that it has no order"),
        (
            changed("op", 1, "X"),
            r"part-0.parquet, row 2: op is 'X', so that it says no operation; there are I, U, D",
        ),
        (changed("op", 1, None), r"part-0.parquet, row 2: op is None"),
        (changed("id", 4, 10), r"id 10 with seq 2 in .*part-0.parquet, row 1 and .*part-1.parquet, row 2"),
    ],
)
def test_records_that_do_not_say_what_they_do(
    survey: UpsertSurvey, change: Callable[[pa.Table], pa.Table], message: str
) -> None:
    survey.land(1, change(table_of([put(key, 2, night=1) for key in range(10, 15)])))
    with pytest.raises(InputError, match=message):
        survey.append(1)
    survey.assert_holds_the_state()
    assert survey.catalog.versions() == [1]


def test_a_key_twice_in_a_night_without_order(tmp_path: Path) -> None:
    survey = UpsertSurvey(tmp_path, ordered=False)
    survey.land(0, table_of([put(1, 1), put(2, 1), put(1, 2, op="D")]))
    with pytest.raises(
        InputError, match=r"nothing says which of them is the last: id 1 in .*row 1 and .*Write order_by"
    ):
        survey.append(0)
    assert not (survey.root / "metadata.json").exists()


def test_an_order_that_another_night_has(survey: UpsertSurvey) -> None:
    survey.land(1, table_of([put(3, 1, night=1), put(9, 1, night=1)]))
    with pytest.raises(
        InputError, match=r"1 keys have records of the same order.*id 3 with order 1 in row 3 of increment 0"
    ):
        survey.append(1)
    survey.assert_holds_the_state()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table.drop_columns(["op"]), "operation.column: the source has no column 'op'"),
        (lambda table: table.drop_columns(["id"]), "key: there is no column 'id'"),
        (lambda table: table.drop_columns(["seq"]), "order_by: there is no column 'seq'"),
        (
            lambda table: table.set_column(1, "id", table["id"].cast(pa.float64())),
            "key: column 'id' is of type double",
        ),
        (
            lambda table: table.set_column(0, "op", pa.array([1.0] * len(table))),
            "operation.column: column 'op' is of type double",
        ),
    ],
)
def test_columns_that_do_not_serve(
    tmp_path: Path, change: Callable[[pa.Table], pa.Table], message: str
) -> None:
    survey = UpsertSurvey(tmp_path)
    survey.land(0, change(table_of([put(1, 1)])))
    with pytest.raises(SchemaMismatchError, match=message):
        survey.append(0)


def test_deletes_of_what_is_not_there(survey: UpsertSurvey) -> None:
    gone = [Record("D", key, 9, None, None, 0.0, 1) for key in (2, 77)]
    report = survey.upsert(1, gone)
    assert (report.deleted, report.missing_deletes) == (1, 1)
    survey.assert_holds_the_state()
    survey.spec_text += "\nmissing_deletes: fail\n"
    survey.land(2, table_of([each._replace(seq=10) for each in gone]))
    with pytest.raises(InputError, match=r"2 records delete rows that are not there, such as .*id 2"):
        survey.append(2)
    survey.assert_holds_the_state()


@pytest.mark.parametrize(
    ("old", "new"),
    [("key: [id]", "key: [id, night]"), ("order_by: seq", "order_by: night"), ("order_by: seq", "")],
)
def test_a_key_or_an_order_that_was_changed(survey: UpsertSurvey, old: str, new: str) -> None:
    survey.spec_text = survey.spec_text.replace(old, new)
    survey.land(1, table_of([put(1, 2, night=1)]))
    with pytest.raises(SpecError, match=f"{old.partition(':')[0]} is .*but version 1 was made with"):
        survey.append(1)
    survey.assert_holds_the_state()


def test_other_modes_do_not_add_to_it_nor_it_to_theirs(survey: UpsertSurvey, tmp_path: Path) -> None:
    text = survey.spec_text
    appending = "\n".join(
        line for line in text.splitlines() if not line.startswith(("key", "order_by", "operation"))
    ).replace("mode: upsert", "mode: append")
    survey.spec_text = appending
    survey.land(1, table_of([put(1, 2, night=1)]))
    with pytest.raises(SpecError, match=r"key is \[\], but version 1 was made with \['id'\]"):
        survey.append(1)
    other = UpsertSurvey(tmp_path / "other")
    upserting, other.spec_text = other.spec_text, appending.replace(survey.landing, other.landing)
    other.land(0, table_of([put(1, 1)]))
    other.append(0)
    other.spec_text = upserting
    other.land(1, table_of([put(1, 2, night=1)]))
    with pytest.raises(SpecError, match=r"key is \['id'\], but version 1 was made with \[\]"):
        other.append(1)
