"""Ranges of many files that are asked for together: what comes, errors, how many at once, and how it ends."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import nullcontext, suppress
from pathlib import Path
from unittest import mock

import pytest
from hipslake.errors import NotReadableError, StorageError, StoreTimeoutError
from hipslake.storage import folder, s3_client
from hipslake.storage.access import StoreAccess, asked_as
from hipslake.storage.folder import Storage
from hipslake.storage.objects import ObjectFiles
from hipslake.storage.request_loop import MOST_REQUESTS
from hipslake.storage.request_pool import AskedRange, RequestPool
from hipslake.storage.timeouts import Deadline, limited, within
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.airflow_home import PROJECT
from tests.examples import examples
from tests.processes import in_processes
from tests.stores.proxy import Proxy, running_proxy
from tests.stores.ranges import read_ranges
from tests.stores.s3_server import REGION, S3Server
from tests.stores.slow import running_slow

SOON = 8.0  # seconds, on a machine that others work on too
NAMES = (
    "one",
    "two.parquet",
    "a%20b é/three [4]*",
    "ö+~'\"{}",
    "night/deep/q?x=1&y#z",
    "odd//name",
    "odd/\x01",
)
FILES = st.dictionaries(st.sampled_from(NAMES), st.binary(max_size=60), max_size=len(NAMES))
RANGES = st.lists(
    st.tuples(st.sampled_from(NAMES), st.integers(0, 70), st.integers(0, 70)).map(
        lambda asked: (asked[0], asked[1], asked[1] + asked[2])
    ),
    max_size=12,
)


@pytest.fixture
def store(s3_server: S3Server) -> Storage:
    return Storage.at(f"s3://{s3_server.make_bucket()}")


@pytest.fixture
def proxy(s3_server: S3Server) -> Iterator[Proxy]:
    with running_proxy(s3_server.endpoint) as proxy, asked_as(StoreAccess(endpoint=proxy.endpoint)):
        yield proxy


@pytest.fixture(scope="module")
def roots(s3_server: S3Server, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A root of each kind."""
    return {
        "disk": str(tmp_path_factory.mktemp("ranges")),
        "memory": f"memory://{uuid.uuid4().hex}",
        "store": f"s3://{s3_server.make_bucket()}",
        "store by fsspec": f"s3://{s3_server.make_bucket()}",
    }


def _by_fsspec(uri: str) -> ObjectFiles:
    return ObjectFiles(uri.partition("://")[0])


def came_for(storage: Storage, asked: list[tuple[str, int, int]]) -> list[bytes | type[Exception]]:
    """What came for each range: the bytes, or the class of the error."""
    found: list[bytes | type[Exception]] = []
    with RequestPool() as pool:
        for came in pool.ranges([AskedRange(storage, *each) for each in asked]):
            try:
                found.append(bytes(came.result()))
            except Exception as error:
                found.append(type(error))
    return found


@settings(max_examples=examples(200), deadline=None)
@given(files=FILES, asked=RANGES)
def test_ranges_come_as_they_are(
    roots: dict[str, str], files: dict[str, bytes], asked: list[tuple[str, int, int]]
) -> None:
    """Of what is there, of what is not, beyond the end, and of nothing."""
    place = uuid.uuid4().hex
    expected = [
        files[path][start:stop] if path in files else FileNotFoundError for path, start, stop in asked
    ]
    for kind, root in roots.items():
        by_fsspec = kind == "store by fsspec"
        with mock.patch.object(folder, "_files_at", _by_fsspec) if by_fsspec else nullcontext():
            storage = Storage.at(f"{root}/{place}")
            for path, data in files.items():
                storage.write(path, data)
            found = came_for(storage, asked)
            for at, (path, start, stop) in enumerate(asked):  # of no bytes nobody is asked
                if start == stop and path not in files:
                    assert found[at] in (b"", FileNotFoundError)
                    found[at] = FileNotFoundError
            assert found == expected, kind


def test_ranges_of_several_places_come_in_their_order(store: Storage, tmp_path: Path) -> None:
    memory, disk = Storage.at(f"memory://{uuid.uuid4().hex}"), Storage.at(tmp_path)
    for at, storage in enumerate((store, memory, disk)):
        storage.write("a", b"%d" % at * 3)
    asked = [
        AskedRange(storage, "a", 0, at) for at in range(1, 4) for storage in (store, disk, memory, store)
    ]
    with RequestPool() as pool:
        found = [bytes(came.result()) for came in pool.ranges(asked)]
        assert pool.ranges([]) == []
    assert found == [letter * at for at in range(1, 4) for letter in (b"0", b"2", b"1", b"0")]


