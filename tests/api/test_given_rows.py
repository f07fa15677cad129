"""Rows that a program hands over, whatever holds them: the same values, and nulls where there are none."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import hipslake
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from astropy.io import fits
from astropy.table import Table
from hipslake.api import given_rows
from hipslake.api.given_rows import rows_of, stage
from hipslake.errors import (
    HipslakeError,
    InputError,
    ReservedColumnError,
    SpecError,
)
from hipslake.storage.folder import Storage
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.api.published_files import folders
from tests.api.stars_spec import SPEC

CONTAINERS: dict[str, Callable[[pa.Table], Any]] = {
    "table": lambda rows: rows,
    "chunks": lambda rows: pa.Table.from_batches(rows.to_batches(max_chunksize=7)),
    "batch": lambda rows: rows.combine_chunks().to_batches()[0],
    "reader": lambda rows: rows.to_reader(max_chunksize=1000),
    "dataset": ds.dataset,
    "pandas": lambda rows: rows.to_pandas(),
    "pandas with an index": lambda rows: rows.to_pandas().set_index(np.arange(7, rows.num_rows + 7)),
    "astropy": lambda rows: Table({name: rows[name].to_numpy() for name in rows.column_names}),
    "pandas, big-endian": lambda rows: swapped(rows.to_pandas()),
    "astropy, big-endian": lambda rows: Table(swapped(rows.to_pandas()).to_records(index=False)),
    "structured array, big-endian": lambda rows: swapped(rows.to_pandas()).to_records(index=False),
    "structured array": lambda rows: rows.to_pandas().to_records(index=False),
    "stream": lambda rows: Stream(rows),
}


def swapped(frame: pd.DataFrame) -> pd.DataFrame:
    """The same with numbers as a big-endian machine stores them."""
    return frame.astype({name: kind.newbyteorder(">") for name, kind in frame.dtypes.items()})


class Stream:
    """What any other library hands over: nothing but the protocol of Arrow."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._rows.__arrow_c_stream__(requested_schema)


def test_rows_may_come_in_whatever_holds_them(
    tmp_path: Path, stars: pa.Table, caplog: pytest.LogCaptureFixture
) -> None:
    first = hipslake.ingest(stars, spec=SPEC, warehouse=tmp_path, spark=False)
    for name, container in CONTAINERS.items():
        caplog.clear()
        again = hipslake.ingest(container(stars), spec=SPEC, warehouse=tmp_path, spark=False)
        assert again.version == first.version == 1, name
        assert "nothing to do" in caplog.text


def test_a_part_of_another_catalog_is_rows_too(tmp_path: Path, stars: pa.Table) -> None:
    whole = hipslake.ingest(stars, spec=SPEC, warehouse=tmp_path, spark=False)
    part = whole.scan(columns=["id", "ra", "dec"], region="cone 80 30 2deg")
    found = hipslake.ingest(part, spec=SPEC | {"name": "part"}, warehouse=tmp_path, spark=False)
    assert 100 < found.metadata.total_rows < 1500
    assert sorted(found.read(["id"])["id"].to_pylist()) == sorted(part.to_arrow()["id"].to_pylist())
    with pytest.raises(ReservedColumnError, match="_healpix_29"):
        hipslake.ingest(whole.scan(), spec=SPEC | {"name": "other"}, warehouse=tmp_path, spark=False)


def test_what_is_no_data_is_refused(tmp_path: Path) -> None:
    rows = pa.table({"ra": [1.0], "dec": [2.0]})
    batches = iter(rows.to_batches())
    row, column = Table({"ra": [1.0]})[0], Table({"ra": [1.0]})["ra"]
    for data in (7, object(), {"ra": [1.0]}, [rows], [], [None], batches, row, column, np.zeros((2, 2))):
        with pytest.raises(SpecError, match="data: "):
            hipslake.ingest(data, spec=SPEC, warehouse=tmp_path)
    assert not (tmp_path / "catalogs").exists()


