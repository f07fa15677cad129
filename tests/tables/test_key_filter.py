"""The filter over keys holds against a set: what was taken up passes, and few others do."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hipslake.tables.row_keys import KeyFilter, key_hashes
from hypothesis import given
from hypothesis import strategies as st

KEYS = {
    "whole numbers": st.integers(-(2**63), 2**63 - 1),
    "texts": st.text(max_size=8),
    "bytes": st.binary(max_size=8),
}


def hashes_of(values: list[object] | np.ndarray) -> np.ndarray:
    return key_hashes(pa.record_batch({"key": pa.array(values)}), ["key"])


@pytest.mark.parametrize("kind", KEYS)
@given(data=st.data())
def test_all_that_was_taken_up_passes(kind: str, data: st.DataObject) -> None:
    batches = data.draw(st.lists(st.lists(KEYS[kind], min_size=1, max_size=30), min_size=1, max_size=4))
    apart = [KeyFilter() for _ in batches]
    for one, values in zip(apart, batches, strict=True):
        one.add(hashes_of(values))
    united = KeyFilter()
    for one in apart:
        united.unite(one)
    assert all(united.may_hold(hashes_of(values)).all() for values in batches)


def test_an_empty_filter_lets_nothing_pass() -> None:
    assert not KeyFilter().may_hold(hashes_of(np.arange(100_000))).any()


@pytest.mark.parametrize(("keys", "most"), [(10_000, 1e-5), (1_000_000, 1 / 5_000), (10_000_000, 1 / 17)])
def test_few_others_pass(keys: int, most: float) -> None:
    known = KeyFilter()
    for begin in range(0, keys, 1_000_000):
        known.add(hashes_of(np.arange(begin, min(begin + 1_000_000, keys))))
    others = np.arange(10**12, 10**12 + 2_000_000)
    assert known.may_hold(hashes_of(others)).mean() < most
