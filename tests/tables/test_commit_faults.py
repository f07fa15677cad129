"""Catalogs that answer wrongly, late or not at all while they are asked to commit: nothing is lost or twice.

The faults happen to real requests, between the library and a catalog that knows nothing of them: on the way
to a REST catalog, and to the PostgreSQL of an SQL catalog.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, get_args

import pytest
from hipslake.errors import HipslakeError
from hipslake.storage.timeouts import limited
from sqlalchemy.engine import make_url

from tests.examples import examples
from tests.stores.postgres import find_postgres, running_postgres
from tests.stores.proxy import Proxy, running_proxy
from tests.stores.relay import Loss, Relay, running_relay
from tests.stores.small_rest_catalog import CLIENT, PREFIX, SECRET, running_small_catalog
from tests.system import forked, sinks
from tests.tables.fault_story import FaultStory, Step
from tests.tables.faults import swept
from tests.tables.sinking import Lake, utc

COMMIT = r"/tables/sample$"
pytestmark = pytest.mark.usefixtures("quick")


def told(status: int, kind: str) -> bytes:
    return json.dumps({"error": {"message": "a fault", "type": kind, "code": status}}).encode()


def failing(status: int, kind: str, **how: Any) -> Callable[[Proxy], object]:
    return lambda proxy: proxy.fail("POST", COMMIT, status=status, body=told(status, kind), **how)


FAULTS: dict[str, Callable[[Proxy], object]] = {
    "500, not done": failing(500, "CommitStateUnknownException"),
    "500, done": failing(500, "CommitStateUnknownException", after=True),
    "502, done": failing(502, "CommitStateUnknownException", after=True),
    "503, not done": failing(503, "ServiceUnavailableException"),
    "503, done": failing(503, "ServiceUnavailableException", after=True),
    "504, done later": failing(504, "CommitStateUnknownException", hold=True),
    "409, not done": failing(409, "CommitFailedException"),
    "409, done": failing(409, "CommitFailedException", after=True),
    "429, not done": failing(429, "TooManyRequestsException"),
    "401, not done": failing(401, "NotAuthorizedException"),
    "half an answer": lambda proxy: proxy.fail("POST", COMMIT, status=200, body=b'{"metadata', after=True),
    "a page of a gateway": lambda proxy: proxy.fail("POST", COMMIT, status=502, body=b"<html>", after=True),
    "no answer": lambda proxy: proxy.drop_answers("POST", COMMIT),
    "no table told": lambda proxy: proxy.fail("GET", COMMIT, status=503, body=told(503, "Unavailable")),
}


class RestWire:
    """A proxy before a REST catalog."""

    faults = tuple(FAULTS)

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy

    def break_next(self, fault: str) -> None:
        FAULTS[fault](self.proxy)

    def before_next(self, step: Step) -> None:
        def first(method: str, path: str) -> None:
            if method == "POST" and path.endswith("/tables/sample"):
                self.proxy.watch = None
                step()

        self.proxy.watch = first

    def release(self) -> list[int]:
        return self.proxy.release()

    def clear(self) -> None:
        self.proxy.clear()
        self.proxy.watch = None


class DatabaseWire:
    """A relay before the database of an SQL catalog."""

    faults: tuple[Loss, ...] = get_args(Loss)

    def __init__(self, relay: Relay) -> None:
        self.relay = relay

    def break_next(self, fault: Loss) -> None:
        self.relay.losses.append(fault)

    def before_next(self, step: Step) -> None:
        self.relay.watch = step

    def release(self) -> list[int]:
        return []  # what the database has not heard it never will

    def clear(self) -> None:
        self.relay.losses.clear()
        self.relay.watch = None


def lakes(place: Path) -> tuple[Lake, Lake]:
    """Two writers' landings, and one warehouse."""
    lake, other = Lake(place), Lake(place / "other")
    other.warehouse = lake.warehouse
    return lake, other


@contextmanager
def rest_story(place: Path, seed: int, write: str) -> Iterator[FaultStory]:
    tables = place / "warehouse" / "tables"
    tables.mkdir(parents=True)
    with (
        pytest.MonkeyPatch.context() as patch,
        running_small_catalog(f"sqlite:///{place}/small.db?timeout=120", str(tables)) as small,
        running_proxy(small.uri) as proxy,
    ):
        patch.setenv("PYICEBERG_CATALOG__WIRE__CREDENTIAL", f"{CLIENT}:{SECRET}")
        given = {"type": "rest", "name": "wire", "warehouse": PREFIX}
        behind, straight = given | {"uri": proxy.endpoint}, given | {"uri": small.uri}
        yield FaultStory(*lakes(place), behind, straight, RestWire(proxy), random.Random(seed), write)


