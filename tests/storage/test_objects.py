"""Objects of a real S3 server, through a proxy that counts requests and loses answers; and its refusals."""

from __future__ import annotations

import math
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hipslake.errors import NotReadableError, NotWritableError, StorageError
from hipslake.storage.access import StoreAccess, asked_as
from hipslake.storage.folder import Storage
from hipslake.versions.log import VersionLog

from tests.processes import in_processes
from tests.stores.proxy import Proxy, running_proxy
from tests.stores.s3_server import S3Server, running_s3
from tests.versions.committing import committed, metadata, write_id_of

PROCESSES = 8


def paths(storage: Storage, folder: str = "", *, recursive: bool = False) -> list[str]:
    return [entry.path for entry in storage.list(folder, recursive=recursive)]


@pytest.fixture
def store(s3_server: S3Server) -> Storage:
    """A bucket of the test's own."""
    return Storage.at(f"s3://{s3_server.make_bucket()}")


@pytest.fixture(scope="module")
def guarded() -> Iterator[S3Server]:
    """A server that checks keys and signatures."""
    with running_s3(guarded=True) as server:
        yield server


@pytest.fixture
def proxy(s3_server: S3Server) -> Iterator[Proxy]:
    """A proxy before the server, which this thread's stores go through."""
    with running_proxy(s3_server.endpoint) as proxy, asked_as(StoreAccess(endpoint=proxy.endpoint)):
        yield proxy


RACES = [f"races/{n}" for n in range(8)]


def _take_part(storage: Storage, racer: int) -> list[str]:
    return [path for path in RACES if storage.create(path, f"{racer}".encode())]


def test_of_many_processes_one_creates_a_name(store: Storage) -> None:
    won = in_processes(_take_part, [(store, racer) for racer in range(PROCESSES)])
    assert sorted(path for found in won for path in found) == sorted(RACES)
    for racer, found in enumerate(won):
        assert {store.read(path) for path in found} <= {f"{racer}".encode()}


def test_the_server_lets_one_of_many_threads_create_a_name(s3_server: S3Server) -> None:
    """The test server's own answer to If-None-Match, asked by a client that is not ours."""
    bucket, client = s3_server.make_bucket(), s3_server.client()

    def put(name: str, together: threading.Barrier) -> bool:
        together.wait()
        try:
            client.put_object(Bucket=bucket, Key=name, Body=b"x" * 5000, IfNoneMatch="*")
        except client.exceptions.ClientError as error:
            taken = error.response["Error"]["Code"] == "PreconditionFailed"
            return not taken  # anything else counts as one winner too many
        return True

    with ThreadPoolExecutor(PROCESSES) as pool:
        for number in range(30):
            together = threading.Barrier(PROCESSES)
            asked = [pool.submit(put, f"name-{number}", together) for _ in range(PROCESSES)]
            assert [future.result() for future in asked].count(True) == 1


def test_a_forked_process_has_a_client_of_its_own(store: Storage) -> None:
    store.write("before", b"1")  # the client of this process has its thread and its connections by now
    found = in_processes(_write_and_list, [(store, name) for name in ("a", "b", "c")])
    assert all("before" in names for names in found)
    assert paths(store) == ["a", "b", "before", "c"]


def _write_and_list(storage: Storage, name: str) -> list[str]:
    storage.write(name, b"2")
    return paths(storage)


def test_what_others_write_and_delete_is_seen_at_once(store: Storage, s3_server: S3Server) -> None:
    bucket, client = store.root.removeprefix("s3://"), s3_server.client()
    store.write("folder/a", b"1")
    assert paths(store, "folder") == ["folder/a"]
    client.put_object(Bucket=bucket, Key="folder/b", Body=b"22")
    assert paths(store, "folder") == ["folder/a", "folder/b"]
    assert store.entry("folder/b").size == 2
    client.put_object(Bucket=bucket, Key="folder/b", Body=b"333")
    assert store.entry("folder/b").size == 3
    client.delete_object(Bucket=bucket, Key="folder/a")
    assert not store.exists("folder/a")
    assert [entry.path for entry in store.glob("*/*")] == ["folder/b"]


def test_markers_of_folders_are_no_files(store: Storage, s3_server: S3Server) -> None:
    for key in ("landing/", "landing/empty/", "landing/night/", "landing/night/a.parquet"):
        s3_server.client().put_object(Bucket=store.root.removeprefix("s3://"), Key=key, Body=b"")
    assert paths(store, "landing") == ["landing/empty", "landing/night"]
    assert paths(store, "landing", recursive=True) == ["landing/night/a.parquet"]
    assert [entry.path for entry in store.glob("landing/**")] == ["landing/night/a.parquet"]
    store.delete_tree("landing")
    assert paths(store) == []


def test_a_tree_is_deleted_in_few_requests(store: Storage, proxy: Proxy) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: store.write(f"tree/{number % 7}/{number}", b"."), range(300)))
    proxy.clear()
    store.delete_tree("tree")
    assert paths(store, recursive=True) == []
    methods = Counter(asked.method for asked in proxy.asked)
    assert methods["DELETE"] == 0
    assert methods["POST"] == 1, "it takes a thousand"


