"""The equi-join of tables against pandas."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hipslake.errors import SpecError
from hipslake.joins.key_codes import key_codes, plain_keys
from hipslake.joins.key_joins import JoinKind, equijoin_columns, equijoined
from hypothesis import given
from hypothesis import strategies as st

KEYS = st.one_of(
    st.lists(st.one_of(st.none(), st.integers(-4, 4), st.just(2**62)), max_size=30).map(
        lambda keys: pa.array(keys, pa.int64())
    ),
    st.lists(st.one_of(st.none(), st.text("aé", max_size=3)), max_size=30).map(
        lambda keys: pa.array(keys, pa.string())
    ),
)
SIDES = st.tuples(KEYS, KEYS).filter(lambda pair: pair[0].type == pair[1].type)


@given(sides=SIDES, how=st.sampled_from(["inner", "left", "anti"]))
def test_joins_equal_those_of_pandas(sides: tuple[pa.Array, pa.Array], how: JoinKind) -> None:
    left = pa.table({"_healpix_29": np.arange(len(sides[0])), "id": sides[0], "a": np.arange(len(sides[0]))})
    right = pa.table({"object_id": sides[1], "b": pa.array(np.arange(len(sides[1])))})
    columns = equijoin_columns(
        left.select(["id", "a"]).schema, right.schema, how, on=("id", "object_id"), suffixes=("", "_right")
    )
    found = equijoined(left, right, ("id", "object_id"), how, columns)
    pairs = [
        (a, b)
        for a, key in enumerate(sides[0].to_pylist())
        for b, other in enumerate(sides[1].to_pylist())
        if key is not None and key == other
    ]
    partners = {a: [b for c, b in pairs if c == a] for a in range(len(left))}
    if how == "anti":
        assert found["a"].to_pylist() == [a for a, others in partners.items() if not others]
        return
    expected = [
        (a, b) for a, others in partners.items() for b in (others or ([None] if how == "left" else []))
    ]
    assert list(zip(found["a"].to_pylist(), found["b"].to_pylist(), strict=True)) == expected
    assert found["_healpix_29"].equals(found["a"])


def test_columns_of_one_name_get_suffixes_and_a_shared_key_stands_once() -> None:
    left = pa.schema([("id", pa.int64()), ("ra", pa.float64())])
    right = pa.schema([("id", pa.int64()), ("RA", pa.float64())])
    named = equijoin_columns(left, right, "inner", on=("id", "id"), suffixes=("", "_s"))
    assert named.schema.names == ["id", "ra", "RA_s"]
    with pytest.raises(SpecError, match="'RA', 'ra' of the join would share their names"):
        equijoin_columns(left, right, "inner", on=("id", "id"), suffixes=("", ""))


@given(st.lists(st.integers(-(2**63), 2**63 - 1), unique=True))
def test_integers_have_codes_of_their_own(keys: list[int]) -> None:
    codes = key_codes(plain_keys(pa.array(keys, pa.int64())))
    assert len(set(codes.tolist())) == len(keys)


@given(st.lists(st.text()))
def test_equal_texts_have_equal_codes_wherever_they_stand(texts: list[str]) -> None:
    whole = key_codes(plain_keys(pa.array(texts, pa.string())))
    alone = [key_codes(plain_keys(pa.array([text], pa.string())))[0] for text in texts]
    assert whole.tolist() == [int(code) for code in alone]
    assert key_codes(plain_keys(pa.array(["x", *texts])).slice(1)).tolist() == whole.tolist()