class Watched:
    """Requests that a proxy has at the same time, each of which takes a while."""

    def __init__(self, proxy: Proxy, seconds: float) -> None:
        self.lock, self.seconds = threading.Lock(), seconds
        self.under_way = self.most = self.seen = 0
        proxy.watch = self.watch

    def watch(self, method: str, path: str) -> None:
        with self.lock:
            self.under_way += 1
            self.seen += 1
            self.most = max(self.most, self.under_way)
        time.sleep(self.seconds)
        with self.lock:
            self.under_way -= 1


def test_many_ranges_are_under_way_at_once_and_no_more_than_some(store: Storage, proxy: Proxy) -> None:
    files = {f"at/{number}": f"{number:04}".encode() for number in range(20)}
    store.write_all(files)
    asked = [(f"at/{number % 20}", number % 3, 3 + number % 2) for number in range(300)]
    watched = Watched(proxy, 0.5)
    found = read_ranges(store, asked)
    assert found == [files[path][start:stop] for path, start, stop in asked]
    assert MOST_REQUESTS / 2 < watched.most <= MOST_REQUESTS
    assert watched.seen == 300


def test_an_error_is_of_its_range_alone(store: Storage, proxy: Proxy) -> None:
    store.write_all({f"at/{number}": b"content" for number in range(30)})
    store.delete("at/3")
    proxy.refuse("GET", "at/7$", status=403, code="AccessDenied", times=9)
    proxy.delay("GET", "at/9$", seconds=3, times=9)
    proxy.refuse("GET", "at/11$", status=503, code="SlowDown", times=2)
    proxy.drop_answers("GET", "at/13$", times=2)
    proxy.fail("GET", "at/15$", status=200, body=b"0123456789", times=2)  # a server that knows no ranges
    kinds = {3: FileNotFoundError, 7: NotReadableError, 9: StoreTimeoutError}
    told = {7: r"at/7: may not be read .*AccessDenied", 9: r"at/9: .*no byte came for 0\.7 s .*2 times"}
    with limited(read=0.7, tries=2), RequestPool() as pool:
        coming = pool.ranges([AskedRange(store, f"at/{number}", 1, 4) for number in range(30)])
        for number, came in enumerate(coming):
            if number in kinds:
                with pytest.raises(kinds[number], match=told.get(number)):
                    came.result()
            else:
                assert bytes(came.result()) == (b"123" if number == 15 else b"ont")


def test_a_store_without_keys_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with RequestPool() as pool, pytest.raises(StorageError, match="s3://lake/a: may not be read"):
        pool.ranges([AskedRange(Storage.at("s3://lake"), "a", 0, 1)])[0].result()


def test_what_has_not_ended_is_given_up_where_a_block_fails(store: Storage, proxy: Proxy) -> None:
    store.write("a", b"content")
    watched = Watched(proxy, 2.0)  # the block fails before the first one is answered, also under load
    with suppress(KeyError), RequestPool() as pool:
        coming = pool.ranges([AskedRange(store, "a", 0, 3)] * 400)
        while not watched.seen:
            time.sleep(0.01)
        raise KeyError
    for came in coming:
        with pytest.raises(CancelledError):
            came.result(SOON)
    time.sleep(watched.seconds + 0.5)  # what goes on would be seen
    assert watched.seen <= MOST_REQUESTS
    assert read_ranges(store, [("a", 0, 3)]) == [b"con"]


def test_what_is_asked_in_a_block_that_ends_well_goes_on(store: Storage, proxy: Proxy) -> None:
    store.write("a", b"content")
    Watched(proxy, 0.1)
    with RequestPool() as pool:
        coming = pool.ranges([AskedRange(store, "a", 0, 3)] * 300)
    assert {bytes(came.result()) for came in coming} == {b"con"}


def test_a_range_is_cancelled_alone(store: Storage, proxy: Proxy) -> None:
    store.write("a", b"content")
    Watched(proxy, 0.3)
    with RequestPool() as pool:
        one, other = pool.ranges([AskedRange(store, "a", 0, 3)] * 2)
        assert one.cancel()
        assert bytes(other.result()) == b"con"
        assert one.cancelled()


