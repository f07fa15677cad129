"""Light curves: objects with their sources nested, against pandas, with filters, and read by peers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hipslake.errors import CoPartitionError, SpecError

from tests.peers.running import run_peer
from tests.steps.sources_of_objects import Lake, objects_table, sources_table

ON = ("id", "object_id")
PEER = """\
import json, sys
import nested_pandas as npd
frame = npd.read_parquet(sys.argv[1])
flux = frame["sources.flux"] if "sources" in frame.nested_columns else None
print(json.dumps({"nested": list(frame.nested_columns), "sum": float(flux.sum()), "rows": len(frame)}))
"""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """10,000 objects with 1M sources, of which many were seen at one time."""
    lake = Lake(tmp_path_factory.mktemp("lake"))
    objects = objects_table(rows=10_000)
    lake.ingest_objects(objects, threshold="900 rows")
    lake.ingest_sources(sources_table(objects, rows=1_000_000), threshold="50k rows")
    return lake


def grouped(lake: Lake, sources: pd.DataFrame | None = None) -> pd.Series:
    """By pandas: per object the ids of its sources, by time and then as they stand in the catalog."""
    rows = lake.open("sources").to_pandas() if sources is None else sources
    rows = rows.sort_values("time", kind="stable")
    return rows.groupby("object_id")["source_id"].agg(list)


def as_series(table: pa.Table) -> dict[int, list[int]]:
    lists = [rows["source_id"] for rows in table["sources"].to_pylist()]
    return dict(zip(table["id"].to_pylist(), lists, strict=True))


def rows_of(table: pa.Table) -> list[list[dict[str, Any]]]:
    """The sources of each object, row by row."""
    return [
        [dict(zip(series, values, strict=True)) for values in zip(*series.values(), strict=True)]
        for series in table["sources"].to_pylist()
    ]


def test_light_curves_equal_a_groupby(lake: Lake) -> None:
    objects, sources = lake.open("objects"), lake.open("sources")
    found = objects.time_series(
        sources, ON, "time", columns=["id", "class"], source_columns=["source_id", "time"]
    )
    assert found.column_names == ["_healpix_29", "id", "class", "sources"]
    assert found["id"].equals(objects.read(["id"])["id"])
    expected = grouped(lake)
    curves = as_series(found)
    assert sum(map(bool, curves.values())) == len(expected)
    assert {key: curve for key, curve in curves.items() if curve} == expected.to_dict()
    assert sum(not curve for curve in curves.values()) >= 1000
    assert found["sources"].null_count == 0


def test_filters_equal_brute_force(lake: Lake) -> None:
    objects, sources = lake.open("objects"), lake.open("sources")
    bright = (pc.field("flux") > 105) & (pc.field("time") < 60500)
    found = objects.time_series(
        sources,
        ON,
        "time",
        columns=["id"],
        source_columns=["source_id"],
        filters=[("class", "==", 2), ("dec", ">", 0)],
        source_filters=bright,
        keep_empty=False,
    )
    rows = sources.to_pandas()
    expected = grouped(lake, rows[(rows.flux > 105) & (rows.time < 60500)])
    some = objects.to_pandas()
    some = some[(some["class"] == 2) & (some.dec > 0)]
    assert as_series(found) == expected[expected.index.isin(some.id)].to_dict()
    assert 0 < found.num_rows < len(some)


def test_what_cannot_be_nested_is_told(lake: Lake) -> None:
    objects, sources = lake.open("objects"), lake.open("sources")
    with pytest.raises(SpecError, match=r"cannot be called 'Class': the objects have a column 'class'"):
        objects.time_series(sources, ON, "time", name="Class")
    with pytest.raises(SpecError, match="cannot be called '_row'"):
        objects.time_series(sources, ON, "time", name="_row")
    with pytest.raises(SpecError, match="cannot be called ''; give it the name"):
        objects.time_series(sources, ON, "time", name="")
    with pytest.raises(SpecError, match="no column of the sources is kept"):
        objects.time_series(sources, ON, "time", source_columns=[])
    with pytest.raises(CoPartitionError, match="not marked as co-partitioned"):
        objects.time_series(sources, ("id", "source_id"), "time")


def test_sources_are_sorted_by_what_has_an_order(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    objects = objects_table(rows=20)
    sources = sources_table(objects, rows=40)
    lake.ingest_objects(objects)
    words = pa.array([str(at % 3) for at in range(40)])
    sources = sources.append_column("band", words.dictionary_encode()).append_column("words", words)
    sources = sources.append_column("list", pa.array([[at] for at in range(40)]))
    catalog = lake.ingest_sources(sources)
    for column in ("band", "list"):
        with pytest.raises(SpecError, match=f"catalog sources: column '{column}' is .* has no order in time"):
            lake.open("objects").time_series(catalog, ON, column)
    found = lake.open("objects").time_series(catalog, ON, "words", source_columns=["words"])
    assert sum(map(len, rows_of(found))) == 40
    for rows in rows_of(found):
        assert rows == sorted(rows, key=lambda row: row["words"])


def test_sources_without_a_time_come_last(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    objects = objects_table(rows=3)
    sources = sources_table(objects, rows=30)
    times = [None if at % 3 == 0 else (float("nan") if at % 3 == 1 else 5.0 + at % 2) for at in range(30)]
    lake.ingest_objects(objects)
    lake.ingest_sources(sources.set_column(4, "time", pa.array(times, pa.float64())))
    found = lake.open("objects").time_series(lake.open("sources"), ON, "time")
    place = {row: at for at, row in enumerate(sources["source_id"].to_pylist())}
    assert sum(map(len, rows_of(found))) == 30
    for rows in rows_of(found):
        keys = [
            (2, 0.0) if row["time"] is None else (1, 0.0) if np.isnan(row["time"]) else (0, row["time"])
            for row in rows
        ]
        whole = [(*key, place[row["source_id"]]) for key, row in zip(keys, rows, strict=True)]
        assert whole == sorted(whole)


@pytest.mark.peers
def test_nested_pandas_reads_light_curves(lake: Lake, tmp_path: Path, peers_python: str) -> None:
    found = lake.open("objects").time_series(lake.open("sources"), ON, "time")
    pq.write_table(found, tmp_path / "curves.parquet")
    told = json.loads(run_peer(peers_python, "-c", PEER, tmp_path / "curves.parquet").splitlines()[-1])
    assert told["nested"] == ["sources"]
    assert told["rows"] == 10_000
    assert told["sum"] == pytest.approx(pc.sum(lake.open("sources").read(["flux"])["flux"]).as_py())
