"""How often a read of leaves in a store waits for it: as often for a hundred leaves as for two.

Each request waits in a proxy until this process has sent all that it sends without an answer, so that those
of one round trip are under way together even where the machine is busy. Where it waits as long as in a store
nearby, all of them have to be sent in that time.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hipslake import Catalog
from hipslake.storage import parquet_tail
from hipslake.storage.folder import Storage
from hipslake.storage.request_pool import MOST_REQUESTS

from benchmarks.store_proxy import StoreProxy, running_proxy
from benchmarks.store_requests import chain, counted, kinds_in_a_row, round_trips
from benchmarks.thin_store import running_thin_store
from tests.catalog.eventful import little_inline
from tests.catalog.foreign_trees import tree_of
from tests.catalog.little import sky, write_little
from tests.catalog.publishing import Published, commit, publish
from tests.stores.s3_server import S3Server, running_s3

NEARBY = 0.03  # seconds
LOOKS = 5
CONE = "cone 80 12 60deg"


class Place(NamedTuple):
    """A bucket behind a proxy."""

    uri: str
    proxy: StoreProxy


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with running_s3() as server, running_proxy(server.endpoint.removeprefix("http://")) as proxy:
        bucket = server.make_bucket()
        with S3Server(proxy.endpoint).reached():
            yield Place(f"s3://{bucket}", proxy)


def put(place: Place, folder: Path) -> Storage:
    """Copy a folder into the store."""
    storage = Storage.at(f"{place.uri}/{uuid.uuid4().hex}")
    place.proxy.set()
    for path in folder.rglob("*"):
        if path.is_file():
            storage.write(str(path.relative_to(folder)), path.read_bytes())
    return storage


class Waited(NamedTuple):
    """What a read asked for."""

    round_trips: int
    requests: dict[str, int]
    chain: str


def waited(place: Place, read: Callable[[], object], seconds: float | None = None) -> Waited:
    """Let a read wait for each of its requests: so many seconds, or until it sends no more."""
    place.proxy.take()
    if seconds is None:
        place.proxy.set(client=os.getpid())
    else:
        place.proxy.set(latency=seconds)
    read()
    place.proxy.set()
    asked = place.proxy.take().asked
    return Waited(round_trips(asked), counted(asked), kinds_in_a_row(chain(asked)))


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Published:
    """Leaves that are larger than what is fetched with their ends, and listed in sidecars."""
    degrees = sky(60_000)
    rng = np.random.default_rng(1)
    more = {f"flux_{at}": rng.normal(size=60_000) for at in range(60)}
    source = pa.table({"id": np.arange(60_000), "ra": degrees[0], "dec": degrees[1], **more})
    storage = Storage.at(tmp_path_factory.mktemp("wide") / "stars")
    with little_inline():
        metadata = write_little(
            storage, source, degrees, position={"ra": "ra", "dec": "dec"}, threshold="2000 rows"
        )
    commit(storage, metadata)
    return Published(storage, metadata, source, degrees)


@pytest.fixture(scope="module")
def stored(place: Place, wide: Published) -> str:
    """Where they lie in the store."""
    return put(place, Path(wide.storage.root)).uri()


def test_a_cone_waits_three_times(place: Place, wide: Published, stored: str) -> None:
    """For the lists of leaves, for their footers, and for the columns of the row groups that are chosen.

    Leaves of up to 1 MiB of which all is read are fetched at once, without a look at their footers.
    """
    mine = Catalog.open(wide.storage.uri())
    met = set(mine.pixels_in(CONE))
    files = wide.metadata.partitions(None, wide.storage).to_pylist()
    sizes = [each["bytes"] for each in files if (each["order"], each["npix"]) in met]
    leaves = len(met)
    assert leaves == len(sizes) >= 20
    assert 256 << 10 < max(sizes) <= 1 << 20
    most = [name for name in mine.schema.names if name not in ("flux_3", "flux_6")]
    for columns, filters, trips in (
        (None, None, 2),
        (most, None, 2),
        (None, "flux_1 > 0", 3),
        (["id"], None, 3),
        (["flux_3", "flux_6"], "flux_1 > 0", 3),
    ):
        catalog = Catalog.open(stored)
        lists = len(catalog.metadata.groups[0].sidecars or ())
        assert lists > 1
        found = waited(place, partial(catalog.read, columns, filters, region=CONE))
        assert found.round_trips == trips, found
        assert set(found.requests) == {"get", "range"}
        assert found.requests["get"] <= lists
        if trips == 2:
            assert found.requests["range"] == leaves
        else:
            assert leaves < found.requests["range"] <= leaves + MOST_REQUESTS
        assert catalog.read(columns, filters, region=CONE).equals(mine.read(columns, filters, region=CONE))


@pytest.mark.parametrize(
    "read",
    [
        lambda catalog: catalog.scan(region=CONE).to_arrow(),
        lambda catalog: list(catalog.tables(["flux_2"], region="box ra 40..120 dec -20..40")),
        lambda catalog: catalog.read(["id"], region="polygon 40 -20, 120 -20, 80 50"),
        lambda catalog: catalog.read(["id"], "flux_1 > 2"),
        lambda catalog: catalog.sample(100, columns=["flux_1"]),
        lambda catalog: catalog.statistics(["flux_1"]),
        lambda catalog: catalog.histogram("flux_1", range=(-3, 3)),
        lambda catalog: catalog.export("memory://round_trips/rows.parquet", region=CONE, overwrite=True),
    ],
    ids=["scan", "box", "polygon", "filter", "sample", "statistics", "histogram", "export"],
)
@pytest.mark.sampled(2)
def test_other_reads_wait_three_times(place: Place, stored: str, read: Callable[[Catalog], object]) -> None:
    catalog = Catalog.open(stored)
    found = waited(place, lambda: read(catalog))
    assert 2 <= found.round_trips <= 3, found
    assert "head" not in found.requests


def test_footers_that_are_longer_than_expected_come_in_one_more(
    place: Place, wide: Published, stored: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hipslake.catalog.leaf_reads._TAIL_BYTES", 0)
    monkeypatch.setattr("hipslake.catalog.leaf_reads._COLUMN_BYTES", 10)
    catalog = Catalog.open(stored)
    assert len(catalog.pixels_in(CONE)) >= 20
    found = waited(place, lambda: catalog.read(["id"], region=CONE))
    assert found.round_trips == 4, found  # for the lists, the ends, what is left of the footers, the columns
    assert catalog.read(["id"], region=CONE).equals(
        Catalog.open(wide.storage.uri()).read(["id"], region=CONE)
    )


@pytest.mark.parametrize("shape", ["one group", "two groups"])
def test_small_leaves_are_fetched_at_once(place: Place, tmp_path: Path, shape: str) -> None:
    groups = [{"name": "main"}, {"name": "details", "columns": ["mag", "note"], "threshold": "150 rows"}]
    made = publish(tmp_path, **({"column_groups": groups} if shape == "two groups" else {}))
    catalog = Catalog.open(put(place, Path(made.storage.root)).uri())
    found = waited(place, lambda: catalog.read(["id", "mag", "note"], region=CONE))
    files = sum(len(catalog.pixels_in(CONE, group)) for group in catalog.groups)
    assert found == (1, {"range": files}, "range")


def test_a_cone_in_a_catalog_of_others_waits_three_times(
    place: Place, wide: Published, tmp_path: Path
) -> None:
    catalog = Catalog.open(put(place, tree_of(wide, tmp_path / "tree")).uri())
    assert len(catalog.pixels) > 20  # as it is listed by now
    parquet_tail.forget_tails()
    found = waited(place, lambda: catalog.read(["id", "flux_1"], region=CONE))
    assert found.round_trips == 3, found  # for the schema, the footers, and the columns
    assert (set(found.requests), found.requests["get"]) == ({"get", "range"}, 1)


@pytest.fixture
def near(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A bucket of a server that takes next to no time, behind a proxy."""
    bucket = "near"
    with (
        running_thin_store(tmp_path_factory.mktemp("near"), bucket) as server,
        running_proxy(server.endpoint.removeprefix("http://")) as proxy,
        S3Server(proxy.endpoint).reached(),
    ):
        yield Place(f"s3://{bucket}", proxy)


