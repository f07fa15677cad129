"""Digests and bitmaps of rows, held against Python's own sets."""

from __future__ import annotations

import numpy as np
from hipslake.catalog.row_sets import RowBitmap, RowDigest, digest, digest_of_range
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


@given(batches=st.lists(st.lists(ROW, max_size=30), max_size=6))
def test_a_bitmap_knows_which_rows_it_has_seen(batches: list[list[int]]) -> None:
    bitmap = RowBitmap(SIZES)
    seen: set[int] = set()
    for batch in batches:
        rows = np.array(batch, np.int64)
        assert bitmap.unknown(rows).tolist() == [not known(row) for row in batch]
        repeated = {row for row in batch if known(row) and (row in seen or batch.count(row) > 1)}
        assert bitmap.add(rows).tolist() == sorted(repeated)
        seen |= {row for row in batch if known(row)}


@given(mine=st.sets(ROW.filter(known)), theirs=st.sets(ROW.filter(known)), limit=st.integers(0, 5))
def test_a_bitmap_tells_what_another_lacks(mine: set[int], theirs: set[int], limit: int) -> None:
    here, there = RowBitmap(SIZES), RowBitmap(SIZES)
    here.add(np.array(sorted(mine), np.int64))
    there.add(np.array(sorted(theirs), np.int64))
    assert here.missing_from(there, limit) == (len(mine - theirs), sorted(mine - theirs)[:limit])


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
