"""Nights that one process publishes in a store: to the byte those of a disk, and whole whenever it dies."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import hipslake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake import Catalog
from hipslake.api import step_runner
from hipslake.catalog.checksums import HIDDEN_CHECKSUMS, list_folder, listed_checksums
from hipslake.catalog.view_tree import writes_of_pointers
from hipslake.errors import InputError, VerificationError
from hipslake.steps import first, listed_ahead
from hipslake.steps.append import next_version
from hipslake.steps.append import run as append_run
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.ingest import histogram
from hipslake.steps.upkeep import hats_view
from hipslake.storage.folder import Storage
from hipslake.storage.objects import ObjectFiles
from hipslake.versions import heartbeat
from hipslake.versions.log_files import VERSIONS

from tests.steps.nights import FIRST, night_rows

SPEC: dict[str, Any] = {
    "name": "stars",
    "mode": "append",
    "position": {"ra": "ra", "dec": "dec"},
    "threshold": "300 rows",
    "mapping_order": 4,
}
MORE: dict[str, dict[str, Any]] = {
    "rewrite": {},
    "add_file": {"append": "add_file"},
    "margin": {"margin": {"arcsec": [3600]}},
    "hipscat": {"layout": "hipscat"},
    "groups": {
        "column_groups": [
            {"name": "main", "columns": ["id", "ra", "dec"]},
            {"name": "light", "columns": "*", "threshold": "100 rows"},
        ]
    },
    "upsert": {"mode": "upsert", "key": "id", "order_by": "mag", "operation": {"column": "op"}},
    "statistics": {"hats": {"per_partition_statistics": True}},
}
NIGHTS = ((0, 0), (2, 0), (1, 0), (2, 7))
"""Number and seed of each: the last comes again, with other rows."""


def landed(place: Path, number: int, seed: int) -> Path:
    path = place / f"night={FIRST + timedelta(days=number):%Y-%m-%d}" / "part.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = night_rows(number, seed=seed)
    pq.write_table(rows.append_column("op", pa.array(["I"] * len(rows))), path)
    os.utime(path, (1_790_000_000 + seed, 1_790_000_000 + seed))
    return path


def publish(warehouse: str | Path, landing: Path, number: int, **more: Any) -> Catalog:
    source = {"uri": f"{landing}/night={{{{ night }}}}/*.parquet", "format": "parquet"}
    return hipslake.ingest(
        spec=SPEC | {"source": source} | more,
        warehouse=warehouse,
        interval=FIRST + timedelta(days=number),
        spark=False,
    )


def contents(catalog: Storage) -> dict[str, bytes]:
    """All files of a catalog but who has claimed ordinals, and pointers that a store has not."""
    paths = [entry.path for entry in catalog.list(recursive=True)]
    kept = [path for path in paths if not path.startswith((f"{VERSIONS}/ordinals/", "current"))]
    return {path: catalog.read(path) for path in kept if not Path(path).name.startswith("_heartbeat")}


@pytest.fixture
def drawn_alike(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Ids of writes, and times, are those of the call before once this is called again."""
    numbers = [count()]
    lock = threading.Lock()

    def drawn(now: datetime) -> str:
        with lock:
            return f"20261129T0330-{next(numbers[0]):012x}"

    for module in (first, heartbeat):
        monkeypatch.setattr(module, "new_write_id", drawn)
    monkeypatch.setattr(next_version, "now_utc", lambda: datetime(2026, 11, 29, tzinfo=UTC))

    def again() -> None:
        numbers[0] = count()

    return again


@contextmanager
def nothing_kept(uri: str) -> Iterator[None]:
    """As `own_run`, for a process that knows nothing from step to step."""
    yield None


