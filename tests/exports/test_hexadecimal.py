"""Hexadecimal texts are those of Python."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hipslake.exports.hexadecimal import hexadecimal
from hypothesis import given
from hypothesis import strategies as st

KINDS = [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(3)]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@given(data=st.data())
def test_any_bytes_also_of_a_slice(kind: pa.DataType, data: st.DataObject) -> None:
    width = 3 if kind == pa.binary(3) else None
    texts = st.binary(min_size=width or 0, max_size=width or 5)
    values = data.draw(st.lists(st.one_of(st.none(), texts), max_size=12))
    first = data.draw(st.integers(0, len(values)))
    found = hexadecimal(pa.array(values, kind).slice(first))
    found.validate(full=True)
    assert found.to_pylist() == [None if each is None else each.hex() for each in values[first:]]