def test_threads_ask_each_with_their_own_access_and_limits(s3_server: S3Server) -> None:
    storage = Storage.at(f"s3://{s3_server.make_bucket()}")
    storage.write("a", b"content")

    def ask(number: int) -> tuple[list[bytes], int]:
        with running_proxy(s3_server.endpoint) as mine, asked_as(StoreAccess(endpoint=mine.endpoint)):
            return read_ranges(storage, [("a", number, 7)] * 20), len(mine.asked)

    def silent(number: int) -> str:
        access = StoreAccess(key="k", secret="s", region=REGION, endpoint=server.url)
        end = Deadline(time.monotonic() + 0.5, number, "HIPSLAKE_X")
        with asked_as(access), within(end), pytest.raises(StoreTimeoutError) as caught:
            read_ranges(storage, [("a", 0, 7)] * 20)
        return str(caught.value)

    with running_slow("silent") as server, ThreadPoolExecutor(8) as threads:
        found, told = (
            [threads.submit(ask, at) for at in range(6)],
            [threads.submit(silent, at) for at in (7, 8)],
        )
        assert [each.result() for each in found] == [([b"content"[at:]] * 20, 20) for at in range(6)]
        for at, each in zip((7, 8), told, strict=True):
            assert f"no answer within {at} s (HIPSLAKE_X)" in each.result()


def test_ranges_come_inside_a_running_event_loop(store: Storage) -> None:
    store.write("a", b"content")

    async def cell() -> list[bytes]:
        return read_ranges(store, [("a", 1, 3), ("a", 2, 9)])

    assert asyncio.run(cell()) == [b"on", b"ntent"]


def test_no_thread_and_no_connection_is_left(store: Storage) -> None:
    store.write("a", b"content")
    read_ranges(store, [("a", 0, 1)] * 50)
    before = {each.name for each in threading.enumerate()}
    for _ in range(5):
        read_ranges(store, [("a", 0, 1)] * 50)
    assert {each.name for each in threading.enumerate()} <= before
    assert sum(each.name == "hipslake-requests" for each in threading.enumerate()) == 1
    with running_slow("silent") as server, limited(read=0.2, tries=1):
        with (
            asked_as(StoreAccess(key="k", secret="s", region=REGION, endpoint=server.url)),
            pytest.raises(StoreTimeoutError),
        ):
            read_ranges(Storage.at("s3://bucket"), [("a", 0, 1)] * 50)
        end = time.monotonic() + SOON
        while server.open_connections():
            assert time.monotonic() < end, "a connection is left"
            time.sleep(0.01)


def test_a_process_that_was_forked_is_served_by_fsspec(store: Storage) -> None:
    store.write("a", b"content")
    assert read_ranges(store, [("a", 0, 1)]) == [b"c"]
    assert in_processes(_forked, [(store,)] * 2) == [(False, [b"on", b"t"])] * 2
    assert read_ranges(store, [("a", 0, 1)]) == [b"c"]


def _forked(storage: Storage) -> tuple[bool, list[bytes]]:
    return s3_client.is_usable(), read_ranges(storage, [("a", 1, 3), ("a", 6, 9)])


_ANSWER = "wait(coming, return_when=FIRST_COMPLETED); "
_ENDS = {
    "before anything is sent": "print(3)",
    "with the last answer": "print(len(coming[-1].result()))",
    "with requests under way": _ANSWER + "print(3)",
    "with a signal": _ANSWER + "print(3, flush=True); signal.pause()",
    "with an error": _ANSWER + "print(3); raise SystemExit(0)",
    "with requests given up": _ANSWER + "print(3); [came.cancel() for came in coming]",
}
_PROGRAM = """
import signal, sys
from concurrent.futures import FIRST_COMPLETED, wait
from hipslake.storage.folder import Storage
from hipslake.storage.request_pool import AskedRange, RequestPool
with RequestPool() as pool:
    coming = pool.ranges([AskedRange(Storage.at(sys.argv[1]), "a", 0, 3)] * 60)
    {end}
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("end", _ENDS)
def test_a_process_ends_while_much_is_asked(
    s3_server: S3Server, store: Storage, proxy: Proxy, end: str
) -> None:
    """At whatever moment answers come: nothing aborts it, and it waits for nobody."""
    store.write("a", b"content")
    proxy.delay("GET", "/a$", seconds=0.02, times=10_000, every=3)
    proxy.delay("GET", "/a$", seconds=60 if end == "with requests under way" else 0.1, times=10_000, every=7)
    environment = {
        **os.environ,
        "PYTHONPATH": str(PROJECT / "include"),
        "AWS_ENDPOINT_URL_S3": proxy.endpoint,
        "AWS_ACCESS_KEY_ID": "k",
        "AWS_SECRET_ACCESS_KEY": "s",
    }
    program = _PROGRAM.format(end=_ENDS[end])
    for _ in range(5):
        with subprocess.Popen(
            [sys.executable, "-c", program, store.root],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            if end == "with a signal":
                assert process.stdout is not None
                assert process.stdout.readline() == "3\n"
                process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
        if end == "with a signal":
            assert (process.returncode, err.strip().splitlines()[-1]) == (-signal.SIGINT, "KeyboardInterrupt")
        else:
            assert (process.returncode, out, err) == (0, "3\n", "")