def test_parquet_is_read_by_footer_and_needed_columns(store: Storage, proxy: Proxy) -> None:
    rng = np.random.default_rng(1)
    table = pa.table({f"column{n}": rng.uniform(size=100_000) for n in range(10)})
    with store.open("t.parquet", "wb") as file:
        pq.write_table(table, file, row_group_size=50_000)
    size = store.entry("t.parquet").size
    proxy.clear()
    fragment = ds.ParquetFileFormat().make_fragment(store.arrow_path("t.parquet"), store.arrow_filesystem())
    read = fragment.to_table(columns=["column3", "column4"])
    assert read.equals(table.select(["column3", "column4"]))
    gets = [asked for asked in proxy.asked if asked.method == "GET"]
    assert len(gets) == 3, "a footer, and one run of column chunks in each row group"
    assert all(asked.status == 206 for asked in gets)
    assert sum(asked.bytes for asked in gets) < size * 2 / 10 + (80 << 10)


def test_a_file_read_from_start_to_end_comes_in_large_pieces(store: Storage, proxy: Proxy) -> None:
    content = os.urandom(20 << 20)
    store.write("large", content)
    proxy.clear()
    with store.open("large") as file:
        pieces = iter(lambda: file.read(1 << 20), b"")
        assert b"".join(pieces) == content
    assert 2 <= sum(asked.method == "GET" for asked in proxy.asked) <= 4


def test_whether_a_file_is_there_is_asked_once(store: Storage, proxy: Proxy) -> None:
    store.write("file", b"content")
    store.write("empty", b"")
    store.write("folder/file", b"content")
    for name, found in (("file", True), ("empty", True), ("folder", False), ("nothing", False)):
        proxy.clear()
        assert store.is_file(name) is found
        assert len(proxy.asked) == 1
        assert not found or proxy.asked[0].bytes <= 1 or proxy.asked[0].status == 416


def test_a_file_whose_size_is_known_is_read_without_asking(store: Storage, proxy: Proxy) -> None:
    with store.open("t.parquet", "wb") as file:
        pq.write_table(pa.table({"id": range(100)}), file)
    size = store.entry("t.parquet").size
    proxy.clear()
    with store.arrow_file("t.parquet", size) as opened:
        assert pq.read_metadata(opened).num_rows == 100
    assert [asked.method for asked in proxy.asked] == ["GET"]


@pytest.mark.parametrize("difference", [-1, 1])
def test_a_file_that_has_another_size_than_is_known_is_not_read(store: Storage, difference: int) -> None:
    with store.open("t.parquet", "wb") as file:
        pq.write_table(pa.table({"id": range(100)}), file)
    size = store.entry("t.parquet").size
    with (
        pytest.raises((StorageError, pa.ArrowInvalid)),
        store.arrow_file("t.parquet", size + difference) as opened,
    ):
        pq.read_table(opened)


def test_a_lost_answer_of_a_commit_is_a_commit(store: Storage, proxy: Proxy) -> None:
    log = committed(store, 1)
    lost = proxy.drop_answers("PUT", r"00000002\.json", times=math.inf)
    ours = write_id_of(2)
    assert log.commit(2, metadata(2, ours), ours) == "committed"
    assert lost.met >= 1
    other = write_id_of(3)
    assert VersionLog(store).commit(2, metadata(2, other), other) == "conflict"
    assert log.numbers() == [1, 2]


def test_a_lost_answer_looks_like_a_taken_name(store: Storage, proxy: Proxy) -> None:
    """This is why a commit that is answered "exists" is read: the client asks again by itself."""
    proxy.drop_answers("PUT", "name")
    assert store.create("name", b"ours") is False
    assert [(asked.status, asked.fault) for asked in proxy.asked] == [(200, "dropped"), (412, "")]


def test_a_name_that_others_ask_for_at_the_same_time_is_asked_for_again(store: Storage, proxy: Proxy) -> None:
    refused = proxy.refuse("PUT", "name", status=409, code="ConditionalRequestConflict", times=2)
    assert store.create("name", b"ours") is True
    assert refused.met == 2


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """New clients ask twice, not five times with longer and longer pauses."""
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "2")


@pytest.mark.usefixtures("impatient")
def test_a_store_that_fails_is_told_and_tried_again(store: Storage, proxy: Proxy) -> None:
    proxy.refuse("PUT", "name", status=500, times=math.inf)
    with pytest.raises(StorageError, match=r"/name: could not be written .*InternalError") as raised:
        store.write("name", b".")
    assert raised.value.retryable
    assert [asked.method for asked in proxy.asked].count("PUT") == 2


def test_a_file_that_is_replaced_while_it_is_read_is_told(store: Storage) -> None:
    store.write("file", os.urandom(20 << 20))
    with store.open("file") as file:
        file.read(10)
        store.write("file", os.urandom(9 << 20))
        with pytest.raises(StorageError, match=r"replaced meanwhile|could not be read"):
            file.read()


