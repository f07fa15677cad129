"""What lies in a warehouse, spoilt: metadata, version logs, run folders, and what tables say of sinks."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hipslake.catalog.catalog import Catalog
from hipslake.catalog.hats.point_map import PointMap
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.partitions import PARTITION_SCHEMA, Sidecar, count_pixels, read_sidecar
from hipslake.catalog.schema import schema_text
from hipslake.compaction.parquet_folder import mark_from
from hipslake.cube.store.cube import Cube
from hipslake.cube.store.metadata import CubeMetadata
from hipslake.errors import HipslakeError
from hipslake.steps.frozen_join import frozen_join
from hipslake.steps.joining import FROZEN
from hipslake.steps.report import Report
from hipslake.steps.run import RunFolder
from hipslake.steps.tables import read_table
from hipslake.storage import Storage
from hipslake.tables.sunk import EARLIER, PREFIX, Sunk, known_sink, sunk_properties, was_sunk_earlier
from hipslake.versions.files import TOMBSTONES
from hipslake.versions.heartbeat import MARKS, pulse
from hipslake.versions.log import VersionLog
from hipslake.versions.orphans import sweep_orphans
from hipslake.versions.pins import PINS, pinned_versions

from tests.catalog.little import WRITE, sky, write_little
from tests.catalog.publishing import stars
from tests.fuzz.mutation import NUMBERS, TEXTS, hostile_value, nested, reshaped, spoilt
from tests.fuzz.target import Case, Target

_WORDS = (
    *(
        "0-3,7",
        "0-99999999999",
        "9-1",
        "-1",
        "1,,2",
        "1-2-3",
        "a-b",
        "0-12",
        "4-",
        "00000000000000000001",
        "0 - 3",
    ),
    *(
        "../x",
        "/etc/passwd",
        "a/../../b",
        "s3://b/x",
        "memory://x",
        WRITE,
        "hats",
        "hipscat",
        "20000 rows",
        "icrs",
    ),
    *("2026-11-21T03:30:00Z", "0001-01-01T00:00:00+14:00", "AAAA", "/////w==", "f" * 64, "main"),
)


@cache
def _metadata() -> dict[str, Any]:
    """Metadata with a bit of all that there can be."""
    place = Storage.at("memory://fuzz-little")
    degrees = sky(60)
    metadata = write_little(
        place, stars(degrees), degrees, position={"ra": "ra", "dec": "dec"}, layout="hipscat"
    )
    told: dict[str, Any] = json.loads(metadata.to_json())
    group = told["groups"][0]
    margin = {key: group[key] for key in ("rows", "bytes", "files", "pixels", "partitions")}
    told["margins"] = [margin | {"name": "main_10arcs", "group": "main", "radius_arcsec": 10.0}]
    file = {"path": f"{WRITE}/i", "rows": 3, "bytes": 9, "sha256": "f" * 64, "first": 1, "last": "x"}
    index = {"column": "id", "rows": 3, "bytes": 9, "files": [file], "writes": [WRITE], "leaves": "0" * 64}
    told["indices"] = [index]
    told["co_partitioned"] = [
        {"column": "id", "objects": {"catalog": "o", "column": "id", "writes": [WRITE]}}
    ]
    sidecar = {
        "path": f"{WRITE}/_sidecars/x",
        "rows": 3,
        "sha256": "0" * 64,
        "start": 0,
        "stop": 9,
        "writes": [WRITE],
    }
    second = {**group, "name": "second", "sidecars": [sidecar]}
    del second["partitions"]
    told["groups"].append(second)
    return told


def _json_of(document: Callable[[], Any], words: tuple[str, ...] = _WORDS) -> Callable[[Random], Case]:
    def make(random: Random) -> Case:
        hostile = reshaped(random, document(), (*words, *NUMBERS), most=random.choice((1, 1, 2, 4)))
        if random.random() < 0.02:
            return Case((b"[" * 100_000) if random.random() < 0.5 else b'{"a":' * 50_000, ".json")
        data = json.dumps(hostile).encode()
        if random.random() < 0.25:
            data = spoilt(random, data, most=random.choice((1, 3)))
        return Case(data, ".json")

    return make


def _read_metadata(case: Case, folder: Path) -> None:
    """Read metadata, and all that readers find in it."""
    storage = Storage.at(folder)
    metadata = CatalogMetadata.from_json(case.data)
    written = metadata.to_json()
    assert CatalogMetadata.from_json(written).to_json() == written, "it comes back as another"
    refused: list[HipslakeError] = []
    for group in metadata.with_files:
        for use in (
            group.leaf_pixels,
            lambda group=group: group.table(storage),
            lambda group=group: group.table_near(storage, np.array([0]), np.array([1 << 40])),
            lambda group=group: [count_pixels(order, text) for order, text in group.pixels.items()],
            *([group.to_arrow] if hasattr(group, "to_arrow") else []),
        ):
            try:
                use()
            except HipslakeError as error:
                refused.append(error)
            except FileNotFoundError:  # no file of the catalog is there
                pass
    for increment in metadata.increments:
        increment.sources.table(storage) if increment.sources.sidecar is None else None
    storage.write("_versions/00000001.json", case.data)
    try:
        len(Catalog.open(folder).pixels)
    except HipslakeError as error:
        refused.append(error)
    if refused:
        raise refused[0]


@cache
def _cube() -> dict[str, Any]:
    schema = pa.schema([("pixel", pa.int64()), ("id", pa.int64()), ("mag", pa.float64())])
    columns = [{"name": field.name, "type": str(field.type)} for field in schema]
    dataset = {
        "name": "seed",
        "rows": 3,
        "bytes": 9,
        "files": 1,
        "partition_columns": ["pixel"],
        "columns": columns,
        "arrow_schema": schema_text(schema),
        "table": {"path": f"{WRITE}/_sidecars/seed.parquet", "sha256": "0" * 64},
        "writes": [WRITE],
        "indices": [{"column": "id", "parts": [f"{WRITE}/indices/seed/id/0.parquet"]}],
        "source": {"kind": "parquet", "uri": "x/*", "content": "c", "taken": "t"},
    }
    roles = {"dimension_columns": ["id"], "partition_columns": ["pixel"], "seed": "seed"}
    told = {"cube": "sky", "version": 1, "parent": None, "write_id": WRITE, "created": "2026-11-21T03:30:00Z"}
    told |= {
        "library_version": "0.1.0",
        "operation": "build",
        "roles": roles,
        "file_rows": 10,
        "datasets": [dataset],
    }
    return json.loads(CubeMetadata.model_validate(told).to_json())


def _read_cube(case: Case, folder: Path) -> None:
    storage = Storage.at(folder)
    storage.write("_versions/00000001.json", case.data)
    cube = Cube.open(str(folder))
    for dataset in cube.metadata.tables:
        dataset.to_arrow()
    cube.metadata.dataset(cube.metadata.roles.seed)


_LOG_FILES = (
    "_versions/00000001.json",
    "_versions/00000002.json",
    "_versions/00000003.json",
    "metadata.json",
)
_BEAT = 1_790_000_000.0  # seconds; the same inputs at any time
_OTHER_FILES = (
    f"{PINS}/{WRITE}.json",
    f"{MARKS}/{WRITE}.json",
    f"{WRITE}/_heartbeat.json",
    f"{WRITE}/.heartbeat",
    "_versions/ordinals/00000000.json",
    "_versions/9999999999999999999999.json",
    "_versions/00000000.json",
    "_versions/x.json",
    "collection.properties",
    "_versions/.tmp-x.tmp",
    TOMBSTONES,
)


def _log(random: Random) -> Case:
    """A folder of some files, as JSON of path to content."""
    files: dict[str, str] = {}
    for number, path in enumerate(_LOG_FILES, 1):
        if random.random() < 0.7:
            told = {"version": min(number, 3), "write_id": WRITE, "tombstone": random.random() < 0.3}
            files[path] = _content(random, told)
    for path in _OTHER_FILES:
        if random.random() < 0.3:
            files[path] = _content(random, {"versions": [1, 2], "time": _BEAT, "state": "beating"})
    return Case(json.dumps(files).encode(), ".json")


def _content(random: Random, told: dict[str, Any]) -> str:
    match random.randrange(6):
        case 0:
            return random.choice(("", "[", "null", "[]", "{}", "1", '"x"', "\x00", "[" * 20_000, *TEXTS[:20]))
        case 1 | 2:
            return json.dumps(reshaped(random, told, _WORDS))
    return json.dumps(told)


def _read_log(case: Case, folder: Path) -> None:
    for path, content in json.loads(case.data).items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode("utf-8", "surrogatepass"))
    storage = Storage.at(folder)
    log = VersionLog(storage)
    refused: list[HipslakeError] = []
    for use in (
        log.newest,
        log.numbers,
        log.vacuumed,
        lambda: list(log.texts()),
        lambda: log.find(WRITE),
        lambda: log.read(1),
        lambda: log.read(2),
        log.read,
        lambda: pinned_versions(storage),
        lambda: pulse(storage, WRITE),
        lambda: Catalog.open(folder),
        lambda: log.publish_pointers(),
        lambda: sweep_orphans(storage, 0, dry_run=True),
        lambda: sweep_orphans(storage, 0),
    ):
        try:
            use()
        except HipslakeError as error:
            refused.append(error)
        except FileNotFoundError as error:  # a version that a gap leaves out
            if "_versions" not in str(error):
                raise
    if refused:
        raise refused[0]


def _frozen() -> dict[str, Any]:
    spec = {"name": "s", "source": {"uri": "/x", "format": "csv"}, "position": {"ra": "ra", "dec": "dec"}}
    moment = "2026-11-21T03:30:00Z"
    told = {
        "dag_id": "catalog_ingest__s",
        "run_id": "r",
        "run_uri": "/w/_runs/d/r",
        "warehouse": "/w",
        "catalog": "s",
    }
    told |= {"write_id": WRITE, "created": moment, "library_version": "0.1.0", "spec": spec}
    return told | {"window": {"start": moment, "end": None, "origin": "params"}}


def _run_folder(random: Random) -> Case:
    file = {"ordinal": 0, "uri": "/x", "size": 3, "stamp": "s"}
    report = {
        "step": "plan",
        "ok": True,
        "error": {"kind": "x", "message": "y", "retryable": False},
        "rows_in": 1,
    }
    documents = {
        RunFolder.RUN: _frozen(),
        RunFolder.FILES: {"files": [file], "fingerprint": "f"},
        RunFolder.report_path("plan"): report,
        FROZEN: {"spec": {"type": "equijoin"}, "left": {"uri": "/x", "version": 1}},
    }
    path = random.choice(list(documents))
    made = _json_of(lambda: documents[path])(random)
    return Case(made.data, ".json", {"path": path})


def _read_run_folder(case: Case, folder: Path) -> None:
    run = RunFolder(str(folder))
    path = case.told["path"]
    run.storage.write(path, case.data)
    if path == FROZEN:
        frozen_join(run)
    elif path == RunFolder.RUN:
        frozen = run.run()
        _ = (frozen.catalog_uri, frozen.source)
    elif path == RunFolder.FILES:
        _ = run.inputs().total_bytes
    else:
        run.read(path, Report).summary()


@cache
def _tables() -> list[bytes]:
    rows = [(1, 5, f"{WRITE}/a.parquet", 3, 99, "0" * 64), (2, 9, f"{WRITE}/b.parquet", 4, 99, "1" * 64)]
    table = pa.Table.from_pylist(
        [dict(zip(PARTITION_SCHEMA.names, row, strict=True)) for row in rows], PARTITION_SCHEMA
    )
    made = []
    for checked in (True, False):
        sink = io.BytesIO()
        pq.write_table(table, sink, write_page_checksum=checked, compression="zstd" if checked else "none")
        made.append(sink.getvalue())
    return made


def _table_file(random: Random) -> Case:
    data = spoilt(random, random.choice(_tables()), _tables(), most=random.choice((1, 2, 4)))
    return Case(data, ".parquet", {"told": random.random() < 0.8})


def _read_table_file(case: Case, folder: Path) -> None:
    """A table that was damaged before its checksum was taken, or after."""
    storage = Storage.at(folder)
    storage.write("t.parquet", case.data)
    digest = hashlib.sha256(case.data).hexdigest() if case.told["told"] else "0" * 64
    refused: list[HipslakeError] = []
    sidecar = Sidecar(path="t.parquet", rows=2, sha256=digest)
    for use in (
        lambda: read_sidecar(storage, sidecar, PARTITION_SCHEMA),
        lambda: read_sidecar(storage, sidecar, PARTITION_SCHEMA, ["order", "npix"]),
        lambda: read_table(storage, "t.parquet"),
    ):
        try:
            use()
        except HipslakeError as error:
            refused.append(error)
    if refused:
        raise refused[0]


@cache
def _point_maps() -> list[bytes]:
    return [
        PointMap(2, np.array([1, 5]), np.array([3, 4])).to_fits(),
        PointMap(1, np.arange(48), np.ones(48, np.int64)).to_fits(),
    ]


def _point_map(random: Random) -> Case:
    return Case(spoilt(random, random.choice(_point_maps()), most=random.choice((1, 2, 4))), ".fits")


def _read_point_map(case: Case, folder: Path) -> None:
    found = PointMap.from_fits(case.data)
    _ = (found.pixels, found.sky_fraction)


@cache
def _iceberg() -> Any:
    from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import new_table_metadata
    from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

    return new_table_metadata(
        Schema(), UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, "memory://fuzz", {}
    )


def _properties(random: Random) -> Case:
    key, digest = "s/2026-11-21", hashlib.sha256(b"s/2026-11-21").hexdigest()[:16]
    sunk = {
        "key": key,
        "fingerprint": "f",
        "content": "c",
        "rows": 3,
        "write": WRITE,
        "start": "2026-11-21T00:00:00Z",
    }
    earlier = {"spec": "s", "intervals": [["2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"]], "others": ["0"]}
    told = {
        PREFIX + digest: json.dumps(reshaped(random, sunk, _WORDS) if random.random() < 0.7 else sunk),
        EARLIER + hashlib.sha256(b"s").hexdigest()[:16]: json.dumps(
            reshaped(random, earlier, _WORDS) if random.random() < 0.7 else earlier
        ),
        PREFIX + "x": random.choice(("", "{}", "null", "[", "[" * 20_000, json.dumps(nested(random, 300)))),
        "mark": random.choice(
            (json.dumps(hostile_value(random, _WORDS)), "[" * 20_000, '{"curve": 1}', "\x00")
        ),
    }
    return Case(json.dumps(told).encode(), ".json", {"key": key})


def _read_properties(case: Case, folder: Path) -> None:
    """What a table says of its sinks, in the properties that its metadata file holds."""
    from pyiceberg.catalog.noop import NoopCatalog
    from pyiceberg.io import load_file_io
    from pyiceberg.table import Table

    given = json.loads(case.data)
    metadata = _iceberg().model_copy(update={"properties": given})
    table = Table(("a", "b"), metadata, "memory://fuzz/m.json", load_file_io(), NoopCatalog("fuzz"))
    mark_from(given["mark"])
    key = case.told["key"]
    mine = Sunk(key=key, fingerprint="g", content="d", rows=1, write=WRITE)
    refused: list[HipslakeError] = []
    for use in (
        lambda: known_sink(table, key),
        lambda: was_sunk_earlier(table, key, None),
        lambda: sunk_properties(table, mine),
    ):
        try:
            use()
        except HipslakeError as error:
            refused.append(error)
    if refused:
        raise refused[0]


TARGETS = (
    Target("catalog metadata", _json_of(_metadata), _read_metadata, share=6),
    Target("cube metadata", _json_of(_cube), _read_cube, share=3),
    Target("version log", _log, _read_log, share=3),
    Target("run folder", _run_folder, _read_run_folder, share=3),
    Target("sidecar", _table_file, _read_table_file, share=3),
    Target("point map", _point_map, _read_point_map, share=1),
    Target("iceberg properties", _properties, _read_properties, share=2),
)
