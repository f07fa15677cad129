"""Heartbeats: a running write is alive, a killed one goes stale, a swept one is not written any more."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hipslake.errors import SpecError, StorageError
from hipslake.storage.folder import Storage
from hipslake.versions import heartbeat
from hipslake.versions.heartbeat import HEARTBEAT, Heartbeat, claim_write, is_live, mark_path
from hipslake.versions.write_id import is_write_id, new_write_id, write_ids_in, write_time

from tests.processes import killed
from tests.versions.aging import set_back

WRITE = "20261121T0330-7f3a"
NOW = datetime(2026, 11, 21, 3, 30, 59, tzinfo=UTC)


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage.at(tmp_path)


def beat(storage: Storage) -> dict[str, object]:
    found: dict[str, object] = json.loads(storage.read(f"{WRITE}/{HEARTBEAT}"))
    return found


def silent_for(storage: Storage, seconds: float) -> None:
    """Make the heartbeat so old."""
    storage.write(f"{WRITE}/{HEARTBEAT}", json.dumps(beat(storage)).encode())
    set_back(storage, f"{WRITE}/{HEARTBEAT}", seconds)


def test_a_folder_lives_while_its_block_runs(storage: Storage) -> None:
    assert not is_live(storage, WRITE)
    with Heartbeat(storage, WRITE, rest=False):
        assert is_live(storage, WRITE)
        assert beat(storage)["pid"] == os.getpid()
    assert not storage.exists(f"{WRITE}/{HEARTBEAT}")
    assert not is_live(storage, WRITE)


def test_the_heartbeat_is_renewed(storage: Storage) -> None:
    with Heartbeat(storage, WRITE, interval=0.005):
        first = beat(storage)["time"]
        deadline = time.monotonic() + 10
        while beat(storage)["time"] == first and time.monotonic() < deadline:
            pass
        assert beat(storage)["time"] > first  # type: ignore[operator]


def test_between_two_steps_a_folder_rests_for_longer_than_it_may_be_silent(storage: Storage) -> None:
    with Heartbeat(storage, WRITE):
        pass

    assert is_live(storage, WRITE, stale_after=0)
    silent_for(storage, 3600)
    assert is_live(storage, WRITE)
    silent_for(storage, 86_401)
    assert not is_live(storage, WRITE)


def test_after_a_failure_the_heartbeat_goes_stale(storage: Storage) -> None:
    with pytest.raises(KeyError), Heartbeat(storage, WRITE):
        raise KeyError

    assert is_live(storage, WRITE)
    silent_for(storage, 301)
    assert not is_live(storage, WRITE)


def test_the_limit_of_silence_can_be_set(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyError), Heartbeat(storage, WRITE):
        raise KeyError
    silent_for(storage, 20)

    assert is_live(storage, WRITE)
    monkeypatch.setenv("HIPSLAKE_STALE_SECONDS", "10")
    assert not is_live(storage, WRITE)
    assert is_live(storage, WRITE, stale_after=30)


@pytest.mark.parametrize("name", ["HIPSLAKE_STALE_SECONDS", "HIPSLAKE_RESTING_SECONDS"])
@pytest.mark.parametrize("text", ["5m", "nan", "-1", "inf", "1e9"])
def test_a_limit_that_is_no_number_kills_nobody(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    with Heartbeat(storage, WRITE):
        pass
    monkeypatch.setenv(name, text)
    with pytest.raises(SpecError, match=f"{name} is '{text}'"):
        is_live(storage, WRITE)
    monkeypatch.setenv(name, "")  # as compose passes on what nobody set
    assert is_live(storage, WRITE)


def test_a_killed_writer_is_dead_once_its_heartbeat_is_stale(storage: Storage) -> None:
    def write_and_die() -> None:
        with Heartbeat(storage, WRITE):
            os.kill(os.getpid(), signal.SIGKILL)

    killed(write_and_die)

    assert is_live(storage, WRITE)
    assert not is_live(storage, WRITE, stale_after=0)


def test_a_damaged_heartbeat_is_no_sign_of_life(storage: Storage) -> None:
    for content in (b"", b"[]", b"{}", b'{"time": null, "state": "beating"}'):
        storage.write(f"{WRITE}/{HEARTBEAT}", content)
        assert not is_live(storage, WRITE)


@pytest.mark.parametrize("ahead", [-86_400 * 400, -400, 0, 400, 86_400 * 400])
def test_whatever_a_hosts_clock_says_who_beats_lives_and_who_is_silent_dies(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, ahead: float
) -> None:
    now = time.time
    monkeypatch.setattr(heartbeat.time, "time", lambda: now() + ahead)
    with Heartbeat(storage, WRITE):
        monkeypatch.undo()  # the clock of who looks is right
        assert is_live(storage, WRITE)
        storage.write(f"{WRITE}/{HEARTBEAT}", json.dumps(beat(storage)).encode())
        written = storage.read(f"{WRITE}/{HEARTBEAT}")
    storage.write(f"{WRITE}/{HEARTBEAT}", written)  # it was killed
    monkeypatch.setattr(heartbeat.time, "time", lambda: now() - ahead)
    assert is_live(storage, WRITE)
    silent_for(storage, 301)
    assert not is_live(storage, WRITE)


def test_a_swept_write_is_refused(storage: Storage) -> None:
    with Heartbeat(storage, WRITE) as beating:
        beating.confirm()
        storage.write(mark_path(WRITE), b"{}")
        with pytest.raises(StorageError, match=r"this write was swept.*first step") as raised:
            beating.confirm()
    assert not raised.value.retryable
    with pytest.raises(StorageError, match="this write was swept"), Heartbeat(storage, WRITE):
        pass


def test_a_heartbeat_that_cannot_be_written_does_not_stop_the_work(
    storage: Storage, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Heartbeat(storage, WRITE, rest=False, interval=0.005):
        (tmp_path / WRITE).rename(tmp_path / "away")
        (tmp_path / WRITE).write_bytes(b"in the way")
        deadline = time.monotonic() + 10
        while not caplog.records and time.monotonic() < deadline:
            pass
        (tmp_path / WRITE).unlink()
        (tmp_path / "away").rename(tmp_path / WRITE)

    assert "No heartbeat could be written" in caplog.text


def test_a_write_id_says_when_it_was_drawn_in_utc() -> None:
    tokyo = NOW.astimezone(timezone(timedelta(hours=9)))
    for now in (NOW, tokyo):
        write_id = new_write_id(now)
        assert re.fullmatch("20261121T0330-[0-9a-f]{12}", write_id)
        assert is_write_id(write_id)
        assert write_time(write_id) == datetime(2026, 11, 21, 3, 30, tzinfo=UTC)
    assert not is_write_id("_versions")
    assert not is_write_id("20261121T0330-7f3a.bak")


def test_no_two_runs_get_the_same_write(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter(["20261121T0330-7f3a", "20261121T0330-7f3a", "20261121T0330-beef"])
    monkeypatch.setattr(heartbeat, "new_write_id", lambda _: next(drawn))

    assert claim_write(storage, NOW) == "20261121T0330-7f3a"
    assert claim_write(storage, NOW) == "20261121T0330-beef"
    assert is_live(storage, "20261121T0330-beef")


def test_chance_draws_no_write_id_twice() -> None:
    assert len({new_write_id(NOW) for _ in range(20_000)}) == 20_000


def test_a_folder_that_is_swept_before_its_first_beat_is_drawn_anew(tmp_path: Path) -> None:
    refused: list[str] = []

    class Swept(Storage):
        """A store on which a sweeper comes between the making of the folder and that of the heartbeat."""

        def create(self, path: str, data: bytes) -> bool:
            if not refused:
                refused.append(path.partition("/")[0])
                raise FileNotFoundError(path)
            return super().create(path, data)

    write_id = claim_write(Swept(str(tmp_path)), NOW)
    assert write_id not in refused
    assert is_live(Storage.at(tmp_path), write_id)


def test_every_write_that_metadata_names_is_found() -> None:
    data = json.dumps(
        {
            "write_id": "20261121T0330-7f3a",
            "partitions": [{"path": "20261120T0330-0001/main/Npix=5.parquet"}],
            "created": "2026-11-21T03:30:00Z",
            "not_one": "120261119T0330-0001",
        }
    ).encode()

    assert write_ids_in(data) == {"20261121T0330-7f3a", "20261120T0330-0001"}
