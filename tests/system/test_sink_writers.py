"""Many sinks into one table at once: every one of them lands, once."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hipslake.specs.vacuum_spec import Retention
from hipslake.tables.iceberg.catalogs import open_catalog, open_table
from hipslake.tables.iceberg.expire_snapshots import vacuum_table

from tests.system import forked, sinks
from tests.tables.sinking import Lake

WRITERS, NIGHTS = 4, 10


@pytest.mark.slow
def test_forty_appends_of_four_writers_land_once_each(tmp_path: Path) -> None:
    knowing = {"initializer": forked.take_environment, "initargs": (dict(os.environ),)}
    with ProcessPoolExecutor(WRITERS, mp_context=forked.CLEAN, **knowing) as pool:
        done = [pool.submit(sinks.sink_many, str(tmp_path), writer, NIGHTS) for writer in range(WRITERS)]
        assert [future.result(timeout=300) for future in done] == [NIGHTS] * WRITERS
    lake = Lake(tmp_path)
    spec = lake.spec()
    catalog = open_catalog(spec.iceberg, lake.warehouse)
    table = open_table(catalog, spec.table)
    assert table.scan().to_arrow().sort_by("id")["id"].to_pylist() == list(range(10 * WRITERS * NIGHTS))
    assert len(table.snapshots()) == WRITERS * NIGHTS
    vacuum_table(
        catalog, spec.table, Retention(keep_versions=40, keep_days=0), now=datetime.now(UTC), dry_run=False
    )
    assert sinks.orphans(open_table(catalog, spec.table)) == []  # nor metadata that dropped off the log