@pytest.mark.parametrize(("columns", "trips"), [(None, 1), (["id"], 2)], ids=["whole", "by ranges"])
def test_all_is_asked_for_before_a_store_nearby_has_answered(
    near: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: list[str] | None, trips: int
) -> None:
    """Where the machine is busy a read may be kept from its processor: the best of some counts.

    By ranges, the footers of all leaves are read between two requests. Only where that takes a slow processor
    longer than the answer, answers take as long as all work of the read takes the processor.
    """
    degrees, rng = sky(40_000), np.random.default_rng(1)
    more = {f"flux_{at}": rng.normal(size=40_000) for at in range(40)}
    source = pa.table({"id": np.arange(40_000), "ra": degrees[0], "dec": degrees[1], **more})
    made = Storage.at(tmp_path / "stars")
    metadata = write_little(made, source, degrees, position={"ra": "ra", "dec": "dec"}, threshold="1000 rows")
    commit(made, metadata)
    if columns is not None:
        monkeypatch.setattr("hipslake.catalog.leaf_reads._WHOLE_BYTES", 0)
    catalog = Catalog.open(put(near, tmp_path / "stars").uri())
    leaves = len(catalog.pixels)
    assert 80 < leaves < MOST_REQUESTS
    expected = Catalog.open(made.uri()).read(columns)

    def look(seconds: float | None) -> Waited:
        rows: list[pa.Table] = []
        found = waited(near, lambda: rows.append(catalog.read(columns)), seconds)
        assert rows[0].equals(expected)
        assert set(found.requests) == {"range"}
        assert (trips - 1) * leaves < found.requests["range"] <= trips * leaves
        return found

    assert look(None).round_trips == trips
    found = [look(NEARBY) for _ in range(LOOKS)]
    if trips > 1 and min(each.round_trips for each in found) > trips:
        began = time.process_time()
        look(0.0)
        seconds = time.process_time() - began
        assert seconds > NEARBY, found
        found = [look(seconds) for _ in range(LOOKS)]
    assert min(each.round_trips for each in found) == trips, found


def test_the_proxy_sees_reads_that_wait_for_each_other(place: Place, wide: Published, stored: str) -> None:
    """What is counted here is more where files are read one by one."""
    storage = Storage.at(stored)
    paths = wide.metadata.partitions(None, wide.storage)["path"].to_pylist()[:3]
    found = waited(place, lambda: [storage.read_range(path, 0, 10) for path in paths])
    assert found == (3, {"range": 3}, "3 range")
