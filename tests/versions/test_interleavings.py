"""Writers, sweepers and vacuums in every order of their calls: no version ever loses a file.

Nobody's clock counts here: sweepers take every write for dead that says it is at work. The code is the
library's own, call by call; see `tests.versions.interleavings`.
"""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime
from itertools import count
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hipslake.catalog.committing import commit_next
from hipslake.catalog.metadata import Owner
from hipslake.catalog.upkeep.catalog_vacuum import vacuum
from hipslake.catalog.upkeep.needed_files import NeededFiles
from hipslake.errors import HipslakeError
from hipslake.specs.vacuum_spec import Retention
from hipslake.storage.folder import Storage
from hipslake.versions import heartbeat, intents, log, log_reader, orphans, pointer_files
from hipslake.versions.heartbeat import Heartbeat
from hipslake.versions.intents import INTENTS
from hipslake.versions.log import VersionLog
from hipslake.versions.orphans import sweep_orphans
from hipslake.versions.pins import PINS
from hipslake.versions.version_write import Write, writing
from hipslake.versions.write_id import is_write_id

from tests.versions.interleavings import Act, Killed, World, explored

pytestmark = pytest.mark.sampled(2)

NOW = datetime(2026, 11, 21, 3, 30, tzinfo=UTC)
SHARED = "20261121T0330-aaaa"
SAMPLE = int(os.environ.get("HIPSLAKE_TEST_INTERLEAVINGS", "200"))
"""Runs by chance of each kind; more find more."""

_drawn: Counter[str] = Counter()