def test_units_of_a_table_of_astropy_are_kept() -> None:
    table = Table({"ra": [1.0, 2.0], "flux": [[1, 2], [3, 4]], "name": np.array([b"a", b"b"])})
    table["ra"].unit, table["ra"].description = "deg", "right ascension"
    schema = rows_of(table).schema
    assert schema.field("ra").metadata == {b"unit": b"deg", b"description": b"right ascension"}
    assert schema.field("flux").type == pa.list_(pa.int64(), 2)
    assert schema.field("name").type == pa.string()


def test_masked_values_of_astropy_are_nulls() -> None:
    table = Table({"mag": [1.0, 2.0]}, masked=True)
    table["mag"].mask[1] = True
    assert rows_of(table).read_all()["mag"].to_pylist() == [1.0, None]


B = {"ra": [1.0, 2.0], "dec": [3.0, 4.0]}
UNFIT: dict[str, Any] = {
    "objects": pd.DataFrame({**B, "x": [object(), 1]}),
    "mixed types": pd.DataFrame({**B, "x": [1, "a"]}),
    "a name twice": pa.Table.from_arrays([pa.array([1.0])] * 4, ["ra", "dec", "x", "x"]),
    "two positions": pa.Table.from_arrays([pa.array([1.0])] * 3, ["ra", "dec", "ra"]),
    "names that differ by case": pa.table({**B, "RA": [1, 2]}),
    "a reserved name": pa.table({**B, "_healpix_29": [1, 2]}),
    "nothing in a struct": pa.table({**B, "x": pa.array([{}, {}])}),
    "names of two parts": pd.DataFrame({("a", "ra"): [1.0], ("b", "dec"): [2.0]}),
    "no column": pa.table({}),
    "a name twice in pandas": pd.DataFrame([[1.0, 2.0, 3]], columns=["ra", "dec", "dec"]),
    "a name twice, big-endian": pd.DataFrame(
        np.array([[1.0, 2.0, 3.0]], ">f8"), columns=["ra", "dec", "dec"]
    ),
    "complex numbers in pandas": pd.DataFrame({**B, "x": [1j, 2j]}),
    "texts that are no UTF-8": np.array([(1.0, 2.0, b"\xff")], [("ra", "f8"), ("dec", "f8"), ("x", "S1")]),
    "unions": pa.table(
        {**B, "x": pa.UnionArray.from_sparse(pa.array([0, 0], pa.int8()), [pa.array([1, 2])])}
    ),
}


@pytest.mark.parametrize("name", UNFIT)
def test_rows_that_do_not_fit_are_our_errors(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError):
        hipslake.ingest(UNFIT[name], spec=SPEC, warehouse=tmp_path, spark=False)
    assert folders(tmp_path / "catalogs" / "stars") == set()
    assert not list(tmp_path.glob("_runs/*/*/given"))


FIT: dict[str, pa.Array] = {
    "words": pa.array(["a", "b"]).dictionary_encode(),
    "views": pa.array(["a", "b"], pa.string_view()),
    "large texts": pa.array(["a", None], pa.large_string()),
    "durations": pa.array([1, 2], pa.duration("s")),
    "half floats": pa.array([1, 2], pa.float16()),
    "maps": pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64())),
    "structs": pa.array([{"a": 1}, None]),
    "lists": pa.array([[1.5], []]),
    "nothing": pa.nulls(2),
    "times": pa.array([1, 2], pa.timestamp("us", "UTC")),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", FIT)
def test_values_of_all_types_come_back(tmp_path: Path, name: str) -> None:
    rows = pa.table({**B, "x": FIT[name]})
    found = hipslake.ingest(rows, spec=SPEC, warehouse=tmp_path, spark=False).read(["ra", "x"])
    assert found.sort_by("ra")["x"].to_pylist() == rows["x"].to_pylist()


