"""Digests and places of rows, held against Python's own sets."""

from __future__ import annotations

import numpy as np
from hipslake.catalog.row_sets import RowDigest, RowNumbering, digest, digest_of_range
from hypothesis import given
from hypothesis import strategies as st

SIZES = {0: 40, 3: 9}
ROW = st.one_of(
    st.integers(0, 45),
    st.integers(0, 12).map(lambda number: (3 << 40) | number),
    st.sampled_from([-1, 1 << 40, (1 << 63) - 1]),
)


def known(row: int) -> bool:
    return (row & ((1 << 40) - 1)) < SIZES.get(row >> 40, 0)


@given(rows=st.lists(ROW, max_size=30))
def test_known_rows_have_places_of_their_own(rows: list[int]) -> None:
    numbering = RowNumbering(SIZES)
    places = numbering.places(np.array(rows, np.int64))
    every = [(ordinal << 40) | number for ordinal, size in SIZES.items() for number in range(size)]
    assert numbering.size == len(every)
    assert places.tolist() == [every.index(row) if known(row) else -1 for row in rows]
    there = places[places >= 0]
    assert numbering.rows_at(there).tolist() == [row for row in rows if known(row)]


PAIRS = st.lists(st.tuples(st.integers(0, 2**62), ROW), max_size=20)


def of(pairs: list[tuple[int, int]]) -> RowDigest:
    table = np.array(pairs, np.int64).reshape(-1, 2)
    return digest(table[:, 0].copy(), table[:, 1].copy())


@given(pairs=PAIRS, cut=st.integers(0, 20), seed=st.randoms())
def test_a_digest_is_of_the_pairs_whatever_their_order_and_files(
    pairs: list[tuple[int, int]], cut: int, seed: object
) -> None:
    shuffled = sorted(pairs, key=lambda _: seed.random())  # type: ignore[attr-defined]
    assert of(shuffled[:cut]) + of(shuffled[cut:]) == of(pairs)


@given(one=PAIRS, other=PAIRS)
def test_other_pairs_have_another_digest(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    assert (of(one) == of(other)) == (sorted(one) == sorted(other))


@given(ordinal=st.integers(0, 1000), start=st.integers(0, 50), length=st.integers(0, 50))
def test_the_digest_of_a_range_is_that_of_its_rows(ordinal: int, start: int, length: int) -> None:
    rows = np.arange(start, start + length) | (ordinal << 40)
    assert digest_of_range(ordinal, start, start + length, chunk=7) == digest(np.zeros_like(rows), rows).rows
