"""The key `stream` of a table's spec."""

from __future__ import annotations

from typing import Any

import pytest
from hipslake.errors import SpecError
from hipslake.specs.base import validated
from hipslake.specs.table_spec import TableSpec

FILES = {"files": {"uri": "/landing/*.parquet", "format": "parquet"}}
STREAM = {"trigger": "available_now", "source": "files"}


def spec(**given: Any) -> TableSpec:
    usual = {"name": "alerts", "table": "survey.alerts", "source": FILES, "stream": STREAM}
    return validated(TableSpec, usual | given, "alerts")


def test_a_stream_is_said_in_a_few_words() -> None:
    said = spec().stream
    assert said is not None
    assert (said.max_files, said.wait_minutes, said.compact) == (None, 60, False)
    # How rows come in is no part of what they are.
    assert spec().fingerprint_text() == spec(stream=None).fingerprint_text()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"stream": {"source": "files"}}, "stream.trigger"),
        ({"stream": STREAM | {"trigger": "continuous"}}, "available_now"),
        ({"stream": STREAM | {"source": "kafka"}}, "no part of PySpark.*hipslake.sink"),
        ({"stream": STREAM | {"max_files": 0}}, "max_files"),
        ({"stream": STREAM | {"wait_minutes": float("nan")}}, "wait_minutes"),
        ({"stream": STREAM | {"checkpoint": "/x"}}, "checkpoint"),
        ({"stream": STREAM | {"wait_minutes": 0}}, "wait_minutes: is 0, and without a schedule"),
        ({"branch": "audit"}, "batches of a stream go to main at once"),
        ({"source": {"catalog": "stars"}}, "is of files, and this table is fed from a catalog"),
        ({"source": {"files": FILES["files"] | {"uri": "/x/{{ night }}/*.parquet"}}}, "of no interval"),
        ({"mode": "overwrite-interval", "interval": "ts"}, "overwrite-interval needs rows of an interval"),
    ],
)
def test_what_is_no_stream_is_told(given: dict[str, Any], says: str) -> None:
    with pytest.raises(SpecError, match=says):
        spec(**given)
