"""Timestamps as texts."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def moment_texts(values: pa.Array, zone: str = "") -> pa.LargeStringArray:
    """Timestamps in ISO 8601 with all digits of their unit, in UTC if they have a zone; null is null.

    Of times that Arrow's calendar does not reach, the text says their number: `<value out of range: ...>`.

    Parameters
    ----------
    values : pyarrow.TimestampArray
    zone : str
        What ends the texts of times that have a zone.

    Examples
    --------
    >>> moment_texts(pa.array([0, None], pa.timestamp("ms", "Europe/Paris"))).to_pylist()
    ['1970-01-01T00:00:00.000', None]
    """
    plain = values.view(pa.timestamp(values.type.unit))  # a zone does not change the number
    end = "" if values.type.tz is None else zone
    return pc.replace_substring_regex(plain.cast(pa.large_string()), r"^([-\d]+) (.*)", rf"\1T\2{end}")
