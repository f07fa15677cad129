"""Nights that insert, correct and delete rows, backfilled under a real scheduler, and all that follows them.

A cross-match, light curves, an Iceberg table and a cube follow the catalog by its asset. One night comes
late, and one is run again with other files. In the end each has what plain Python makes of the records of all
nights.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import hipslake
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake import Catalog
from hipslake.api.cube import Cube
from hipslake.catalog.comparing import summarize
from hipslake.cube.store.cube_files import PATH, read_files
from pyiceberg.catalog import load_catalog
from sqlalchemy import create_engine, text

from tests.airflow_home import PROJECT
from tests.peers.running import run_peer
from tests.steps.nights import FIRST
from tests.stores.postgres import find_postgres, running_postgres
from tests.system.standalone import standalone
from tests.system.test_backfill import values

NIGHTS, LATE, AGAIN = 10, 4, 2
OBJECTS = 60
_QUIET = 40.0  # seconds without a run: the scheduler has made all that events ask for
_ENDS_WITHIN = 2400.0
INGEST = "catalog_ingest__sources"
FOLLOWERS = (
    "catalog_crossmatch__matched",
    "catalog_equijoin__curves",
    "iceberg_sink__sources",
    "cube_align__sky",
)
SPECS = {
    "catalogs/sources.yaml": """\
name: sources
mode: upsert
key: source_id
order_by: seq
operation: {column: op}
source: {uri: "${HIPSLAKE_LANDING}/night={{ night }}/*.parquet", format: parquet}
position: {ra: ra, dec: dec}
position_from: {catalog: objects, on: {object_id: object_id}}
threshold: 60 rows
mapping_order: 6
schedule: "0 0 * * *"
""",
    "joins/matched.yaml": """\
name: matched
type: crossmatch
left: {catalog: sources, columns: [source_id, object_id, flux]}
right: {catalog: reference, columns: [ref_id]}
radius_arcsec: 5
threshold: 60 rows
""",
    "joins/curves.yaml": """\
name: curves
type: equijoin
left: {catalog: objects, columns: [object_id]}
right: {catalog: sources, columns: [source_id, time, flux]}
on: {object_id: object_id}
nested: {time: time}
threshold: 60 rows
""",
    "tables/sources.yaml": """\
name: sources
source: {catalog: sources, changes: true, columns: [source_id, object_id, time, flux]}
table: survey.sources
mode: upsert
key: [source_id]
""",
    "cubes/sky.yaml": """\
name: sky
dimension_columns: [source_id]
partition_columns: [pixel]
pixel_orders: {pixel: 1}
seed: sources
suppress_index_on: [source_id]
index_columns: [ref_id]
datasets:
  sources: {catalog: sources, columns: [_healpix_29, source_id, object_id, flux]}
  matched: {catalog: matched, columns: [_healpix_29, source_id, ref_id]}
