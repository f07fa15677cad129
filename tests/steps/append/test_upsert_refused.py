"""Mode upsert: what is refused, with file, row and value, and changes nothing."""

from __future__ import annotations

import hashlib
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


def test_orders_that_are_no_numbers_and_operations_that_are(tmp_path: Path) -> None:
    survey = UpsertSurvey(tmp_path)
    survey.spec_text = survey.spec_text.replace(
        "{column: op}", "{column: op, insert: 1, update: 2, delete: 3}"
    )
    good = table_of([put(key, key, night=0) for key in range(4)])
    good = good.set_column(2, "seq", good["seq"].cast(pa.float64()))
    good = good.set_column(0, "op", pa.array([1, 2, 1, 2]))
    for name, value, message in (
        ("seq", float("nan"), "seq is nan, so that it has no order"),
        ("op", 4, "op is 4, so that it says no operation; there are 1, 2, 3"),
    ):
        survey.land(0, changed(name, 3, value)(good))
        with pytest.raises(InputError, match=message):
            survey.append(0)
        assert not survey.is_published
    survey.land(0, good)
    assert survey.append(0).inserted == 4


def test_keys_of_two_columns_are_known_by_both(tmp_path: Path) -> None:
    survey = UpsertSurvey(tmp_path, key="[id, night]", ordered=False)
    rows = [put(key, 1, night=night) for key in range(3) for night in range(2)]
    survey.land(0, changed("night", 4, None)(table_of(rows)))
    with pytest.raises(InputError, match="night is None, so that it has no key"):
        survey.append(0)
    survey.land(0, table_of([*rows, put(2, 1, night=1, ra=11.0)]))
    with pytest.raises(InputError, match="id 2, night 1 in"):
        survey.append(0)
    assert not survey.is_published
    survey.land(0, table_of(rows))
    assert survey.append(0).inserted == 6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table.set_column(1, "id", table["id"].cast(pa.string())), "id"),
        (lambda table: table.set_column(1, "id", table["id"].cast(pa.float64())), "id"),
        (lambda table: table.drop_columns(["id"]), "id"),
        (lambda table: table.set_column(2, "seq", table["seq"].cast(pa.string())), "seq"),
        (lambda table: table.drop_columns(["seq"]), "seq"),
        (lambda table: table.drop_columns(["op"]), "op"),
    ],
    ids=["key of texts", "key of floats", "no key", "order of texts", "no order", "no operation"],
)
def test_columns_that_a_later_night_has_otherwise(
    survey: UpsertSurvey, change: Callable[[pa.Table], pa.Table], message: str
) -> None:
    before = whole(survey.root)
    survey.land(1, change(table_of([put(key, 2, night=1) for key in range(3, 8)])))
    with pytest.raises((SchemaMismatchError, InputError), match=message):
        survey.append(1)
    assert whole(survey.root) == before
    survey.assert_holds_the_state()
    survey.upsert(1, [put(key, 2, night=1) for key in range(3, 8)])
    survey.assert_holds_the_state()


def whole(root: Path) -> dict[str, str]:
    """All that lies in a catalog, by its bytes; but for claims of ordinals, which stay anyhow."""
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in root.rglob("*")
        if path.is_file() and path.parent.name != "ordinals"
    }


def test_what_is_refused_leaves_the_catalog_as_it_was_to_the_byte(survey: UpsertSurvey) -> None:
    """Also where it is found out when the night is held against the others."""
    before = whole(survey.root)
    survey.land(1, table_of([put(3, 1, night=1), put(9, 1, night=1)]))
    with pytest.raises(InputError, match="of the same order"):
        survey.append(1)
    assert whole(survey.root) == before


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