@pytest.mark.sampled(4)
@pytest.mark.parametrize("more", MORE.values(), ids=MORE)
def test_a_store_holds_what_a_disk_does_and_what_steps_that_know_nothing_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drawn_alike: Callable[[], None], more: dict[str, Any]
) -> None:
    places = [str(tmp_path / "warehouse"), *(f"memory://{uuid.uuid4().hex}" for _ in range(2))]
    found = []
    for place in places:
        drawn_alike()
        with monkeypatch.context() as patched:
            if place == places[2]:
                patched.setattr(step_runner, "own_run", nothing_kept)
            for number, seed in NIGHTS:
                landed(tmp_path / "landing", number, seed)
                catalog = publish(place, tmp_path / "landing", number, **more)
        assert catalog.version == len(NIGHTS)
        catalog.verify(all=True).raise_if_failed()
        found.append(contents(catalog.storage))
    disk, own, others = found
    assert own.keys() == others.keys()
    assert [path for path in own if own[path] != others[path]] == []
    if more.get("layout") != "hipscat":  # whose trees are linked on a disk, and nowhere else
        assert own.keys() == disk.keys()
    assert [path for path in own.keys() & disk.keys() if own[path] != disk[path]] == []


class Killed(BaseException):
    """What a process meets at the request at which it is killed, and at any other."""