def test_symbolic_links_are_not_tried_and_links_are_copies_by_the_server(
    store: Storage, proxy: Proxy
) -> None:
    store.write("a", b"content")
    proxy.clear()
    assert store.link("a", "b") is False
    assert not any(asked.bytes for asked in proxy.asked if asked.method == "GET")
    assert store.read("b") == b"content"
    assert store.symlink("current", "a") is False


READS: dict[str, Callable[[Storage], Any]] = {
    "read": lambda storage: storage.read("a"),
    "open": lambda storage: storage.open("a"),
    "exists": lambda storage: storage.exists("a"),
    "is file": lambda storage: storage.is_file("a"),
    "list": lambda storage: storage.list(),
    "list all": lambda storage: storage.list(recursive=True),
    "glob": lambda storage: storage.glob("*.parquet"),
    "deep glob": lambda storage: storage.glob("night=*/*.parquet"),
    "pyarrow": lambda storage: pq.read_metadata(
        storage.arrow_path("a"), filesystem=storage.arrow_filesystem()
    ),
}
WRITES: dict[str, Callable[[Storage], Any]] = {
    "write": lambda storage: storage.write("a", b"."),
    "create": lambda storage: storage.create("a", b"."),
    "check": lambda storage: storage.check_writable(),
    "link": lambda storage: storage.link("a", "b"),
    "block": lambda storage: _write_block(storage),
}


def _write_block(storage: Storage) -> None:
    with storage.open("a", "wb") as file:
        file.write(b".")


def _refused(storage: Storage, says: str) -> None:
    for actions, kind in ((READS, NotReadableError), (WRITES, NotWritableError)):
        for name, act in actions.items():
            with pytest.raises(kind, match=says) as raised:
                act(storage)
            assert storage.root in str(raised.value), name
            assert not raised.value.retryable, name


def test_a_missing_bucket_is_told(s3_server: S3Server) -> None:
    _refused(
        Storage.at("s3://nobody-made-this-bucket/x"), "the bucket does not exist; make it, or correct the URI"
    )


@pytest.mark.parametrize(
    "wrong",
    [{"key": "AKIANOBODYHASTHISKEY"}, {"secret": "of somebody else"}],
    ids=["unknown key", "wrong secret"],
)
def test_wrong_credentials_are_told(guarded: S3Server, wrong: dict[str, str]) -> None:
    right = {"key": guarded.key, "secret": guarded.secret, "endpoint": guarded.endpoint}
    storage = Storage.at(f"s3://{guarded.make_bucket()}/x")
    with asked_as(StoreAccess(**right)):
        storage.write("a", b"content")
    with asked_as(StoreAccess(**{**right, **wrong})):
        _refused(storage, r"check the credentials \(HIPSLAKE_STORAGE_CONN, or AWS_...\)")
    with asked_as(StoreAccess(**right)):
        assert storage.read("a") == b"content"


@pytest.mark.parametrize("name", ["a~b", "a b", "a*b", "a+b", "é%20", "a=b&c?d#e", "a;b,c@d:e!$'()"])
def test_requests_for_any_name_are_signed(guarded: S3Server, name: str) -> None:
    right = {"key": guarded.key, "secret": guarded.secret, "endpoint": guarded.endpoint}
    with asked_as(StoreAccess(**right)):
        storage = Storage.at(f"s3://{guarded.make_bucket()}/{name}")
        storage.write(f"x/{name}", b"content")
        storage.copy(f"x/{name}", "x/other")
        assert paths(storage, "x") == sorted([f"x/{name}", "x/other"])
        assert paths(storage, recursive=True) == sorted([f"x/{name}", "x/other"])
        assert storage.read(f"x/{name}") == storage.read_tail("x/other", 99) == b"content"
        storage.delete_tree("x")
        assert paths(storage, recursive=True) == []


def test_no_credentials_at_all_are_told(guarded: S3Server) -> None:
    (message,) = in_processes(_without_credentials, [(guarded.endpoint,)])
    assert "NotReadableError" in message
    assert "HIPSLAKE_STORAGE_CONN" in message


def _without_credentials(endpoint: str) -> str:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ |= {"AWS_ENDPOINT_URL_S3": endpoint, "AWS_EC2_METADATA_DISABLED": "true"}
    os.environ |= dict.fromkeys(("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"), os.devnull)
    try:
        Storage.at("s3://bucket").read("a")
    except StorageError as error:
        return repr(error)
    return "no error"


@pytest.mark.usefixtures("impatient")
def test_a_store_that_is_not_there_is_told() -> None:
    with (
        asked_as(StoreAccess(key="a", secret="b", endpoint="http://127.0.0.1:9")),
        pytest.raises(StorageError, match=r"s3://bucket/a: could not be read .*127\.0\.0\.1:9") as raised,
    ):
        Storage.at("s3://bucket").read("a")
    assert raised.value.retryable
