"""Checksums of stored times: the same in every unit that holds them, and never those of other times."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.tables.stored_values import StoredRows
from hypothesis import given
from hypothesis import strategies as st

_MICROS = 2**63 // 1000  # behind the last microsecond that nanoseconds reach
_EDGES = [0, -1, 1, _MICROS - 1, _MICROS, _MICROS + 1, -_MICROS, 1 - _MICROS, -_MICROS - 1]
micros = st.one_of(
    st.sampled_from(_EDGES), st.integers(-(2**62), 2**62), st.integers(-(10**15), 10**15), st.none()
)


def checksum(tmp_path: Path, times: pa.Array, **options: object) -> int:
    path = tmp_path / "times.parquet"
    pq.write_table(pa.table({"n": [*range(len(times))], "t": times}), path, **options)
    with pa.OSFile(str(path)) as file:
        return StoredRows(file).summed(["n", "t"], range(1), 1 << 16).checksum


def of_unit(times: list[int | None], unit: str, scale: int) -> pa.Array:
    return pa.array([None if time is None else time * scale for time in times], pa.int64()).view(
        pa.timestamp(unit)
    )


@given(times=st.lists(micros, min_size=1, max_size=20))
def test_times_count_alike_in_micro_and_nanoseconds_and_as_int96(
    tmp_path_factory: pytest.TempPathFactory, times: list[int | None]
) -> None:
    folder = tmp_path_factory.mktemp("units")
    held = [time for time in times if time is None or abs(time) < _MICROS]
    expected = checksum(folder, of_unit(held, "us", 1))
    assert checksum(folder, of_unit(held, "ns", 1000)) == expected
    old = checksum(folder, of_unit(held, "ns", 1000), use_deprecated_int96_timestamps=True)
    assert old == expected


@given(times=st.lists(st.integers(-(2**62) // 1000, 2**62 // 1000), min_size=1, max_size=20))
def test_times_count_alike_in_milli_and_microseconds(
    tmp_path_factory: pytest.TempPathFactory, times: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("units")
    assert checksum(folder, of_unit(list(times), "ms", 1)) == checksum(
        folder, of_unit(list(times), "us", 1000)
    )


@given(times=st.lists(micros, min_size=1, max_size=20), data=st.data())
def test_other_times_count_otherwise(
    tmp_path_factory: pytest.TempPathFactory, times: list[int | None], data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(times) - 1))
    before = times[at]
    flipped = 2 ** data.draw(st.integers(0, 63))
    other = [*times]
    other[at] = 7 if before is None else (before ^ flipped) if flipped < 2**63 else -before - 1
    folder = tmp_path_factory.mktemp("others")
    assert checksum(folder, of_unit(times, "us", 1)) != checksum(folder, of_unit(other, "us", 1))
