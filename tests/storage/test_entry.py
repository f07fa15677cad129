"""When an object was written, as each store says it."""

from __future__ import annotations

import datetime as dt

import pytest
from hipslake.storage.entry import time_in

NEW_YEAR = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("info", "seconds"),
    [
        ({"LastModified": NEW_YEAR}, NEW_YEAR.timestamp()),
        ({"last_modified": NEW_YEAR.replace(tzinfo=None)}, NEW_YEAR.timestamp()),
        ({"updated": "2026-01-01T01:00:00+01:00"}, NEW_YEAR.timestamp()),
        ({"mtime": 12}, 12.0),
        ({"LastModified": None, "created": 12.5}, 12.5),
        ({"updated": "yesterday"}, None),
        ({"mtime": ["12"]}, None),
        ({"size": 12}, None),
    ],
)
def test_the_time_is_that_of_the_store_or_unknown(info: dict[str, object], seconds: float | None) -> None:
    assert time_in(info) == seconds
