"""Numbers of the keys of two tables: equal keys, and only they, have equal ones."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hipslake.tables import row_keys
from hipslake.tables.row_keys import joint_codes
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples

_KINDS = {
    "int64": (pa.int64(), st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)),
    "uint64": (pa.uint64(), st.integers(0, 2**64 - 1) | st.integers(0, 3)),
    "int8": (pa.int8(), st.integers(-128, 127)),
    "string": (pa.string(), st.sampled_from(["", "a", "b", "ab", "\x00"])),
    "bool": (pa.bool_(), st.booleans()),
}


@st.composite
def tables(draw: st.DrawFn) -> tuple[pa.Table, pa.Table, list[str]]:
    """Two tables of the same columns, with nulls and in chunks, and their key."""
    kinds = draw(st.lists(st.sampled_from(list(_KINDS)), min_size=1, max_size=3))
    names = [f"k{at}" for at in range(len(kinds))]
    found = []
    for _ in range(2):
        rows = draw(st.integers(0, 40))
        columns = {}
        for name, kind in zip(names, kinds, strict=True):
            of, values = _KINDS[kind]
            some = draw(st.lists(st.none() | values, min_size=rows, max_size=rows))
            cut = draw(st.integers(0, rows))
            columns[name] = pa.chunked_array([some[:cut], some[cut:]], of)
        found.append(pa.table(columns))
    return found[0], found[1], names


@pytest.mark.parametrize("parted", [0, 1 << 18], ids=["parted", "in one piece"])
@settings(max_examples=examples(300))
@given(given_tables=tables())
def test_keys_have_one_number_each(given_tables: tuple[pa.Table, pa.Table, list[str]], parted: int) -> None:
    old, new, names = given_tables
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_keys, "_PARTED_ROWS", parted)
        first, second = joint_codes(old, new, names)
    keys = [tuple(row.values()) for row in [*old.to_pylist(), *new.to_pylist()]]
    codes = np.concatenate([first, second]).tolist()
    assert (len(first), len(second)) == (old.num_rows, new.num_rows)
    pairs = set(zip(keys, codes, strict=True))
    assert len(pairs) == len(set(keys)) == len(set(codes))


def test_a_million_keys_have_one_number_each() -> None:
    random = np.random.default_rng(5)
    values = random.integers(0, 400_000, 1_000_000) * random.choice([1, -(2**40)], 1_000_000)
    nulls = random.random(1_000_000) < 0.01
    column = pa.array(values, mask=nulls)
    first, second = joint_codes(pa.table({"k": column[:300_000]}), pa.table({"k": column[300_000:]}), ["k"])
    codes = np.concatenate([first, second])
    assert len(set(codes[nulls].tolist())) == 1
    of_values = dict(zip(values[~nulls].tolist(), codes[~nulls].tolist(), strict=True))
    assert [of_values[value] for value in values[~nulls].tolist()] == codes[~nulls].tolist()
    assert len(set(of_values.values()) | {int(codes[nulls][0])}) == len(of_values) + 1
