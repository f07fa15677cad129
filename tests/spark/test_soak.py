"""Four nights of the soak: the whole chain by its steps, measured as two hundred are."""

from __future__ import annotations

from pathlib import Path

import pytest
from hipslake.catalog.hats import skymap
from hipslake.spark.engine import SparkEngine
from pyspark.sql import SparkSession

from tests.soak.chain import CATALOGS, Chain
from tests.soak.running import one_night
from tests.soak.verdict import judged


@pytest.mark.slow
def test_four_nights_of_the_chain(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(skymap, "_DPI", skymap._DPI // 10)
    chain = Chain(tmp_path, SparkEngine(spark), objects=900, rows=40, week=2, month=4)
    chain.begin()
    nights = [one_night(chain, spark) for _ in range(4)]
    chain.check()
    told = {each.name: each for each in judged(nights)}
    assert told["orphans"].late == 0
    assert [name for name in told if name.startswith(("driver", "JVM", "workers"))]
    assert {"a night: s", "vacuum: s", "table: opened and planned, s", "table metadata: files"} <= set(told)
    for name in CATALOGS:
        assert len([*chain.catalog(name).glob("_versions/*.json")]) > 1
