"""Look-ups by a grid: what numpy's search finds, for numbers of any type and spread."""

from __future__ import annotations

import numpy as np
import pytest
from hipslake.clustering.lookup import SortedNumbers
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.examples import examples

KINDS = ["int8", "int32", "int64", "uint8", "uint32", "uint64", "float32", "float64"]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(60))
@given(data=st.data())
def test_numbers_are_found_where_a_search_finds_them(kind: str, data: st.DataObject) -> None:
    numbers = np.sort(data.draw(hnp.arrays(kind, st.integers(0, 60))))
    others = data.draw(hnp.arrays(kind, st.integers(0, 60)))
    values = np.concatenate([numbers, others])
    found = SortedNumbers.of(numbers).below(values)
    assert found.tolist() == np.searchsorted(numbers, values).tolist()


@pytest.mark.parametrize("kind", ["int64", "uint64", "float32", "float64"])
def test_crowded_numbers_are_found_too(kind: str) -> None:
    random = np.random.default_rng(5)
    crowded = np.concatenate([random.lognormal(3, 4, 3000), 1e6 + random.uniform(0, 900, 2000)]).astype(kind)
    numbers = np.unique(crowded[::3])
    values = np.concatenate([crowded, numbers, [0, 1], numbers[-1:] * 2]).astype(kind)
    sought = SortedNumbers.of(numbers)
    assert sought.before is not None
    assert sought.below(values).tolist() == np.searchsorted(numbers, values).tolist()


def test_what_is_no_number_or_has_no_end_is_found_too() -> None:
    numbers = np.linspace(-3.0, 3.0, 100)
    values = np.array([np.nan, -np.inf, np.inf, -0.0, 0.0, 1e308, -1e308])
    for some in (numbers, np.append(numbers, np.inf), np.append(numbers, np.nan), numbers * 5e307):
        assert SortedNumbers.of(some).below(values).tolist() == np.searchsorted(some, values).tolist()