""",
}
SCHEMA = pa.schema(
    {
        "op": pa.string(),
        "source_id": pa.int64(),
        "object_id": pa.int64(),
        "seq": pa.int64(),
        "ra": pa.float64(),
        "dec": pa.float64(),
        "time": pa.float64(),
        "flux": pa.float64(),
    }
)


class Source(NamedTuple):
    """A record of a night."""

    op: str
    source_id: int
    object_id: int | None
    seq: int
    time: float
    flux: float


def place_of(object_id: int) -> tuple[float, float]:
    """Where an object is, in degrees; all are degrees apart."""
    return 5.0 * (object_id % 12) + 20, 6.0 * (object_id // 12) - 12


def references() -> dict[int, int]:
    """The entries of the other catalog by the object that each lies 2 arcsec beside: every third has one."""
    return {object_id: 1000 + object_id for object_id in range(0, OBJECTS, 3)}


def night(number: int, seed: int = 0) -> list[Source]:
    """Records of a night, many of them of sources that other nights bring too, with other objects."""
    rng = np.random.default_rng([number, seed])
    found = []
    for at, source_id in enumerate(rng.choice(40 + 12 * number, 24, replace=False).tolist()):
        seq = (
            NIGHTS * int(rng.integers(1, 99)) + number
            if at % 4 == 0
            else NIGHTS * 100 * (number + 1) + number
        )
        op = str(rng.choice(["I", "U", "D"], p=[0.4, 0.4, 0.2]))
        owner = None if op == "D" else int(rng.integers(OBJECTS))
        found.append(Source(op, source_id, owner, seq, round(rng.uniform(0, 9), 3), rng.normal()))
    return found


def standing(nights: dict[int, list[Source]]) -> dict[int, Source]:
    """The sources that stand, by id: of each that with the greatest `seq`, unless it deletes."""
    best: dict[int, Source] = {}
    for record in sorted((each for its in nights.values() for each in its), key=lambda each: each.seq):
        best[record.source_id] = record
    return {key: record for key, record in best.items() if record.op != "D"}


def land(place: Path, number: int, records: list[Source]) -> None:
    """Put the files of a night there, and nothing else."""
    folder = place / f"night={FIRST + timedelta(days=number):%Y-%m-%d}"
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    rows = []
    for record in records:
        ra, dec = (None, None) if record.object_id is None else place_of(record.object_id)
        near = {"ra": None if ra is None else ra + 1e-5, "dec": dec}
        rows.append(record._asdict() | near)
    for part in range(2):
        pq.write_table(pa.Table.from_pylist(rows[part::2], SCHEMA), folder / f"part-{part}.parquet")


def publish_the_others(warehouse: Path) -> None:
    """The objects, and the other catalog: they stand before the nights come."""
    ids = list(range(OBJECTS))
    ra, dec = (pa.array(axis) for axis in zip(*map(place_of, ids), strict=True))
    objects = {"name": "objects", "position": {"ra": "ra", "dec": "dec"}, "co_partitioned": ["object_id"]}
    table = pa.table({"object_id": ids, "ra": ra, "dec": dec})
    hipslake.ingest(table, spec=objects | {"threshold": "9 rows"}, warehouse=warehouse, spark=False)
    near, ref_ids = zip(*references().items(), strict=True)
    at = [place_of(object_id) for object_id in near]
    table = pa.table(
        {"ref_id": ref_ids, "ra": [ra for ra, _ in at], "dec": [dec + 2 / 3600 for _, dec in at]}
    )
    spec = {"name": "reference", "position": {"ra": "ra", "dec": "dec"}, "margin": {"arcsec": [10]}}
    hipslake.ingest(table, spec=spec, warehouse=warehouse, spark=False)


def followed(place: Path, database: str) -> None:
    """Wait until no run goes on or is to come; all have to have gone well.

    Those of the schedule do not count: today's waits for files that do not come.
    """
    asked = text("select dag_id, run_id, state from dag_run where run_type <> 'scheduled'")
    quiet_since, end = time.monotonic(), time.monotonic() + _ENDS_WITHIN
    engine = create_engine(database)
    try:
        while time.monotonic() - quiet_since < _QUIET:
            with engine.connect() as connection:
                rows = connection.execute(asked).all()
            failed = [row for row in rows if row.state == "failed"]
            assert not failed, why(place, failed)
            if any(row.state not in ("success", "failed") for row in rows):
                quiet_since = time.monotonic()
            assert time.monotonic() < end, f"it did not end within {_ENDS_WITHIN:.0f} s: {rows}"
            time.sleep(1)
    finally:
        engine.dispose()


def why(place: Path, failed: Sequence[Any]) -> str:
    """The ends of the logs of failed runs."""
    told = [f"{row.dag_id} {row.run_id}" for row in failed]
    for path in sorted((place / "airflow" / "logs").rglob("*.log")):
        if any(row.run_id in str(path) for row in failed):
            told.append(f"{path.relative_to(place)}:\n{path.read_text(errors='replace')[-3000:]}")
    return "\n".join(told)


@pytest.mark.slow
def test_all_that_follows_has_what_the_records_of_all_nights_say(tmp_path: Path, peers_python: str) -> None:
    programs = find_postgres()
    if programs is None:
        pytest.skip("there is no PostgreSQL; on Debian and Ubuntu, include/setup/setup.sh postgres gets it")
    landing, warehouse, state = (tmp_path / name for name in ("landing", "warehouse", "state"))
    for name, spec in SPECS.items():
        path = tmp_path / "specs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(spec)
    publish_the_others(warehouse)
    nights = {number: night(number) for number in range(NIGHTS)}
    for number in nights:
        if number != LATE:
            land(landing, number, nights[number])
    folders = {
        "HIPSLAKE_SPECS": str(tmp_path / "specs"),
        "HIPSLAKE_WAREHOUSE": str(warehouse),
        "HIPSLAKE_LANDING": str(landing),
        "HIPSLAKE_STATE": str(state),
    }
    with (
        running_postgres(programs) as database,
        standalone(tmp_path, **folders, AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=database) as airflow,
    ):
        unpause = " && ".join(f"airflow dags unpause --yes {dag}" for dag in (INGEST, *FOLLOWERS))
        airflow.run(f"airflow dags reserialize && {unpause}")
        first, last = (FIRST + timedelta(days=day) for day in (0, NIGHTS - 1))
        airflow.run(
            f"airflow backfill create --dag-id {INGEST} "
            f"--from-date {first:%Y-%m-%d} --to-date {last:%Y-%m-%d} "
            """--max-active-runs 3 --dag-run-conf '{"wait_minutes": 0}'"""
        )
        followed(tmp_path, database)
        land(landing, LATE, nights[LATE])
        nights[AGAIN] = night(AGAIN, seed=1)
        land(landing, AGAIN, nights[AGAIN])
        for number in (LATE, AGAIN):  # one after the other, so that the last version is that of the latter
            start = FIRST + timedelta(days=number)
            conf = {"wait_minutes": 0, "window_start": f"{start:%Y-%m-%dT00:00:00Z}"}
            airflow.run(f"airflow dags trigger {INGEST} --conf '{json.dumps(conf)}'")
            followed(tmp_path, database)
        by_assets = values(database, "select distinct dag_id from dag_run where run_type = 'asset_triggered'")
    assert sorted(by_assets) == sorted(FOLLOWERS)
    held = standing(nights)
    sources = Catalog.open(warehouse / "catalogs" / "sources")
    assert sources.versions() == list(range(1, NIGHTS + 2))  # the late night is one of the ten
    _assert_tells_what_each_version_changed(sources)
    for looked in (_of_the_catalog, _of_the_match, _of_the_light_curves, _of_the_table, _of_the_cube):
        looked(tmp_path, held)
    _assert_peers_agree(tmp_path, peers_python, held)


def _rows(table: pa.Table, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(zip(*(table[name].to_pylist() for name in columns), strict=True))


def _leaves(warehouse: Path, name: str) -> pa.Table:
    """The rows of a catalog, by plain pyarrow from the tree that readers are led to."""
    current = (warehouse / "catalogs" / name / "current").resolve()
    paths = sorted(current.rglob("Npix=*.parquet"))
    assert paths
    return pa.concat_tables([pq.ParquetFile(path).read() for path in paths], promote_options="permissive")


def _of_the_catalog(place: Path, held: dict[int, Source]) -> None:
    Catalog.open(place / "warehouse" / "catalogs" / "sources").verify(all=True).raise_if_failed()
    expected = sorted(
        (each.source_id, each.object_id, each.seq, each.time, each.flux) for each in held.values()
    )
    found = _leaves(place / "warehouse", "sources")
    assert _rows(found, "source_id", "object_id", "seq", "time", "flux") == expected


def _of_the_match(place: Path, held: dict[int, Source]) -> None:
    known = references()
    expected = sorted(
        (each.source_id, known[each.object_id], each.flux)
        for each in held.values()
        if each.object_id is not None and each.object_id in known
    )
    assert _rows(_leaves(place / "warehouse", "matched"), "source_id", "ref_id", "flux") == expected
    Catalog.open(place / "warehouse" / "catalogs" / "matched").verify(all=True).raise_if_failed()


def _of_the_light_curves(place: Path, held: dict[int, Source]) -> None:
    expected: dict[int, list[tuple[float, int, float]]] = defaultdict(list)
    for each in held.values():
        assert each.object_id is not None
        expected[each.object_id].append((each.time, each.source_id, each.flux))
    table = _leaves(place / "warehouse", "curves")
    (nested,) = [name for name in table.column_names if pa.types.is_nested(table.schema.field(name).type)]
    found = {}
    for row in table.to_pylist():
        points = row[nested]
        if isinstance(points, dict):  # a struct of lists
            points = [dict(zip(points, point, strict=True)) for point in zip(*points.values(), strict=True)]
        found[row["object_id"]] = sorted((at["time"], at["source_id"], at["flux"]) for at in points or ())
    assert found == {object_id: sorted(expected[object_id]) for object_id in range(OBJECTS)}
    Catalog.open(place / "warehouse" / "catalogs" / "curves").verify(all=True).raise_if_failed()


def _of_the_table(place: Path, held: dict[int, Source]) -> None:
    iceberg = load_catalog("hipslake", type="sql", uri=f"sqlite:///{place}/state/iceberg.db")
    table = iceberg.load_table("survey.sources")
    expected = sorted((each.source_id, each.object_id, each.time, each.flux) for each in held.values())
    assert _rows(table.scan().to_arrow(), "source_id", "object_id", "time", "flux") == expected


def _of_the_cube(place: Path, held: dict[int, Source]) -> None:
    """By a query, and its files by plain pyarrow."""
    known = references()
    cube = Cube.open(place / "warehouse" / "cubes" / "sky")
    expected = sorted(
        (
            each.source_id,
            each.object_id,
            each.flux,
            -1 if each.object_id is None else known.get(each.object_id, -1),
        )
        for each in held.values()
    )
    rows = cube.query()
    filled = rows.set_column(rows.column_names.index("ref_id"), "ref_id", rows["ref_id"].fill_null(-1))
    assert _rows(filled, "source_id", "object_id", "flux", "ref_id") == expected
    (dataset,) = [each for each in cube.metadata.tables if each.name == "sources"]
    paths = read_files(cube.storage, dataset)[PATH].to_pylist()
    stored = pa.concat_tables([pq.ParquetFile(cube.storage.uri(path)).read() for path in paths])
    assert _rows(stored, "source_id", "object_id", "flux") == [row[:3] for row in expected]


def _assert_tells_what_each_version_changed(sources: Catalog) -> None:
    """What a version is said to have changed is what the feed finds; but of the night that came again."""
    versions = [Catalog.open(sources.uri, number).metadata for number in sources.versions()]
    for before, version in pairwise(versions):
        told = summarize(sources.storage, version, before)
        counts = sources.changes(before.version, version.version).counts()
        if version.version < len(versions):
            expected = (counts["insert"], counts["update_after"], counts["delete"])
            assert (told.inserted, told.updated, told.deleted) == expected
        else:
            assert told.rows_replaced


LSDB = """\
import json, sys
import lsdb
told = {}
for root in sys.argv[1:]:
    frame = lsdb.open_catalog(root).compute()
    told[root.rsplit("/", 1)[1]] = len(frame)
print(json.dumps(told))
"""


def _assert_peers_agree(place: Path, peers_python: str, held: dict[int, Source]) -> None:
    """LSDB counts the rows of the three catalogs; polars and DuckDB read the table."""
    known = references()
    roots = [str(place / "warehouse" / "catalogs" / name) for name in ("sources", "matched", "curves")]
    told = json.loads(run_peer(peers_python, "-c", LSDB, *roots).splitlines()[-1])
    pairs = [each for each in held.values() if each.object_id in known]
    assert told == {"sources": len(held), "matched": len(pairs), "curves": OBJECTS}
    iceberg = load_catalog("hipslake", type="sql", uri=f"sqlite:///{place}/state/iceberg.db")
    metadata = iceberg.load_table("survey.sources").metadata_location
    run_peer(peers_python, PROJECT / "tests" / "tables" / "read_by_peers.py", metadata, place)
    for peer in ("polars", "duckdb"):
        rows = pq.read_table(place / f"{peer}.parquet")
        assert sorted(rows["source_id"].to_pylist()) == sorted(held)
