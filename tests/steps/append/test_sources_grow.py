"""Nights of sources, and objects that grow or are replaced under them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hipslake import Catalog
from hipslake.errors import SpecError, VerificationError
from hipslake.sphere.pixels import order29
from hipslake.steps.run import Window

from tests.steps import in_process
from tests.steps.sources_of_objects import Lake, by_objects, objects_table, sources_table

FIRST = datetime(2026, 10, 1, tzinfo=UTC)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def night(lake: Lake, name: str, number: int, table: pa.Table, **spec: object) -> Catalog:
    """Append a night of a catalog."""
    lake.land(f"{name}/{FIRST + timedelta(days=number):%Y-%m-%d}", table)
    start = FIRST + timedelta(days=number)
    source = {"uri": f"{lake.place}/landing/{name}/{{{{ night }}}}/*.parquet", "format": "parquet"}
    window = Window(start=start, end=start + timedelta(days=1), origin="data_interval")
    folder = lake.start(name, window=window, source=source, mode="append", **spec)
    in_process.freeze(folder)
    in_process.count(folder)
    in_process.append(folder)
    return lake.open(name)


def test_nights_of_sources_follow_objects_that_grow(lake: Lake) -> None:
    objects = objects_table()
    ids = {"co_partitioned": ["id"]}
    night(lake, "objects", 0, objects.slice(0, 1000), **ids)
    sources = sources_table(objects.slice(0, 1000), rows=2000)
    night(lake, "sources", 0, sources, position_from=by_objects())
    grown = night(lake, "objects", 1, objects.slice(1000), **ids)
    more = sources_table(objects, rows=3000, seed=8)
    catalog = night(lake, "sources", 1, more, position_from=by_objects())
    [mark] = catalog.metadata.co_partitioned
    assert mark.objects.writes == grown.metadata.increment_writes
    assert len(mark.objects.writes) == 2
    catalog.verify().raise_if_failed()
    home = pa.table({"object_id": objects["id"], "home": order29(objects["ra"], objects["dec"])})
    joined = catalog.read().join(home, "object_id", join_type="left outer")
    assert joined.num_rows == 5000
    assert pc.all(pc.equal(joined["home"], joined["_healpix_29"])).as_py()


def test_objects_that_were_replaced_refuse_the_next_night(lake: Lake) -> None:
    objects = objects_table()
    lake.ingest_objects(objects)
    night(lake, "sources", 0, sources_table(objects, rows=1000), position_from=by_objects())
    lake.ingest_objects(objects_table(seed=9))
    with pytest.raises(SpecError, match="are at another place in version 2 than these rows"):
        night(lake, "sources", 1, sources_table(objects, rows=1000), position_from=by_objects())


def test_a_night_that_scatters_a_marked_column_is_not_published(lake: Lake) -> None:
    objects = objects_table()
    ids = {"co_partitioned": ["id"]}
    night(lake, "objects", 0, objects.slice(0, 1000), **ids)
    elsewhere = objects.slice(0, 3).set_column(1, "ra", pa.array([1.0, 2.0, 3.0]))
    with pytest.raises(VerificationError, match=r"column 'id' is marked .* 3 of its values"):
        night(lake, "objects", 1, elsewhere, **ids)
    assert lake.open("objects").version == 1
    twins = night(lake, "objects", 1, objects.slice(0, 3), **ids)
    twins.verify().raise_if_failed()


def test_an_unmarked_catalog_stays_so(lake: Lake) -> None:
    objects = objects_table()
    lake.ingest_objects(objects)
    strangers = sources_table(objects_table(seed=5, rows=4000), rows=1000)
    own = {"position_from": by_objects(unmatched="own_position")}
    assert night(lake, "sources", 0, sources_table(objects, rows=100), **own).metadata.co_partitioned
    assert not night(lake, "sources", 1, strangers, **own).metadata.co_partitioned
    assert not night(lake, "sources", 2, sources_table(objects, rows=100), **own).metadata.co_partitioned
    lake.open("sources").verify().raise_if_failed()


def test_a_night_without_sources_is_published(lake: Lake) -> None:
    objects = objects_table()
    lake.ingest_objects(objects)
    sources = sources_table(objects, rows=100)
    night(lake, "sources", 0, sources, position_from=by_objects())
    catalog = night(lake, "sources", 1, sources.slice(0, 0), position_from=by_objects())
    assert (catalog.version, catalog.metadata.total_rows) == (2, 100)
    assert catalog.metadata.mark_of("object_id") is not None