def test_rows_of_a_fits_file_are_a_structured_array(tmp_path: Path) -> None:
    names = np.array([b"a", b"bb"])
    fits.BinTableHDU(Table({**B, "name": names})).writeto(tmp_path / "stars.fits")
    rows = fits.getdata(tmp_path / "stars.fits")
    found = hipslake.ingest(rows, spec=SPEC, warehouse=tmp_path, spark=False).read(["ra", "name"])
    assert found.sort_by("ra").to_pydict() == {"ra": [1.0, 2.0], "name": ["a", "bb"]}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 400), max_size=12), st.integers(1, 50), st.integers(9, 15))
def test_the_same_rows_are_staged_as_the_same_bytes(
    monkeypatch: pytest.MonkeyPatch, sizes: list[int], seed: int, bits: int
) -> None:
    monkeypatch.setattr(given_rows, "_FILE_BYTES", 1 << bits)
    monkeypatch.setattr(given_rows, "_MEASURED_ROWS", 64)
    rng = np.random.default_rng(seed)
    total = sum(sizes)
    rows = pa.table(
        {
            "x": pa.array(rng.normal(size=total), mask=rng.random(total) < 0.3),
            "s": pa.array(rng.choice(["a", "bb", None], total), pa.string()),
        }
    )
    starts = np.cumsum([0, *sizes])
    batches = [
        batch
        for start, size in zip(starts, sizes, strict=False)
        for batch in rows.slice(start, size).to_batches()
    ]
    folder = Storage.at(f"memory://given-{seed}-{total}")
    whole = stage(folder, rows.to_reader())
    cut = stage(folder, pa.RecordBatchReader.from_batches(rows.schema, batches), "other")
    assert whole.digest == cut.digest
    assert len(whole.uris) == len(cut.uris)
    parts = [folder.read(f"other/rows-{number:06d}.parquet") for number in range(len(cut.uris))]
    found = pa.concat_tables(pq.read_table(pa.BufferReader(part)) for part in parts)
    assert found.combine_chunks().equals(rows.combine_chunks())
    assert len(parts) == 1 or total > 64


def test_many_small_batches_and_wide_rows_are_staged_in_bounded_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(given_rows, "_FILE_BYTES", 4 << 20)
    wide = pa.table({f"c{number}": np.random.default_rng(number).normal(size=5000) for number in range(400)})
    staged = stage(Storage.at(tmp_path), wide.to_reader(max_chunksize=3))
    sizes = [Path(uri).stat().st_size for uri in staged.uris]
    assert len(sizes) >= 4
    assert max(sizes) < 6 << 20
    assert sum(pq.read_metadata(uri).num_rows for uri in staged.uris) == 5000


def test_rows_that_fail_while_they_are_read_are_our_error(tmp_path: Path) -> None:
    def batches() -> Any:
        yield pa.record_batch({"ra": [1.0], "dec": [2.0]})
        raise pa.ArrowInvalid("the line is cut")

    schema = pa.schema([("ra", pa.float64()), ("dec", pa.float64())])
    reader = pa.RecordBatchReader.from_batches(schema, batches())
    with pytest.raises(HipslakeError, match="the line is cut"):
        hipslake.ingest(reader, spec=SPEC, warehouse=tmp_path)
    assert not list(tmp_path.glob("_runs/*/*/given/**/*.parquet"))


def test_times_that_are_none_and_masks_of_arrays_are_nulls() -> None:
    rows = np.zeros(3, dtype=[("seen", "M8[us]"), ("took", "m8[s]")])
    rows["seen"] = ["NaT", "2020-01-01", "2021-01-01"]
    rows["took"] = [1, "NaT", 3]
    found = rows_of(rows).read_all()
    assert found["seen"].to_pylist() == [None, datetime(2020, 1, 1), datetime(2021, 1, 1)]
    assert found["took"].to_pylist() == [timedelta(seconds=1), None, timedelta(seconds=3)]
    masked = np.ma.MaskedArray([[1.0, -999.0], [3.0, 4.0]], mask=[[False, True], [False, False]])
    found = rows_of(Table({"mag": masked})).read_all()
    assert found["mag"].to_pylist() == [[1.0, None], [3.0, 4.0]]
