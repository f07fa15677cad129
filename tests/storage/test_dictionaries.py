"""Columns get a dictionary where their values repeat."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hipslake.storage.dictionaries import repeating_columns

ROWS = 100_000


def written(rows: pa.Table, use_dictionary: list[str] | bool) -> tuple[int, pa.Table]:
    sink = io.BytesIO()
    pq.write_table(rows, sink, compression="zstd", use_dictionary=use_dictionary)
    return len(sink.getvalue()), pq.read_table(sink)


def test_columns_whose_values_repeat_get_one_and_the_file_is_the_smaller_for_it() -> None:
    rng = np.random.default_rng(1)
    band = pa.array(rng.choice(["g", "r", "i", None], ROWS), pa.string())
    rows = pa.table({"id": np.arange(ROWS), "flux": rng.normal(size=ROWS), "band": band})
    assert repeating_columns(rows) == ["band"]
    size, read = written(rows, repeating_columns(rows))
    assert read.equals(rows)
    assert size < min(written(rows, every)[0] for every in (True, False))


def test_where_nothing_repeats_there_is_none() -> None:
    assert repeating_columns(pa.table({"id": np.arange(1000)})) is False


def test_nulls_alone_repeat_and_no_rows_are_no_trouble() -> None:
    assert repeating_columns(pa.table({"note": pa.nulls(1000, pa.string())})) == ["note"]
    assert repeating_columns(pa.table({"note": pa.nulls(0, pa.string())})) == ["note"]


def test_dictionaries_stay_and_nested_columns_are_left_to_the_writer() -> None:
    assert repeating_columns(pa.table({"band": pa.array(["g", "r"]).dictionary_encode()})) == ["band"]
    assert repeating_columns(pa.table({"spectrum": pa.array([[1.0], [2.0]])})) is True