class Store:
    """Requests that change a store, and what becomes of them from a number on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[str] = []
        self.last: int | None = None
        self._lock = threading.Lock()
        for name in ("write", "create", "delete", "delete_tree"):
            monkeypatch.setattr(ObjectFiles, name, self._counted(getattr(ObjectFiles, name)))

    def _counted(self, ask: Callable[..., Any]) -> Callable[..., Any]:
        def counted(files: ObjectFiles, uri: str, *given: Any, **named: Any) -> Any:
            with self._lock:
                if self.last is not None and len(self.seen) >= self.last:
                    raise Killed(uri)
                self.seen.append(f"{ask.__name__} {uri}")
            return ask(files, uri, *given, **named)

        return counted

    def until(self, last: int | None) -> None:
        with self._lock:
            self.seen, self.last = [], last


def assert_readers_find_a_whole_version(catalog: Catalog, rows: set[int]) -> None:
    """By the log, and by what leads readers to trees, as plain pyarrow reads them."""
    assert catalog.metadata.total_rows in rows
    assert catalog.read().num_rows == catalog.metadata.total_rows
    versions = {
        each.metadata.write_id: each.metadata
        for each in (Catalog.open(catalog.uri, number) for number in catalog.versions())
    }
    for write in writes_of_pointers(catalog.storage):
        paths = [
            entry.path
            for entry in catalog.storage.list(f"{write}/main/dataset", recursive=True)
            if "/Npix=" in entry.path
        ]
        leaves = [pq.read_table(pa.BufferReader(catalog.storage.read(path))) for path in paths]
        assert sum(leaf.num_rows for leaf in leaves) == versions[write].total_rows


KILLS = [*range(2, 64)]
SOME = (9, 24, 33, 37, 41, 45, 49)


@pytest.mark.parametrize(
    "kill", [pytest.param(kill, marks=() if kill in SOME else pytest.mark.slow) for kill in KILLS]
)
def test_whenever_it_is_killed_readers_find_a_whole_version_and_the_night_can_come_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kill: int
) -> None:
    warehouse, landing = f"memory://{uuid.uuid4().hex}", tmp_path / "landing"
    for number in range(2):
        landed(landing, number, 0)
        publish(warehouse, landing, number)
    store = Store(monkeypatch)
    landed(landing, 2, 0)
    store.until(kill)
    with suppress(Killed):
        publish(warehouse, landing, 2)
        assert len(store.seen) < kill  # it was not killed, as it had ended by then
    store.until(None)
    assert_readers_find_a_whole_version(Catalog.open(f"{warehouse}/catalogs/stars"), {800, 1200})
    monkeypatch.setenv("HIPSLAKE_STALE_SECONDS", "0")  # whoever was killed is dead
    landed(landing, 2, 7)
    catalog = publish(warehouse, landing, 2)
    assert_readers_find_a_whole_version(catalog, {1200})
    catalog.verify().raise_if_failed()
    landed(landing, 3, 0)
    catalog = publish(warehouse, landing, 3)  # whose sweep takes what the killed one has left
    named = {Catalog.open(catalog.uri, number).metadata.write_id for number in catalog.versions()}
    folders = {entry.path for entry in catalog.storage.list() if entry.is_dir and entry.path != VERSIONS}
    assert folders == named
    for signs in ("pins", "intents"):
        assert catalog.storage.list(f"{VERSIONS}/{signs}") == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize("step", ["inputs", "histogram", "append"])
@pytest.mark.parametrize("more", ["rewrite", "add_file", "upsert"])
def test_a_catalog_that_others_make_anew_during_a_night_keeps_their_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str, step: str
) -> None:
    """Of the same name and version number: a night that knows the old one must not be put on top of it."""
    warehouse, landing = f"memory://{uuid.uuid4().hex}", tmp_path / "landing"
    for number in range(3):
        landed(landing, number, 0)
    spec = MORE[more] | {"threshold": "2000 rows"}  # so that of add_file no leaf is read
    first = publish(warehouse, landing, 0, **spec)
    perform = step_runner.StepRunner.perform

    def overtaken(runner: step_runner.StepRunner, name: str, **fields: Any) -> Any:
        if name == step:
            monkeypatch.setattr(step_runner.StepRunner, "perform", perform)
            for entry in first.storage.list():
                (first.storage.delete_tree if entry.is_dir else first.storage.delete)(entry.path)
            others = threading.Thread(target=publish, args=(warehouse, landing, 2), kwargs=spec)
            others.start()
            others.join()
        return perform(runner, name, **fields)

    monkeypatch.setattr(step_runner.StepRunner, "perform", overtaken)
    with suppress(VerificationError):  # where a leaf of the old one was to be read
        assert publish(warehouse, landing, 1, **spec).version == 2
    publish(warehouse, landing, 1, **spec)
    catalog = Catalog.open(first.uri)
    catalog.verify(all=True).raise_if_failed()
    assert catalog.metadata.total_rows == 800
    expected = pa.concat_tables([night_rows(number, seed=0) for number in (1, 2)])
    assert sorted(catalog.read()["id"].to_pylist()) == sorted(expected["id"].to_pylist())


def test_a_night_that_is_there_is_not_said_to_be_in_a_catalog_that_others_make_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse, landing = f"memory://{uuid.uuid4().hex}", tmp_path / "landing"
    for number in (0, 2):
        landed(landing, number, 0)
    first = publish(warehouse, landing, 0)
    perform = step_runner.StepRunner.perform

    def overtaken(runner: step_runner.StepRunner, name: str, **fields: Any) -> Any:
        if name == "inputs":
            monkeypatch.setattr(step_runner.StepRunner, "perform", perform)
            for entry in first.storage.list():
                (first.storage.delete_tree if entry.is_dir else first.storage.delete)(entry.path)
            others = threading.Thread(target=publish, args=(warehouse, landing, 2))
            others.start()
            others.join()
        return perform(runner, name, **fields)

    monkeypatch.setattr(step_runner.StepRunner, "perform", overtaken)
    catalog = publish(warehouse, landing, 0)
    assert catalog.metadata.total_rows == 800
    assert catalog.read().num_rows == 800
    assert Catalog.open(first.uri).version == catalog.version == 2


@pytest.mark.parametrize("step", ["inputs", "histogram", "append", "view"])
def test_a_night_that_others_overtake_between_its_steps_goes_on_top_of_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """What it claimed and listed ahead is of an older version, which is vacuumed by then."""
    warehouse, landing = f"memory://{uuid.uuid4().hex}", tmp_path / "landing"
    for number in range(3):
        landed(landing, number, 0)
    first = publish(warehouse, landing, 0)
    perform = step_runner.StepRunner.perform

    def others() -> None:
        publish(warehouse, landing, 2).vacuum(keep_versions=1, keep_days=0, dry_run=False)

    def overtaken(runner: step_runner.StepRunner, name: str, **fields: Any) -> Any:
        if name == step:
            monkeypatch.setattr(step_runner.StepRunner, "perform", perform)
            thread = threading.Thread(target=others)
            thread.start()
            thread.join()
        return perform(runner, name, **fields)

    monkeypatch.setattr(step_runner.StepRunner, "perform", overtaken)
    publish(warehouse, landing, 1)
    catalog = Catalog.open(first.uri)
    catalog.verify(all=True).raise_if_failed()
    expected = pa.concat_tables([night_rows(number, seed=0) for number in range(3)])
    assert sorted(catalog.read()["id"].to_pylist()) == sorted(expected["id"].to_pylist())
    assert_readers_find_a_whole_version(catalog, {1200})
    assert catalog.versions()[-1] == 3
    for signs in ("pins", "intents"):
        assert catalog.storage.list(f"{VERSIONS}/{signs}") == []


@pytest.mark.parametrize("step", ["histogram", "append", "view"])
def test_a_night_that_fails_gives_up_what_it_has_claimed_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    warehouse, landing = f"memory://{uuid.uuid4().hex}", tmp_path / "landing"
    for number in range(2):
        landed(landing, number, 0)
    publish(warehouse, landing, 0)
    failing = {
        "histogram": (histogram, "crowded_pixels"),
        "append": (append_run, "merge"),
        "view": (hats_view, "point_map_of"),
    }

    def fails(*_: Any, **__: Any) -> None:
        raise VerificationError("no")

    with monkeypatch.context() as patched:
        patched.setattr(*failing[step], fails)
        with pytest.raises(VerificationError):
            publish(warehouse, landing, 1)
    catalog = Catalog.open(f"{warehouse}/catalogs/stars")
    assert catalog.version == (2 if step == "view" else 1)
    named = {Catalog.open(catalog.uri, number).metadata.write_id for number in catalog.versions()}
    assert {entry.path for entry in catalog.storage.list() if entry.is_dir} == {VERSIONS, *named}
    for signs in ("pins", "intents"):
        assert catalog.storage.list(f"{VERSIONS}/{signs}") == []


def test_a_file_that_is_replaced_after_it_was_listed_ahead_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse, landing = f"memory://{uuid.uuid4().hex}", tmp_path / "landing"
    for number in range(2):
        landed(landing, number, 0)
    publish(warehouse, landing, 0)
    perform = step_runner.StepRunner.perform

    def replaced(runner: step_runner.StepRunner, name: str, **fields: Any) -> Any:
        if name == "inputs":
            ahead = listed_ahead.listed_ahead(runner.folder.uri, FrozenRun.of(runner.folder).source)
            assert ahead is not None
            assert ahead.taken() is not None
            landed(landing, 1, 7)
        return perform(runner, name, **fields)

    monkeypatch.setattr(step_runner.StepRunner, "perform", replaced)
    with pytest.raises(InputError, match="was changed after the run listed it"):
        publish(warehouse, landing, 1)
    assert Catalog.open(f"{warehouse}/catalogs/stars").metadata.total_rows == 400


@pytest.mark.parametrize("place", ["disk", "store"])
def test_what_a_night_rejects_is_listed_with_its_checksums(tmp_path: Path, place: str) -> None:
    warehouse = f"memory://{uuid.uuid4().hex}" if place == "store" else str(tmp_path / "warehouse")
    spec = SPEC | {"bad_rows": {"policy": "quarantine", "max_fraction": 0.5}}
    for number in range(2):
        rows = night_rows(number)
        bad = pa.array([None, *rows["ra"].to_pylist()[1:]])
        rows = rows.set_column(rows.schema.get_field_index("ra"), "ra", bad)
        interval = FIRST + timedelta(days=number)
        catalog = hipslake.ingest(rows, spec=spec, warehouse=warehouse, interval=interval, spark=False)
        rejects = catalog.metadata.increments[-1].rejects
        assert rejects.rows == 1
        listed = listed_checksums(catalog.storage.read(f"{rejects.path}/{HIDDEN_CHECKSUMS}"))
        assert listed
        assert listed == list_folder(catalog.storage, str(rejects.path))
