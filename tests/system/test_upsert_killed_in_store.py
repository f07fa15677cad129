"""Nights in mode upsert whose processes are killed while they write to a store, one after the other."""

from __future__ import annotations

import os
import re
import signal
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import fsspec
import pytest

from tests.catalog.leftovers import missing, orphans
from tests.steps.store_nights import UpsertStoreSurvey
from tests.steps.upserts import table_of
from tests.stores.proxy import Proxy, running_proxy
from tests.stores.s3_server import S3Server
from tests.system import forked
from tests.system.runs import DEAD_AT_ONCE
from tests.system.test_upsert_killed import records, upsert_and_show

COMMIT = re.compile(r"/catalogs/stars/_versions/\d{8}\.json")
_SECONDS = 120


@dataclass
class Hunter:
    """Kills the process that writes by a proxy, once its n-th write is on its way, or that of a commit.

    A write is passed on to the server all the same: what was sent before a process died arrives.
    """

    at: float  # of the writes, from 1; `math.inf` spares it
    commit: bool = False  # the write of a new version, whichever that is
    pid: int = 0
    writes: int = 0
    killed: str = ""  # the request that was the last
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, method: str, path: str) -> None:
        if method not in ("PUT", "POST", "DELETE"):
            return
        with self.lock:
            self.writes += 1
            due = COMMIT.search(path) is not None if self.commit else self.writes >= self.at
            if due and not self.killed:
                self.killed = f"{method} {path}"
                os.kill(self.pid, signal.SIGKILL)


@pytest.fixture
def proxy(s3_server: S3Server) -> Iterator[Proxy]:
    """A proxy before the server, by which only the processes that are killed reach it."""
    with running_proxy(s3_server.endpoint) as proxy:
        yield proxy


def killed(survey: UpsertStoreSurvey, number: int, proxy: Proxy, hunter: Hunter) -> bool:
    """Upsert a landed night in a process of its own, which may be killed; whether it was.

    A process that was killed is started again, as a task is retried: in this process, and to its end.
    """
    folder = survey.resolve(number)
    with S3Server(proxy.endpoint).reached():
        process = forked.start(upsert_and_show, folder)
    assert process.pid
    hunter.pid = process.pid
    proxy.watch = hunter
    process.join(_SECONDS)
    proxy.watch = None
    assert process.exitcode == (-signal.SIGKILL if hunter.killed else 0), hunter.killed
    if hunter.killed:
        upsert_and_show(folder)
    return bool(hunter.killed)


@pytest.mark.parametrize("kills", [4, pytest.param(60, marks=pytest.mark.slow)])
def test_whenever_they_are_killed_their_retries_end_in_what_their_records_say(
    tmp_path: Path, bucket: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, kills: int
) -> None:
    for name, value in DEAD_AT_ONCE.items():
        monkeypatch.setenv(name, value)
    survey = UpsertStoreSurvey(
        tmp_path,
        threshold="25 rows",
        more="append: add_file\nmargin: {arcsec: [3600]}",
        uri=f"{bucket}/{uuid.uuid4().hex}",
    )
    survey.upsert(0, records(0))
    writes = _writes_of_a_night(survey, proxy)
    found = []
    for kill in range(kills):
        number = 1 + kill % 5
        survey.nights[number] = records(number, seed=kill + 1)
        survey.land(number, table_of(survey.nights[number]))
        hunter = Hunter(1 + writes * kill // kills, commit=kill % 4 == 3)
        if killed(survey, number, proxy, hunter):
            found.append(hunter.killed)
        survey.assert_holds_the_state()
    assert len(found) == kills
    assert any(COMMIT.search(request) for request in found)
    catalog = survey.catalog
    assert catalog.versions() == list(range(1, kills + 3))
    catalog.vacuum(keep_versions=1, keep_days=0, dry_run=False)
    survey.assert_holds_the_state()
    copy = tmp_path / "copy"
    fsspec.filesystem("s3").get(f"{survey.warehouse}/catalogs/stars/", f"{copy}/", recursive=True)
    assert missing(copy) == orphans(copy) == set()


def _writes_of_a_night(survey: UpsertStoreSurvey, proxy: Proxy) -> int:
    """How many writes a night takes."""
    survey.nights[1] = records(1)
    survey.land(1, table_of(survey.nights[1]))
    counting = Hunter(float("inf"))
    assert not killed(survey, 1, proxy, counting)
    return counting.writes
