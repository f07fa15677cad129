"""What joins by key promise to those who carry them out, as `CatalogJoin` says it."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hipslake.catalog.joining.equijoin import Equijoin
from hipslake.catalog.joining.join import CatalogJoin
from hipslake.catalog.joining.time_series import TimeSeries
from hipslake.sphere.pixels import WHOLE_SKY

from tests.steps.sources_of_objects import Lake, objects_table, sources_table

ON = ("id", "object_id")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Objects and their sources, in leaves of a few row groups each."""
    lake = Lake(tmp_path_factory.mktemp("lake"))
    objects = objects_table(rows=600)
    small = {"parquet": {"row_group_rows": 20}}
    lake.ingest_objects(objects, threshold="100 rows", **small)
    lake.ingest_sources(sources_table(objects, rows=3000), threshold="300 rows", **small)
    return lake


def join_of(lake: Lake, kind: Any) -> CatalogJoin:
    objects, sources = (
        (catalog.storage, catalog.metadata) for catalog in (lake.open("objects"), lake.open("sources"))
    )
    if kind == "time series":
        return TimeSeries.of(objects, sources, ON, "time")
    return Equijoin.of(objects, sources, ON, kind)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", ["inner", "left", "anti", "time series"])
def test_how_the_curve_is_cut_changes_nothing(lake: Lake, kind: str) -> None:
    join = pickle.loads(pickle.dumps(join_of(lake, kind)))  # as it comes to a task
    whole = join.table(*WHOLE_SKY)
    assert whole.num_rows
    assert whole.schema.equals(join.schema)
    assert (np.diff(whole["_healpix_29"].to_numpy()) >= 0).all()
    numbers = set()
    for most_rows in (1, 70, 100_000):
        plan = join.stretches(most_rows)
        assert (plan.start < plan.stop).all()
        assert (plan.stop[:-1] <= plan.start[1:]).all()
        stretches = list(zip(plan.start.tolist(), plan.stop.tolist(), strict=True))
        assert pa.concat_tables([join.table(*stretch) for stretch in stretches]).equals(whole)
        batches = [batch for stretch in stretches for batch in join.batches(*stretch)]
        assert pa.Table.from_batches(batches, join.schema).equals(whole)
        numbers.add(len(plan))
    assert len(numbers) == 3
