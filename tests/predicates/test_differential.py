"""Predicates keep the rows that a reference keeps, which goes row by row in plain Python, at every door.

`make fuzz ARGS="--target predicates --inputs 2000"` holds 100,000 pairs of table and predicate.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from hipslake.predicates.binding import check_predicate
from hipslake.predicates.evaluation import passing as kept_by
from hipslake.predicates.filter_lists import predicate_of_lists
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.predicates.differential import (
    hold_catalog,
    hold_cube,
    hold_ingested,
    hold_sunk,
    hold_table,
)
from tests.predicates.random_predicates import random_predicate, random_table
from tests.predicates.reference import (
    Compares,
    IsIn,
    IsNotANumber,
    Literal,
    Opposite,
    compared,
    passing,
)

NAN = float("nan")


@pytest.mark.parametrize(
    ("hold", "pairs"),
    [(hold_catalog, 25), (hold_ingested, 20), (hold_cube, 25), (hold_table, 100), (hold_sunk, 4)],
)
def test_rows_are_those_of_the_reference(hold: Callable[[Random, Path, int], None], pairs: int) -> None:
    @given(seed=st.integers(0, 2**40))
    @settings(max_examples=6, deadline=None)
    def held(seed: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            hold(Random(seed), Path(folder), pairs)

    held()


def test_the_reference_itself_by_hand() -> None:
    rows = [{"x": value} for value in (1.0, NAN, None, -0.0, 2.0)]
    one, zero = Literal("1", 1.0), Literal("0", 0.0)
    assert passing(Compares("x", "!=", one), rows) == [1, 3, 4]
    assert passing(Compares("x", "=", zero), rows) == [3]
    assert passing(Opposite(Compares("x", "<", one)), rows) == [0, 1, 4]
    assert passing(IsIn("x", (one, zero), negated=True), rows) == [1, 4]
    assert passing(IsNotANumber("x", negated=True), rows) == [0, 2, 3, 4]
    assert compared(2**63, ">", 2.0**63) is False
    assert compared(2**63 + 1, ">", 2.0**63) is True
    assert compared(2**53 + 1, "=", float(2**53)) is False


def test_most_predicates_are_true_for_some_rows_and_not_for_all() -> None:
    random = Random(1)
    partly = 0
    for _ in range(20):
        table = random_table(random, 30)
        partly += sum(
            0 < len(passing(random_predicate(random, table), table.rows)) < len(table.rows) for _ in range(20)
        )
    assert partly > 300


@pytest.mark.parametrize("kind", [pa.binary(4), pa.binary(), pa.large_binary(), pa.binary_view()])
def test_lists_of_filters_have_bytes_for_every_type_of_bytes(kind: pa.DataType) -> None:
    rows = pa.table({"x": pa.array([b"aaaa", b"zzaa", None], kind), "id": [0, 1, 2]})
    for filters, expected in (
        ([("x", "=", b"zzaa")], [1]),
        ([("x", "not in", [b"zzaa", b"a"])], [0]),
    ):
        predicate = predicate_of_lists(filters)
        check_predicate(predicate, rows.schema)
        assert kept_by(predicate, rows)["id"].to_pylist() == expected
