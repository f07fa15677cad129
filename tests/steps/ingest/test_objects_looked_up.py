"""A small source asks the index of its objects where they lie, and no leaf without any of them is opened."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hipslake
import numpy as np
import pyarrow as pa
import pytest
from hipslake import Catalog
from hipslake.errors import InputError
from hipslake.sphere.pixels import order29

from tests.steps.sources_of_objects import KINDS, Lake, by_objects, objects_table, sources_table


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def pixels(objects: pa.Table) -> dict[Any, int]:
    """The order-29 pixel of each object by its id, as healpy says."""
    return dict(zip(objects["id"].to_pylist(), order29(objects["ra"], objects["dec"]).tolist(), strict=True))


def placed(sources: Catalog) -> dict[Any, int]:
    """Where each object's sources lie."""
    rows = sources.read(["_healpix_29", "object_id"])
    return dict(zip(rows["object_id"].to_pylist(), rows["_healpix_29"].to_pylist(), strict=True))


def few_sources(objects: pa.Table, some: slice) -> pa.Table:
    """Sources of some of the objects alone, two of each."""
    near = objects.take(np.argsort(order29(objects["ra"], objects["dec"]), kind="stable")[some])
    return sources_table(pa.concat_tables([near, near]), rows=300)


@contextmanager
def only(catalog: Catalog, pixels: set[int]) -> Iterator[int]:
    """Meanwhile only the leaf files that hold some pixels are there; gives how many have gone."""
    table = catalog.metadata.partitions(None, catalog.storage)
    gone = []
    for order, npix, path in zip(
        *(table[name].to_pylist() for name in ("order", "npix", "path")), strict=True
    ):
        if not any(pixel >> 2 * (29 - order) == npix for pixel in pixels):
            gone.append(Path(catalog.storage.root, path))
    for path in gone:
        path.rename(path.with_suffix(".away"))
    yield len(gone)
    for path in gone:
        path.with_suffix(".away").rename(path)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", [*KINDS, "unsigned"])
@pytest.mark.parametrize("layout", ["hats", "hipscat"])
def test_only_leaves_of_the_objects_of_a_night_are_opened(lake: Lake, kind: str, layout: str) -> None:
    objects = objects_table(kind="integers" if kind == "unsigned" else kind)
    if kind == "unsigned":
        beyond = objects["id"].to_numpy().astype(np.uint64) + np.uint64(1 << 63)
        objects = objects.set_column(0, "id", pa.array(beyond))
    catalog = lake.ingest_objects(objects, layout=layout, index=["id"])
    sources = few_sources(objects, slice(500, 540))
    lake.land("sources", sources)
    run = lake.start("sources", layout=layout, position_from=by_objects())
    where = pixels(objects)
    expected = {name: where[name] for name in sources["object_id"].to_pylist()}
    with only(catalog, set(expected.values())) as gone:
        lake.write(run)
    assert gone > 20
    lake.finish(run)
    assert placed(lake.open("sources")) == expected
    lake.open("sources").verify().raise_if_failed()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_objects_that_came_or_moved_since_the_index_was_built_are_found(lake: Lake, mode: str) -> None:
    objects = objects_table(rows=1000)
    spec: dict[str, Any] = {
        "name": "objects",
        "position": {"ra": "ra", "dec": "dec"},
        "mode": mode,
        "co_partitioned": ["id"],
        "index": ["id"],
        "threshold": "50 rows",
        **({"key": "id"} if mode == "upsert" else {}),
    }

    def night(rows: pa.Table, day: int) -> None:
        interval = f"2026-11-{day:02d}"
        hipslake.ingest(rows, spec=spec, warehouse=lake.warehouse, interval=interval, spark=False)

    night(objects, 1)
    later = objects_table(rows=60, seed=9)
    there = objects["id"].to_pylist()[:30] if mode == "upsert" else []  # those lie elsewhere now
    later = later.set_column(
        0, "id", pa.array([*there, *range(10**12, 10**12 + 60 - len(there))], pa.int64())
    )
    night(later, 2)
    where = pixels(objects) | pixels(later)
    sources = sources_table(pa.concat_tables([objects.slice(0, 40), later, later.slice(0, 10)]), rows=900)
    placed_at = placed(lake.ingest_sources(sources))
    assert placed_at == {name: where[name] for name in sources["object_id"].to_pylist()}
    assert len(set(placed_at) & set(later["id"].to_pylist())) > 50


def test_two_objects_of_one_id_are_told_where_they_are_looked_up(lake: Lake) -> None:
    objects = objects_table()
    twins = pa.concat_tables([objects, objects.slice(3, 1)])  # the same place, so that the mark is true
    lake.ingest_objects(twins, index=["id"])
    with pytest.raises(InputError, match=rf"column 'id' that another has too.*{objects['id'][3].as_py()}"):
        lake.ingest_sources(sources_table(objects.slice(3, 2), rows=20))
    assert lake.ingest_sources(sources_table(objects.slice(5, 30), rows=200)).metadata.total_rows == 200


def test_ids_of_no_object_open_no_leaf(lake: Lake) -> None:
    objects = objects_table()
    catalog = lake.ingest_objects(objects, index=["id"])
    sources = sources_table(objects.slice(0, 20), rows=50)
    lake.land("sources", sources.set_column(1, "object_id", pa.array(range(5, 55), pa.int64())))
    run = lake.start("sources", position_from=by_objects(unmatched="own_position"))
    with only(catalog, set()):
        lake.write(run)
    lake.finish(run)
    rows = lake.open("sources").read()
    assert (rows["_healpix_29"].to_numpy() == order29(rows["ra"], rows["dec"])).all()
