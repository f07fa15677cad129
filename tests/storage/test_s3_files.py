"""What is particular to S3: uploads in parts, what obstore cannot do, processes that were forked, regions."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hipslake.errors import NotReadableError, NotWritableError, StorageError, StoreTimeoutError
from hipslake.storage import object_writer, objects, s3_client, s3_files
from hipslake.storage.access import StoreAccess, asked_as
from hipslake.storage.folder import Storage
from hipslake.storage.objects import ObjectFiles
from hipslake.storage.s3_files import S3Files
from hipslake.storage.s3_settings import StaticKeys
from hipslake.storage.timeouts import limited

from tests.airflow_home import PROJECT
from tests.processes import in_processes
from tests.stores.proxy import Proxy, running_proxy
from tests.stores.ranges import read_ranges
from tests.stores.s3_server import REGION, S3Server

PART = object_writer.PART_BYTES


@pytest.fixture
def store(s3_server: S3Server) -> Storage:
    return Storage.at(f"s3://{s3_server.make_bucket()}")


@pytest.fixture
def proxy(s3_server: S3Server) -> Iterator[Proxy]:
    with running_proxy(s3_server.endpoint) as proxy, asked_as(StoreAccess(endpoint=proxy.endpoint)):
        yield proxy


@pytest.fixture
def no_fsspec(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client of fsspec fails."""

    def fail(*_: Any) -> None:
        raise AssertionError("fsspec was asked")

    monkeypatch.setattr(ObjectFiles, "__init__", fail)


