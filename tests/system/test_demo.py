"""`make demo`, whole: the chain runs twice, and what stands at its end is the second version, everywhere."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.api.catalog import Catalog
from hipslake.versions.log import VersionLog
from pyiceberg.catalog import load_catalog

from tests.airflow_home import PROJECT
from tests.peers.running import run_peer
from tests.system.standalone import Standalone

DEMO = "include/setup/setup.sh database && python -m hipslake_demo.demo"
ROWS = 482_176


@pytest.mark.slow
def test_the_demo_publishes_gaia_twice_and_each_version_takes_the_place_of_the_last(
    tmp_path: Path, peers_python: str
) -> None:
    landing, warehouse, state = (tmp_path / name for name in ("landing", "warehouse", "state"))
    airflow = Standalone(
        tmp_path,
        HIPSLAKE_LANDING=str(landing),
        HIPSLAKE_WAREHOUSE=str(warehouse),
        HIPSLAKE_STATE=str(state),
    )
    printed = airflow.run(DEMO, seconds=1800)
    runs = re.findall(r"^(\w+__\w+) +([\w/]+|hand) +success +[\d.]+$", printed, re.MULTILINE)
    assert runs.count(("catalog_ingest__gaia_dr3", "hand")) == 2
    for follower in ("iceberg_sink__gaia_dr3", "table_compact__gaia_dr3_clustered"):
        assert sum(dag_id == follower for dag_id, _ in runs) == 2
    assert sum(dag_id == "cube_align__sky" for dag_id, _ in runs) >= 2
    assert runs.count(("catalog_adopt__nearby_stars", "hand")) == 1
    assert ("catalog_crossmatch__gaia_x_nearby", "catalog/gaia_dr3") in runs
    assert "nearby_stars: built version 1" in printed
    assert re.search(r"adopted +\S+/others/nearby_stars, whose \d+ leaves are not copied", printed)

    catalog = Catalog.open(str(warehouse / "catalogs" / "gaia_dr3"))
    assert VersionLog(catalog.storage).numbers() == [1, 2]
    assert catalog.metadata.groups[0].leaves == 216
    landed = pa.concat_tables([pq.read_table(path) for path in sorted(landing.glob("gaia_dr3/*.parquet"))])
    stars = landed.sort_by("source_id")
    assert stars.num_rows == ROWS

    iceberg = load_catalog("hipslake", type="sql", uri=f"sqlite:///{state}/iceberg.db")
    table = iceberg.load_table("survey.gaia_dr3")
    found = table.scan(selected_fields=tuple(stars.column_names)).to_arrow().sort_by("source_id")
    assert found.select(stars.column_names).cast(stars.schema).equals(stars)
    sinks = [one for one in table.snapshots() if one.summary and one.summary["hipslake.sink"]]
    assert [one.summary["added-records"] for one in sinks if one.summary] == [str(ROWS)] * 2
    current = table.current_snapshot()
    assert current is not None
    assert current.summary is not None
    assert current.summary.operation.value == "replace"  # the compaction has the last word
    script = PROJECT / "tests" / "tables" / "read_by_peers.py"
    run_peer(peers_python, script, table.metadata_location, tmp_path)
    for peer in ("polars", "duckdb"):
        rows = pq.read_table(tmp_path / f"{peer}.parquet").sort_by("source_id")
        assert rows["source_id"].cast(pa.int64()).equals(stars["source_id"])
        assert rows["phot_g_mean_mag"].equals(stars["phot_g_mean_mag"])

    again = airflow.run(DEMO, seconds=1800)
    assert "gaia_dr3: reused version 2" in again
    assert "nearby_stars: reused version 1" in again
    assert VersionLog(catalog.storage).numbers() == [1, 2]