@contextmanager
def database_story(place: Path, seed: int, write: str) -> Iterator[FaultStory]:
    programs = find_postgres()
    if programs is None:
        pytest.skip("there is no PostgreSQL; include/setup/setup.sh postgres gets it")
    with running_postgres(programs) as address:
        url = make_url(address)
        assert url.host is not None
        assert url.port is not None
        with running_relay(url.host, url.port) as relay:
            given = {"type": "sql", "name": "wire"}
            behind = given | {"uri": str(url.set(port=relay.port))}
            straight, chance = given | {"uri": address}, random.Random(seed)
            yield FaultStory(*lakes(place), behind, straight, DatabaseWire(relay), chance, write)


STORIES = {"rest": rest_story, "postgresql": database_story}


@pytest.mark.parametrize("kind", STORIES)
def test_a_random_history_with_faults_in_any_commit(tmp_path: Path, kind: str) -> None:
    with STORIES[kind](tmp_path, 1, "merge-on-read") as story:
        story.lived(10)


@pytest.mark.slow
@pytest.mark.parametrize("write", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize("kind", STORIES)
def test_random_histories_with_faults_in_any_commit(tmp_path: Path, kind: str, write: str) -> None:
    for seed in range(examples(100)):
        with STORIES[kind](tmp_path / str(seed), seed, write) as story:
            story.lived(25)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("write", ["copy-on-write", "merge-on-read"])
def test_each_fault_in_each_kind_of_commit(tmp_path: Path, fault: str, write: str) -> None:
    with rest_story(tmp_path, 2, write) as story:
        assert isinstance(story.wire, RestWire)
        story.done(story.sunk())
        for kind in ("sunk", "deleted", "widened", "compacted", "aged"):
            step = story.deleted(story.nights) if kind == "deleted" else getattr(story, kind)()
            story.wire.break_next(fault)
            story.done(step)
            [due] = story.wire.proxy.faults
            assert due.met == 1, kind
            story.wire.clear()
            story.holds()
        story.ended()


def test_a_commit_that_is_answered_too_late_is_looked_for(tmp_path: Path) -> None:
    with rest_story(tmp_path, 3, "copy-on-write") as story:
        assert isinstance(story.wire, RestWire)
        story.done(story.sunk())
        step = story.sunk()
        late = story.wire.proxy.delay("POST", COMMIT, seconds=1.5)
        with (
            limited(connect=1.0, read=0.5, request=0.5),
            pytest.raises(HipslakeError, match="run it again: it finds out"),
        ):
            step()
        assert late.met == 1
        time.sleep(1.5)
        story.done(step)
        story.holds()
        story.ended()


def sink_again(root: str, iceberg: dict[str, Any], uri: str) -> None:
    """Sink files in a process of its own."""
    lake = Lake(Path(root))
    lake.sink(lake.spec(iceberg=iceberg), uri=uri, start=utc("2026-01-02T00:00:00"))


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_sink_killed_around_the_commit_is_completed_by_its_retry(tmp_path: Path, moment: str) -> None:
    with rest_story(tmp_path, 4, "copy-on-write") as story:
        assert isinstance(story.wire, RestWire)
        lake, proxy = story.lake, story.wire.proxy
        spec = lake.spec(iceberg=story.behind)
        lake.sink(spec, sinks.rows(0, 5, 1), start=utc("2026-01-01T00:00:00"))
        given = (str(lake.root), story.behind, lake.land(sinks.rows(5, 5, 2)))
        if moment == "before":
            proxy.fail("POST", COMMIT, status=504, hold=True)  # and never heard of by the catalog
        process: list[BaseProcess] = []
        asked = threading.Event()

        def kill(method: str, path: str) -> None:
            if method == "POST" and path.endswith("/tables/sample"):
                asked.set()
                process[0].kill()
                process[0].join(60)

        proxy.watch = kill
        process.append(forked.start(sink_again, *given))
        assert asked.wait(120)
        process[0].join(120)
        for _ in range(100):
            if proxy.held if moment == "before" else len(lake.table(spec).snapshots()) == 2:
                break
            time.sleep(0.1)
        else:
            raise AssertionError("the request of the killed process has not come")
        proxy.clear()
        assert lake.rows(spec)["id"].to_pylist() == list(range(5 if moment == "before" else 10))
        sink_again(*given)
        assert lake.rows(spec)["id"].to_pylist() == list(range(10))
        assert len(lake.table(spec).snapshots()) == 2
        swept(lake, spec)
        assert [path for path in sinks.orphans(lake.table(spec)) if not path.endswith(".metadata.json")] == []
