"""Iceberg tables whose own files are gone or damaged: an error of ours names the table and the file."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hipslake.cube.store.operations import align_to_spec
from hipslake.errors import CorruptFileError
from hipslake.specs.cube_spec import CubeSpec
from hipslake.specs.vacuum_spec import Retention
from hipslake.tables.iceberg.catalogs import open_catalog
from hipslake.tables.iceberg.expire_snapshots import vacuum_table

from tests.foreign.doors import GOOD
from tests.tables.compaction import compacting, iceberg
from tests.tables.sinking import Lake

pytestmark = pytest.mark.sampled(2)

GARBAGE = b"Obj\x01" + bytes(range(200))
OTHER = GOOD.set_column(0, "id", [range(50, 60)])


def metadata(lake: Lake) -> Path:
    return Path(lake.table(lake.spec()).metadata_location.removeprefix("file://"))


def manifest_list(lake: Lake) -> Path:
    snapshot = lake.table(lake.spec()).current_snapshot()
    assert snapshot is not None
    return Path(snapshot.manifest_list.removeprefix("file://"))


def manifest(lake: Lake) -> Path:
    table = lake.table(lake.spec())
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return Path(snapshot.manifests(table.io)[0].manifest_path.removeprefix("file://"))


def half(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def unknown_version(path: Path) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format-version": 9}))


DAMAGES: dict[str, Callable[[Path], object]] = {
    "gone": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "half": half,
    "garbage": lambda path: path.write_bytes(GARBAGE),
    "a list": lambda path: path.write_bytes(b"[]"),
    "another document": lambda path: path.write_bytes(b'{"format-version": 2}'),
}
OF_METADATA = {**DAMAGES, "unknown version": unknown_version}


def append(lake: Lake) -> None:
    lake.sink(lake.spec(name="other"), GOOD)


def upsert(lake: Lake) -> None:
    lake.sink(lake.spec(name="other", mode="upsert", key=["id"]), GOOD)


def compact(lake: Lake) -> None:
    compacting.compact(iceberg.request(lake, full=True))


def cluster(lake: Lake) -> None:
    compacting.compact(iceberg.request(lake, full=True, mode="hilbert", columns=["ra"]))


def cube(lake: Lake) -> None:
    dataset = {"table": "survey.sample", "iceberg": lake.spec().iceberg.model_dump()}
    roles = {"dimension_columns": ["id"], "partition_columns": ["p"]}
    spec = CubeSpec.model_validate({"name": "c", **roles, "datasets": {"seed": dataset}})
    align_to_spec(spec, lake.warehouse)


def vacuum(lake: Lake) -> None:
    catalog = open_catalog(lake.spec().iceberg, lake.warehouse)
    vacuum_table(catalog, "survey.sample", Retention.of(1, 0.0), now=datetime.now(UTC), dry_run=False)


READERS = [upsert, compact, cluster, cube, vacuum]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path)
    lake.sink(lake.spec(), GOOD, OTHER)
    return lake


@pytest.mark.sampled(5)
@pytest.mark.parametrize("damage", OF_METADATA)
@pytest.mark.parametrize("door", [append, *READERS])
def test_metadata(lake: Lake, door: Callable[[Lake], None], damage: str) -> None:
    OF_METADATA[damage](metadata(lake))
    with pytest.raises(CorruptFileError, match=r"table survey\.sample: its metadata file is (gone|damaged)"):
        door(lake)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("door", [append, *READERS])
def test_lists_of_manifests(lake: Lake, door: Callable[[Lake], None], damage: str) -> None:
    path = manifest_list(lake)
    DAMAGES[damage](path)
    with pytest.raises(CorruptFileError, match=rf"survey\.sample: the list of manifests .*{path.name} is"):
        door(lake)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("door", READERS)
def test_manifests(lake: Lake, door: Callable[[Lake], None], damage: str) -> None:
    path = manifest(lake)
    DAMAGES[damage](path)
    with pytest.raises(CorruptFileError, match=rf"survey\.sample: the manifest .*{path.name} is"):
        door(lake)
