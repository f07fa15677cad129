"""A store that does not answer, or without end, is not waited for any longer than its limits say."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hipslake.errors import SpecError, StoreTimeoutError
from hipslake.steps.report import failure_of
from hipslake.storage import ranged_file
from hipslake.storage.access import StoreAccess, asked_as
from hipslake.storage.folder import Storage
from hipslake.storage.timeouts import Deadline, Timeouts, limited, set_in, within

from tests.stores.proxy import Proxy, running_proxy
from tests.stores.ranges import read_ranges
from tests.stores.s3_server import S3Server
from tests.stores.slow import Fault, SlowServer, running_slow

READ, REQUEST = 0.2, 0.5
SOON = 8.0  # seconds, on a machine that others work on too
MEGABYTES = 30  # more than the buffers of two sockets hold

READS: dict[str, Callable[[Storage], Any]] = {
    "list": lambda storage: storage.list("folder"),
    "list all": lambda storage: storage.list("folder", recursive=True),
    "glob": lambda storage: storage.glob("*/*.parquet"),
    "read": lambda storage: storage.read("one"),
    "range": lambda storage: storage.read_range("one", 0, 10),
    "ranges": lambda storage: read_ranges(storage, [("one", 0, 10), ("two", 0, 10)]),
    "file": lambda storage: storage.open("one").read(),
    "parquet": lambda storage: pq.read_table(
        storage.arrow_path("one"), filesystem=storage.arrow_filesystem()
    ),
    "entry": lambda storage: storage.entry("one"),
    "is file": lambda storage: storage.is_file("one"),
    "mark": lambda storage: storage.mark_of("one"),
    "digest": lambda storage: storage.sha256("one"),
}


OF_HEADERS = ("file", "parquet", "entry", "mark", "digest")  # begin with HEAD, whose answer has no body


def _put_file(storage: Storage, size: int) -> None:
    with storage.open("one", "wb") as file:
        file.write(bytes(size))


WRITES: dict[str, Callable[[Storage], Any]] = {
    "write": lambda storage: storage.write("one", b"1"),
    "put file": lambda storage: _put_file(storage, 1),
    "create": lambda storage: storage.create("one", b"1"),
    "delete": lambda storage: storage.delete("one"),
    "delete tree": lambda storage: storage.delete_tree("folder"),
    "copy": lambda storage: storage.copy("one", "two"),
}


@pytest.fixture
def limits() -> Iterator[None]:
    with limited(connect=READ, read=READ, request=REQUEST, tries=2):
        yield


def asked(server: SlowServer, doing: Callable[[Storage], Any]) -> StoreTimeoutError:
    """The error of an operation on a slow store, which comes soon and leaves no connection."""
    start = time.monotonic()
    with (
        asked_as(StoreAccess(key="k", secret="s", region="us-east-1", endpoint=server.url)),
        pytest.raises(StoreTimeoutError) as caught,
    ):
        doing(Storage.at("s3://bucket"))
    assert time.monotonic() - start < SOON
    assert server.asked > 0
    end = time.monotonic() + SOON
    while server.open_connections():
        assert time.monotonic() < end, "a connection is left"
        time.sleep(0.01)
    return caught.value


@pytest.mark.sampled(3)
@pytest.mark.parametrize("doing", [*READS, *WRITES])
def test_a_silent_store_is_given_up(doing: str) -> None:
    with running_slow("silent") as server, limited(read=READ, request=2.0, tries=2):
        error = asked(server, {**READS, **WRITES}[doing])
    assert "s3://bucket" in str(error)
    assert f"no byte came for {READ} s (HIPSLAKE_STORE_READ_SECONDS), 2 times" in str(error)
    assert failure_of(error).retryable


@pytest.mark.sampled(3)
@pytest.mark.parametrize("doing", [doing for doing in READS if doing not in OF_HEADERS])
def test_an_answer_that_comes_byte_by_byte_is_given_up(limits: None, doing: str) -> None:
    with running_slow("drips body") as server:
        error = asked(server, READS[doing])
    assert f"not answered to its end within {REQUEST:g} s (HIPSLAKE_STORE_REQUEST_SECONDS)" in str(error)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("doing", READS)
def test_headers_that_do_not_end_are_no_answer(limits: None, doing: str) -> None:
    """The limit for silence holds until the headers are there."""
    with running_slow("drips headers") as server:
        error = asked(server, READS[doing])
    assert f"no byte came for {READ} s (HIPSLAKE_STORE_READ_SECONDS), 2 times" in str(error)


LARGE: dict[str, Callable[[Storage], Any]] = {
    "write": lambda storage: storage.write("one", bytes(MEGABYTES << 20)),
    "put file": lambda storage: _put_file(storage, MEGABYTES << 20),
}


@pytest.mark.parametrize("doing", LARGE)
def test_an_object_that_nobody_takes_is_given_up(limits: None, doing: str) -> None:
    with running_slow("never reads") as server:
        error = asked(server, LARGE[doing])
    assert f"not answered to its end within {REQUEST:g} s (HIPSLAKE_STORE_REQUEST_SECONDS)" in str(error)


def test_a_store_without_a_connection_is_given_up() -> None:
    """Whose queue of connections is full: nobody accepts."""
    import socket

    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        endpoint = f"http://127.0.0.1:{full.getsockname()[1]}"
        with (
            limited(connect=READ, tries=1),
            asked_as(StoreAccess(key="k", secret="s", region="us-east-1", endpoint=endpoint)),
            pytest.raises(
                StoreTimeoutError, match=rf"no connection within {READ} s \(HIPSLAKE_STORE_CONNECT_"
            ),
        ):
            Storage.at("s3://bucket").list()
        for one in waiting:
            one.close()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("fault", ["silent", "drips headers", "drips body"])
@pytest.mark.parametrize("doing", ["read", "range", "file", "parquet", "glob"])
def test_a_web_server_is_given_up(limits: None, fault: Fault, doing: str) -> None:
    start = time.monotonic()
    with running_slow(fault) as server, pytest.raises(StoreTimeoutError, match=r"HIPSLAKE_STORE_\w+_SECONDS"):
        READS[doing](Storage.at(f"{server.url}/folder"))
    assert time.monotonic() - start < SOON


def test_no_thread_is_left_of_many_requests_to_a_silent_store(limits: None) -> None:
    with running_slow("silent") as server:
        asked(server, READS["list"])
        before = threading.active_count()
        for _ in range(3):
            asked(server, READS["list"])
        assert threading.active_count() <= before + 3  # those of the server


def test_a_deadline_ends_whatever_is_asked() -> None:
    with running_slow("silent") as server, within(Deadline(time.monotonic() + 1, 1, "HIPSLAKE_X")):
        asked(server, lambda storage: [storage.read("one") for _ in range(9)])
        time.sleep(1)
        with (
            asked_as(StoreAccess(key="k", secret="s", region="us-east-1", endpoint=server.url)),
            pytest.raises(StoreTimeoutError, match=r"no answer within 1 s \(HIPSLAKE_X\)"),
        ):
            Storage.at("s3://bucket").read("one")


@pytest.fixture
def proxy(s3_server: S3Server) -> Iterator[Proxy]:
    with running_proxy(s3_server.endpoint) as proxy, asked_as(StoreAccess(endpoint=proxy.endpoint)):
        yield proxy


def test_a_store_that_is_slow_and_works_is_waited_for(s3_server: S3Server, proxy: Proxy) -> None:
    bucket = s3_server.make_bucket()
    storage = Storage.at(f"s3://{bucket}")
    for number in range(3):
        storage.write(f"folder{number}/file", b"1")
    proxy.delay("GET", "folder", seconds=0.7, times=100)
    with limited(read=2.0, request=2.0):
        start = time.monotonic()
        assert [storage.read(f"folder{number}/file") for number in range(3)] == [b"1"] * 3
        assert time.monotonic() - start > 2.0


def test_a_listing_goes_on_as_long_as_pages_come(
    s3_server: S3Server, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = s3_server.make_bucket()
    client = s3_server.client()
    for number in range(11):
        client.put_object(Bucket=bucket, Key=f"folder/{number:04}", Body=b"")
    proxy.page = 10
    proxy.delay("GET", "list-type", seconds=1.6, times=100)
    with limited(read=3.0, request=3.0):
        start = time.monotonic()
        assert len(Storage.at(f"s3://{bucket}").list("folder")) == 11
        assert time.monotonic() - start > 3.0
    assert len([each for each in proxy.asked if "list-type" in each.path]) == 2


def test_a_long_read_is_several_requests(
    s3_server: S3Server, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranged_file, "_MOST_AT_ONCE", 1000)
    storage, content = Storage.at(f"s3://{s3_server.make_bucket()}"), os.urandom(2500)
    storage.write("one", content)
    proxy.clear()
    file = storage.arrow_file("one", len(content))
    assert file.read() == content
    assert [each.range for each in proxy.asked] == ["bytes=0-999", "bytes=1000-1999", "bytes=2000-2499"]


def test_limits_come_from_the_environment() -> None:
    assert Timeouts.of({}) == Timeouts(connect=10, read=60, request=300, tries=3)
    told = {
        "HIPSLAKE_STORE_CONNECT_SECONDS": "1.5",
        "HIPSLAKE_STORE_READ_SECONDS": " 2 ",
        "HIPSLAKE_STORE_REQUEST_SECONDS": "1e3",
        "HIPSLAKE_STORE_TRIES": "7",
    }
    assert Timeouts.of(told) == Timeouts(connect=1.5, read=2, request=1000, tries=7)
    assert Timeouts.of(dict.fromkeys(told, "")) == Timeouts()


@pytest.mark.parametrize("name", ["CONNECT_SECONDS", "READ_SECONDS", "REQUEST_SECONDS", "TRIES"])
@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "1e9", "soon", "1,5", "²"])
def test_limits_that_are_none_are_told(
    name: str, value: str, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"HIPSLAKE_STORE_{name}", value)
    with pytest.raises(SpecError, match=rf"HIPSLAKE_STORE_{name} is '.*'.*correct it, or leave it away for"):
        Storage.at("s3://bucket").list()


def test_limits_of_the_environment_hold(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HIPSLAKE_STORE_READ_SECONDS", str(READ))
    monkeypatch.setenv("HIPSLAKE_STORE_TRIES", "1")
    with running_slow("silent") as server:
        error = asked(server, READS["list"])
    assert f"no byte came for {READ} s (HIPSLAKE_STORE_READ_SECONDS);" in str(error)
    assert server.asked == 1


def test_workers_on_other_machines_are_told_the_limits_that_are_set() -> None:
    told = {"HIPSLAKE_STORE_READ_SECONDS": "5", "HIPSLAKE_STORE_TRIES": "", "HOME": "/"}
    assert set_in(told) == {"HIPSLAKE_STORE_READ_SECONDS": "5"}


@pytest.mark.parametrize("doing", ["read", "ranges"])
def test_a_signal_ends_the_wait_at_once(doing: str) -> None:
    """A task is asked to end by a signal, whose handler the main thread runs between two steps of Python."""

    class AskedToEnd(BaseException):
        pass

    def end(*_: Any) -> None:
        raise AskedToEnd

    before = signal.signal(signal.SIGALRM, end)
    try:
        with (
            running_slow("silent") as server,
            asked_as(StoreAccess(key="k", secret="s", region="us-east-1", endpoint=server.url)),
            limited(read=60.0),
        ):
            start = time.monotonic()
            signal.setitimer(signal.ITIMER_REAL, 0.5)
            with pytest.raises(AskedToEnd):
                READS[doing](Storage.at("s3://bucket"))
        assert time.monotonic() - start < SOON
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("doing", ["read", "ranges"])
def test_a_deadline_ends_a_request_that_may_take_longer(doing: str) -> None:
    with running_slow("silent") as server, within(Deadline(time.monotonic() + 0.3, 60, "HIPSLAKE_X")):
        start = time.monotonic()
        with (
            asked_as(StoreAccess(key="k", secret="s", region="us-east-1", endpoint=server.url)),
            pytest.raises(StoreTimeoutError, match=r"no answer within 60 s \(HIPSLAKE_X\)"),
        ):
            READS[doing](Storage.at("s3://bucket"))
        assert time.monotonic() - start < SOON