@pytest.fixture(autouse=True, params=["first to last", "last to first"])
def no_chance(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process is one thread, the same choices make the same run, and all that beats looks dead.

    Requests that a process makes side by side come one after the other, in this or that order.
    """
    backwards = request.param == "last to first"

    def together(_: Storage, *asks: Callable[[], object]) -> list[object]:
        found = [ask() for ask in (reversed(asks) if backwards else asks)]
        return found[::-1] if backwards else found

    monkeypatch.setenv("HIPSLAKE_STALE_SECONDS", "0")
    idle = SimpleNamespace(start=lambda: None, join=lambda: None)
    threads = SimpleNamespace(Event=threading.Event, Thread=lambda **_: idle)
    monkeypatch.setattr(heartbeat, "threading", threads)
    monkeypatch.setattr(heartbeat, "new_write_id", lambda _: f"20261121T0330-{_draw('write'):04x}")
    tokens = SimpleNamespace(token_hex=lambda _: f"{_draw('token'):08x}")
    for module in (intents, heartbeat):
        monkeypatch.setattr(module, "secrets", tokens)
    for module in (heartbeat, log, log_reader, orphans, pointer_files):
        monkeypatch.setattr(module, "together", together)
    for module in (intents, orphans):
        monkeypatch.setattr(module, "in_threads", lambda _, look, given: map(look, given))


OWNER = Owner(kind="catalog", name="stars")  # whose version stands is asked before each commit


def _draw(what: str) -> int:
    _drawn[what] += 1
    return _drawn[what]


def night(storage: Storage) -> None:
    """Write a file, and commit it with all that the newest version names."""
    with writing(storage) as write:
        storage.write(f"{write.id}/main", b".")
        commit_next(storage, write.heartbeat, lambda: _drafted(storage, write.id, _newest(storage, write)))


def night_from_known(storage: Storage) -> None:
    """As `night`, with a version that was read before it was pinned, and a first try that does not look."""
    found = VersionLog(storage).read_newest()
    assert found is not None
    tries = count()
    with writing(storage, versions=(found.number,)) as write:
        files = json.loads(write.pin.hold_newest(found))["files"]
        for path in files:  # the pin is up: no vacuum takes them, unless it takes the write for dead
            try:
                storage.read(path)
            except FileNotFoundError:
                heartbeat.refuse_swept(storage, write.id)
                raise
        storage.write(f"{write.id}/main", b".")

        def draft() -> Any:
            if next(tries) == 0:
                return _drafted(storage, write.id, files, after=found.number)
            return _drafted(storage, write.id, _newest(storage, write))

        commit_next(storage, write.heartbeat, draft)


def whole(storage: Storage) -> None:
    """Write a file, and commit it alone."""
    with writing(storage) as write:
        storage.write(f"{write.id}/main", b".")
        commit_next(storage, write.heartbeat, lambda: _drafted(storage, write.id, []))


def publish(storage: Storage) -> None:
    """Commit a file that an earlier step has written; other attempts may be at the same."""
    log = VersionLog(storage)
    seen = log.newest() or 0
    if log.find(SHARED) is None:
        with Heartbeat(storage, SHARED, rest=False) as beating:
            commit_next(storage, beating, lambda: _drafted(storage, SHARED, []), seen=seen)


def roll_back(storage: Storage, write_id: str | None = None) -> None:
    """Commit what the first version names once more."""
    log = VersionLog(storage)
    seen = log.newest() or 0
    if write_id is not None and log.find(write_id) is not None:
        return
    with writing(storage, write_id) as write:
        old = json.loads(write.pin.hold(1))["files"]
        commit_next(storage, write.heartbeat, lambda: _drafted(storage, write.id, old, own=False), seen=seen)


def roll_back_as_one(storage: Storage) -> None:
    """As an attempt of several at the same."""
    roll_back(storage, SHARED)


def sweep(storage: Storage) -> None:
    sweep_orphans(storage)


def clean(storage: Storage) -> None:
    """Vacuum all but the newest version."""
    vacuum(storage, Retention(keep_versions=1, keep_days=0), _Content(), now=NOW, dry_run=False)


def overtake(storage: Storage) -> None:
    """Commit a file alone, and vacuum all before."""
    whole(storage)
    clean(storage)


class _Content:
    """What the metadata of the model means to a vacuum."""

    def version(self, data: bytes, where: str) -> Any:
        told = json.loads(data)
        return SimpleNamespace(write_id=told["write_id"], created=NOW, files=told["files"])

    def needed(self, storage: Storage, metadata: Iterator[Any], folders: Collection[str]) -> NeededFiles:
        return NeededFiles(
            pa.chunked_array([[path for each in metadata for path in each.files]], pa.string())
        )


def _newest(storage: Storage, write: Write) -> list[str]:
    if VersionLog(storage).newest() is None:
        return []
    found: list[str] = json.loads(write.pin.hold_newest())["files"]
    return found


def _drafted(
    storage: Storage, write_id: str, files: list[str], *, own: bool = True, after: int | None = None
) -> Any:
    number = (VersionLog(storage).newest() or 0 if after is None else after) + 1
    names = [*files, f"{write_id}/main"] if own else files
    told = {"version": number, "write_id": write_id, "files": names}
    return SimpleNamespace(
        version=number,
        write_id=write_id,
        owner=OWNER,
        restored=None,
        to_json=lambda: json.dumps(told).encode(),
    )


def laid_out(*acts: Act) -> Callable[[World], None]:
    """A store on which some have been at work, one after the other."""

    def prepare(world: World) -> None:
        _drawn.clear()
        for act in acts:
            act(world.store)
        world.files[f"{SHARED}/main"] = b"."
        world.files[f"{SHARED}/_heartbeat.json"] = b'{"state": "resting", "time": 0}'
        world.times[f"{SHARED}/main"] = world.times[f"{SHARED}/_heartbeat.json"] = world.now

    return prepare


def check(world: World) -> None:
    """No version has lost a file; and once another version stands, a sweep leaves nothing else."""
    for process in world.processes.values():
        if process.error and not isinstance(process.error, HipslakeError | Killed):
            raise process.error
    _check_files(world)
    whole(world.store)
    world.now += 86_400  # whatever rests is dead by now, too
    sweep(world.store)
    _check_files(world)
    named = {
        path.partition("/")[0] for _, told in _versions(world) for path in [*told["files"], told["write_id"]]
    }
    left = {path.partition("/")[0] for path in world.files if is_write_id(path.partition("/")[0])}
    assert left <= named, f"what dead writes have left is not swept: {left - named}"
    assert not [path for path in world.files if path.startswith((PINS, INTENTS))]


def _versions(world: World) -> list[tuple[str, dict[str, Any]]]:
    paths = [path for path in sorted(world.files) if path.startswith("_versions/0")]
    told = [(path, json.loads(world.files[path])) for path in paths]
    return [(path, each) for path, each in told if not each.get("tombstone")]


def _check_files(world: World) -> None:
    for path, told in _versions(world):
        lost = [file for file in told["files"] if file not in world.files]
        assert not lost, f"{path} has lost {lost}"


@pytest.mark.parametrize(
    ("before", "acts"),
    [
        ([], {"writer": whole, "sweeper": sweep}),
        ([whole], {"writer": whole, "sweeper": sweep}),
        pytest.param([whole, whole], {"rollback": roll_back, "sweeper": sweep}, marks=pytest.mark.slow),
    ],
    ids=["first version", "next version", "rollback"],
)
def test_no_version_loses_a_file_to_a_sweep_in_any_order(before: list[Act], acts: dict[str, Act]) -> None:
    assert explored(laid_out(*before), acts, check, interruptions=2) > 300


MANY = {
    "two writers": ([whole], {"writer": whole, "other": night, "sweeper": sweep}),
    "two sweepers": ([whole], {"writer": whole, "sweeper": sweep, "another": sweep}),
    "two attempts at one write": ([whole], {"publish": publish, "again": publish, "vacuum": overtake}),
    "vacuum and night": ([whole, night], {"night": night, "vacuum": clean}),
    "vacuum and a night that knows": ([whole, night], {"night": night_from_known, "vacuum": overtake}),
    "sweeper and a night that knows": (
        [whole],
        {"night": night_from_known, "writer": whole, "sweeper": sweep},
    ),
    "vacuum and rollback": ([whole, whole], {"rollback": roll_back, "vacuum": clean, "writer": whole}),
    "vacuum and two attempts at one rollback": (
        [whole, whole],
        {"rollback": roll_back_as_one, "again": roll_back_as_one, "vacuum": overtake},
    ),
}


SHORT = ("vacuum and night",)  # so few requests that two interruptions are soon tried
LONG = ("two attempts at one write", "vacuum and two attempts at one rollback")
SOME = [pytest.param(name, marks=pytest.mark.slow if name in LONG else ()) for name in MANY]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", SOME)
def test_no_version_loses_a_file_with_few_interruptions_of_many(name: str) -> None:
    before, acts = MANY[name]
    assert explored(laid_out(*before), acts, check, interruptions=2 if name in SHORT else 1) > 100


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", SOME)
def test_no_version_loses_a_file_with_many_interruptions(name: str) -> None:
    before, acts = MANY[name]
    explored(laid_out(*before), acts, check, interruptions=6, sample=SAMPLE)
