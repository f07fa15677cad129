"""What a program gives as an interval: the same window, in whatever form."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from astropy.time import Time
from hipslake.api.run_interval import window_of_interval
from hipslake.errors import SpecError
from hypothesis import given
from hypothesis import strategies as st

DAY = datetime(2025, 11, 21, tzinfo=UTC)


@pytest.mark.parametrize(
    "start",
    [
        61000,
        61000.0,
        np.int64(61000),
        np.float32(61000),
        "2025-11-21",
        "2025-11-21T00:00:00+00:00",
        date(2025, 11, 21),
        datetime(2025, 11, 21),
        np.datetime64("2025-11-21"),
        Time("2025-11-21", scale="utc"),
        (61000, "2025-11-22"),
        Time("2025-11-21T00:00:37", scale="tai"),
        Time(["2025-11-21", "2025-11-22"]),
        np.array([61000, 61001]),
        np.array(["2025-11-21", "2025-11-22"]),
        np.array(["2025-11-21", "2025-11-22"], "M8[D]"),
        (np.datetime64("2025-11-21"), np.datetime64("2025-11-22", "ns")),
        pd.DatetimeIndex(["2025-11-21", "2025-11-22"]),
        pd.Series([61000, 61001], index=[7, 8]),
        pd.Timestamp("2025-11-21T01:00", tz="Europe/Berlin"),
        pa.scalar(61000),
    ],
    ids=repr,
)
def test_times_of_all_kinds_are_the_same_interval(start: Any) -> None:
    window = window_of_interval(start)
    assert (window.start, window.end) == (DAY, DAY + timedelta(days=1))


@given(st.floats(15_020, 88_069))
def test_a_number_is_a_modified_julian_date(mjd: float) -> None:
    start = window_of_interval(mjd).start
    assert start is not None
    day = int(mjd)
    leap = Time(day + 1, format="mjd").unix_tai - Time(day, format="mjd").unix_tai > 86400.5
    assert abs(Time(start).mjd - mjd) * 86400 < (1.002 if leap else 2e-3)  # our days have 86,400 seconds


@pytest.mark.parametrize(
    "interval",
    [
        None,
        True,
        "soon",
        float("nan"),
        1e12,
        2026,
        202611,
        2461000.5,
        (1,),
        (1, 2, 3),
        (61001, 61000),
        (61000, 61000),
        object(),
        [],
        np.array([61000]),
        np.zeros((2, 2)),
        np.array(["NaT", "2025-11-21"], "M8[D]"),
        pd.NaT,
    ],
)
def test_what_is_no_interval_is_refused(interval: Any) -> None:
    with pytest.raises(SpecError, match="interval"):
        window_of_interval(interval)