@pytest.fixture
def by_fsspec(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The methods that fsspec's client was asked for."""
    asked: list[str] = []

    class Noted(ObjectFiles):
        def __getattribute__(self, name: str) -> Any:
            if not name.startswith("_"):
                asked.append(name)
            return super().__getattribute__(name)

    monkeypatch.setattr(objects, "ObjectFiles", Noted)
    return asked


def bucket_of(storage: Storage) -> str:
    return storage.root.removeprefix("s3://")


def uploads(storage: Storage, server: S3Server) -> list[Any]:
    """Those in parts that were begun and not ended."""
    return list(server.client().list_multipart_uploads(Bucket=bucket_of(storage)).get("Uploads", []))


@pytest.mark.usefixtures("no_fsspec")
def test_common_operations_do_not_need_fsspec(store: Storage) -> None:
    store.write("a", b"content")
    with store.open("b", "wb") as file:
        file.write(b"1")
    with store.creating("c") as file:
        file.write(b"2")
    store.create("d/e", b"3")
    store.copy("a", "f")
    assert store.read("f") == store.open("a").read() == store.arrow_file("a").read() == b"content"
    assert [entry.path for entry in store.list(recursive=True)] == ["a", "b", "c", "d/e", "f"]
    assert [entry.path for entry in store.glob("*/*")] == ["d/e"]
    assert store.entry("d").is_dir
    assert store.mark_of("c")
    assert store.is_same_file("a", "f")
    assert not store.is_same_file("a", "b")
    store.delete("a")
    store.delete_tree("d")
    assert [entry.path for entry in store.list()] == ["b", "c", "f"]


@pytest.mark.parametrize("size", [PART - 1, PART, PART + 1, 3 * PART, 3 * PART + 12345])
def test_a_large_file_goes_in_parts(store: Storage, proxy: Proxy, size: int) -> None:
    content = os.urandom(size)
    view = memoryview(content)
    with store.open("large", "wb") as file:
        for at in range(0, size, 3 << 20):
            file.write(view[at : at + (3 << 20)])
        assert file.tell() == size
        assert not store.exists("large")
    assert store.read("large") == content
    puts = [asked.path for asked in proxy.asked if asked.method == "PUT"]
    assert len(puts) == (1 if size < PART else -(-size // PART))
    assert all("partNumber" in path for path in puts) is (size >= PART)


def test_parts_are_sent_while_more_is_written(store: Storage, proxy: Proxy) -> None:
    with store.open("large", "wb") as file:
        file.write(bytes(2 * PART))
        end = time.monotonic() + 20
        while not any("partNumber" in asked.path for asked in proxy.asked):
            assert time.monotonic() < end, "nothing was sent"
            time.sleep(0.01)
        file.write(b"more")


def _write(store: Storage, parts: list[bytes], error: Exception | None = None) -> None:
    with store.open("large", "wb") as file:
        for part in parts:
            file.write(part)
        if error is not None:
            raise error


@pytest.mark.parametrize("size", [10, PART + 1, 4 * PART])
def test_of_a_block_that_fails_nothing_is_left(store: Storage, s3_server: S3Server, size: int) -> None:
    store.write("large", b"before")
    with pytest.raises(KeyError, match="of the block"):
        _write(store, [bytes(size)], KeyError("of the block"))
    assert store.read("large") == b"before"
    assert uploads(store, s3_server) == []


def test_of_an_upload_that_the_store_refuses_nothing_is_left(
    store: Storage, s3_server: S3Server, proxy: Proxy
) -> None:
    proxy.refuse("PUT", "partNumber=2", status=403, code="AccessDenied", times=9)
    with pytest.raises(NotWritableError, match="AccessDenied"):
        _write(store, [bytes(PART)] * 8)
    assert not store.exists("large")
    assert uploads(store, s3_server) == []


def test_a_part_that_fails_is_sent_again(store: Storage, proxy: Proxy) -> None:
    refused = proxy.refuse("PUT", "partNumber=1", status=503, code="SlowDown", times=2)
    content = os.urandom(PART + 5)
    with store.open("large", "wb") as file:
        file.write(content)
    assert refused.met == 2
    assert store.read("large") == content


def test_an_object_that_is_too_large_to_be_sent_while_it_is_written_is_told(
    store: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_writer, "MOST_BYTES", 100)
    with pytest.raises(StorageError, match="too much for one that is sent"), store.open("a", "wb") as file:
        file.write(bytes(101))
    assert not store.exists("a")


def test_a_large_content_is_written_in_parts(store: Storage, proxy: Proxy, monkeypatch: Any) -> None:
    monkeypatch.setattr(s3_files, "MOST_AT_ONCE", PART)
    content = os.urandom(2 * PART + 1)
    store.write("a", content)
    assert store.read("a") == content
    assert sum("partNumber" in asked.path for asked in proxy.asked) == 3


def test_a_large_new_object_is_created_by_fsspec_unless_its_name_is_taken(
    store: Storage, by_fsspec: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_files, "MOST_AT_ONCE", 10)
    with store.creating("a", (marks := []).append) as file:
        file.write(b"more than ten bytes")
    assert by_fsspec[0] == "create_marked"
    assert store.read("a") == b"more than ten bytes"
    assert store.mark_of("a") == marks[0]
    with pytest.raises(NotWritableError, match="exists"), store.creating("a") as file:
        file.write(b"others than these")
    assert store.read("a") == b"more than ten bytes"


def test_names_that_obstore_cannot_say_are_asked_for_by_fsspec(
    store: Storage, s3_server: S3Server, by_fsspec: list[str]
) -> None:
    client, bucket = s3_server.client(), bucket_of(store)
    for key in ("odd//file", "odd/control\x01", "plain/file"):
        client.put_object(Bucket=bucket, Key=key, Body=key.encode())
    assert Storage.at(f"s3://{bucket}/odd//").uri("file") == f"s3://{bucket}/odd/file"
    assert Storage(f"s3://{bucket}/odd//").read("file") == b"odd//file"
    assert store.read("odd/control\x01") == b"odd/control\x01"
    assert store.exists("odd/control\x01")
    assert "odd/control\x01" in [entry.path for entry in store.list("odd")]
    assert len(store.list("odd", recursive=True)) == 2
    by_fsspec.clear()
    assert [entry.path for entry in store.list("plain")] == ["plain/file"]
    assert by_fsspec == []
    client.delete_object(Bucket=bucket, Key="odd/control\x01")  # which no list of names in XML can hold
    store.delete_tree("odd")
    assert [entry.path for entry in store.list(recursive=True)] == ["plain/file"]


def test_empty_files_are_told_from_markers_of_folders(store: Storage, s3_server: S3Server) -> None:
    client, bucket = s3_server.client(), bucket_of(store)
    for key in ("at/", "at/empty", "at/marked/", "at/both", "at/both/", "at/none/", "at/none", "at/marked/x"):
        client.put_object(Bucket=bucket, Key=key, Body=b"1" if key == "at/both" else b"")
    found = [(entry.path, entry.size) for entry in store.list("at", recursive=True)]
    assert found == [("at/both", 1), ("at/empty", 0), ("at/marked/x", 0), ("at/none", 0)]
    store.delete_tree("at")
    assert client.list_objects_v2(Bucket=bucket)["KeyCount"] == 0


def test_a_listing_goes_on_where_it_failed(store: Storage, s3_server: S3Server, proxy: Proxy) -> None:
    for number in range(25):
        s3_server.client().put_object(Bucket=bucket_of(store), Key=f"at/{number:02}", Body=b"1")
    proxy.page = 10
    refused = proxy.refuse("GET", "continuation-token", status=503, code="SlowDown", times=1)
    with mock.patch("hipslake.storage.s3_requests._PAGE", 10):
        assert [entry.path for entry in store.list("at", recursive=True)] == [f"at/{n:02}" for n in range(25)]
    assert refused.met == 1
    assert any("start-after" in asked.path for asked in proxy.asked)


def test_a_store_that_deletes_no_several_objects_at_once_deletes_them_one_by_one(
    store: Storage, proxy: Proxy
) -> None:
    for name in "abc":
        store.write(f"at/{name}", b"1")
    proxy.refuse("POST", r"\?delete", status=501, code="NotImplemented", times=99)
    store.delete("at/a")
    store.delete_tree("at")
    assert store.list(recursive=True) == []


def test_an_object_that_may_not_be_deleted_is_told(store: Storage, proxy: Proxy) -> None:
    answer = b"""<?xml version="1.0"?><DeleteResult><Error><Key>a</Key><Code>AccessDenied</Code>
    <Message>not yours</Message></Error></DeleteResult>"""
    proxy.fail("POST", r"\?delete", status=200, body=answer)
    with pytest.raises(NotWritableError, match="AccessDenied: not yours"):
        store.delete("a")


def test_many_requests_are_made_side_by_side_and_no_more_than_some(store: Storage, proxy: Proxy) -> None:
    lock, under_way, most = threading.Lock(), [0], [0]

    def watch(method: str, path: str) -> None:
        with lock:
            under_way[0] += 1
            most[0] = max(most[0], under_way[0])
        time.sleep(0.05)
        with lock:
            under_way[0] -= 1

    files = {f"at/{number}": f"{number:04}".encode() for number in range(100)}
    proxy.watch = watch
    store.write_all(files)
    assert 4 < most[0] <= s3_client.AT_ONCE
    proxy.clear()
    store.delete_all([*files])
    assert [asked.method for asked in proxy.asked] == ["POST"]
    assert store.list("at") == []


@pytest.mark.parametrize("silent", [False, True])
def test_of_requests_side_by_side_one_that_fails_is_told(store: Storage, proxy: Proxy, silent: bool) -> None:
    store.write_all({f"at/{number}": b"content" for number in range(60)})
    asked = [(f"at/{number}", 0, 3) for number in range(60)]
    if silent:
        proxy.delay("GET", "at/37$", seconds=6, times=9)
        told = r"at/37: .*1\.5 s .*, 2 times"  # which others take only where the machine is very busy
        with limited(read=1.5, tries=2), pytest.raises(StoreTimeoutError, match=told):
            read_ranges(store, asked)
    else:
        proxy.refuse("GET", "at/37$", status=403, code="AccessDenied", times=9)
        with pytest.raises(NotReadableError, match="at/37: AccessDenied"):
            read_ranges(store, asked)
    store.delete("at/59")
    with pytest.raises(FileNotFoundError):
        read_ranges(store, [each for each in asked if each[0] != "at/37"])


def test_a_process_that_was_forked_from_one_with_obstore_is_served_by_fsspec(store: Storage) -> None:
    store.write("a", b"1")
    assert s3_client.is_usable()
    assert in_processes(_usable_and_read, [(store,)]) == [(False, b"1")]


def _usable_and_read(storage: Storage) -> tuple[bool, bytes]:
    return s3_client.is_usable(), storage.read("a")


def test_processes_that_were_forked_before_obstore_was_used_have_it(store: Storage) -> None:
    """As Spark's workers are, from a daemon that has imported the library."""
    program = f"""
import os, sys
import hipslake.spark.daemon, hipslake.storage.s3_files
from hipslake.storage import s3_client
from hipslake.storage.folder import Storage

storage = Storage.at({store.root!r})
for name in "abc":
    if os.fork() == 0:
        storage.write(name, name.encode())
        os._exit(0 if s3_client.is_usable() and storage.read(name) == name.encode() else 1)
assert [os.wait()[1] for _ in "abc"] == [0, 0, 0]
assert len(storage.list()) == 3 and s3_client.is_usable()
"""
    path = {"PYTHONPATH": f"{PROJECT}/include"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        timeout=60,
        env={**os.environ, **path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_a_bucket_in_another_region_is_asked_for_by_fsspec(
    store: Storage, s3_server: S3Server, proxy: Proxy, by_fsspec: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """botocore finds the region. Here obstore is led to a proxy that says so, as Amazon would."""
    store.write("a", b"1")
    bucket = bucket_of(store)
    monkeypatch.setattr(s3_files, "_elsewhere", set())
    address = mock.Mock(return_value=(proxy.endpoint, False))
    keys = StaticKeys("any", "any-secret", None)
    amazons = mock.Mock(
        endpoint=None, address=address, region=REGION, keys=keys, authorities=None, attempts=5
    )
    proxy.refuse("GET", "/a", status=301, code="PermanentRedirect", times=9)
    with (
        mock.patch.object(S3Files, "_settings", amazons),
        asked_as(StoreAccess(endpoint=s3_server.endpoint)),
    ):
        assert store.read("a") == b"1"
        assert by_fsspec == ["read"]
        proxy.clear()
        assert store.read("a") == b"1"
        assert proxy.asked == []
        assert s3_files._elsewhere == {bucket}
        for doing in _REDIRECTED.values():
            s3_files._elsewhere.clear()
            proxy.refuse("", "/", status=301, code="PermanentRedirect", times=1)
            doing(store)
    assert [entry.path for entry in store.list(recursive=True)] == ["a", "b", "c", "d"]


_REDIRECTED: dict[str, Callable[[Storage], Any]] = {
    "ranges": lambda storage: read_ranges(storage, [("a", 0, 1)] * 3),
    "write all": lambda storage: storage.write_all({"b": b"1", "c": b"1"}),
    "block": lambda storage: _write(storage, [b"1"]),
    "creating": lambda storage: _create(storage, "d"),
    "delete all": lambda storage: storage.delete_all(["large", "other"]),
}


def _create(storage: Storage, path: str) -> None:
    with storage.creating(path) as file:
        file.write(b"1")


def test_where_the_endpoint_is_set_a_redirect_is_an_error(store: Storage, proxy: Proxy) -> None:
    proxy.refuse("GET", "/a", status=301, code="PermanentRedirect", times=9)
    with pytest.raises(StorageError, match="another region"):
        store.read("a")


def test_copies_that_are_too_large_for_one_request_are_made_by_fsspec(
    store: Storage, proxy: Proxy, by_fsspec: list[str]
) -> None:
    store.write("a", b"1")
    proxy.refuse("PUT", "/b$", status=400, code="InvalidRequest")
    store.copy("a", "b")
    assert by_fsspec == ["copy"]
    assert store.read("b") == b"1"


def test_a_certificate_that_is_no_file_is_told(store: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CA_BUNDLE", f"{Path(__file__).parent}/missing.pem")
    with pytest.raises(StorageError, match=r"certificates of AWS_CA_BUNDLE .*missing\.pem"):
        store.read("a")
