"""The proxy of the store benchmark changes nothing but the time that requests take, and counts them."""

from __future__ import annotations

import hashlib
import http.client
import io
import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.idle_client import is_asleep
from benchmarks.proxy_connections import ChunkedEnd
from benchmarks.store_proxy import StoreProxy, running_proxy
from benchmarks.store_requests import counted, kind_of, round_trips
from tests.stores.s3_server import S3Server, running_s3

MIB = 1 << 20


@pytest.fixture(scope="module")
def stores() -> Iterator[tuple[S3Server, StoreProxy]]:
    """A server that checks signatures, and a proxy before it."""
    with (
        running_s3(guarded=True) as server,
        running_proxy(server.endpoint.removeprefix("http://")) as proxy,
    ):
        yield server, proxy


@pytest.fixture
def proxy(stores: tuple[S3Server, StoreProxy]) -> StoreProxy:
    stores[1].set()
    stores[1].take()
    return stores[1]


@pytest.fixture
def client(stores: tuple[S3Server, StoreProxy]) -> Any:
    return replace(stores[0], endpoint=stores[1].endpoint).client()


@pytest.fixture
def bucket(stores: tuple[S3Server, StoreProxy]) -> str:
    return stores[0].make_bucket()


def test_bytes_pass_as_they_are_in_both_directions(
    stores: tuple[S3Server, StoreProxy], proxy: StoreProxy, client: Any, bucket: str
) -> None:
    direct = stores[0].client()
    for size in (0, 1, 65_537, 5 * MIB + 3):
        data = os.urandom(size)
        client.put_object(Bucket=bucket, Key=f"to/{size}", Body=data)
        assert direct.get_object(Bucket=bucket, Key=f"to/{size}")["Body"].read() == data
        assert client.get_object(Bucket=bucket, Key=f"to/{size}")["Body"].read() == data
        found = proxy.take().asked
        assert [kind_of(each) for each in found] == ["put", "get"]
        assert (found[0].sent, found[1].received) == (size, size)


def test_ranges_and_heads_pass(proxy: StoreProxy, client: Any, bucket: str) -> None:
    data = os.urandom(300_000)
    client.put_object(Bucket=bucket, Key="a", Body=data)
    for span, wanted in {
        "bytes=5-9": data[5:10],
        "bytes=-7": data[-7:],
        "bytes=299990-400000": data[299_990:],
    }.items():
        answer = client.get_object(Bucket=bucket, Key="a", Range=span)
        assert answer["Body"].read() == wanted
        assert answer["ResponseMetadata"]["HTTPStatusCode"] == 206
    assert client.head_object(Bucket=bucket, Key="a")["ContentLength"] == len(data)
    told = proxy.take()
    assert counted(told.asked) == {"range": 3, "put": 1, "head": 1}
    assert [each.range for each in told.asked[1:3]] == ["bytes=5-9", "bytes=-7"]
    assert told.asked[-1].received == 0


def test_multipart_uploads_copies_lists_and_deletes_pass(proxy: StoreProxy, client: Any, bucket: str) -> None:
    data = os.urandom(11 * MIB)
    parts = TransferConfig(multipart_threshold=MIB, multipart_chunksize=5 * MIB, max_concurrency=3)
    client.upload_fileobj(io.BytesIO(data), bucket, "large", Config=parts)
    client.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": "large"})
    got = client.get_object(Bucket=bucket, Key="large")["Body"].read()
    assert hashlib.sha256(got).digest() == hashlib.sha256(data).digest()
    listed = client.list_objects_v2(Bucket=bucket)["Contents"]
    assert [each["Key"] for each in listed] == ["copy", "large"]
    client.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "copy"}, {"Key": "large"}]})
    told = proxy.take().asked
    assert counted(told) == {"multipart": 5, "copy": 1, "get": 1, "list": 1, "delete": 1}
    assert sum(each.sent for each in told if each.method == "PUT") >= len(data)


def test_errors_pass_and_are_counted(proxy: StoreProxy, client: Any, bucket: str) -> None:
    client.put_object(Bucket=bucket, Key="taken", Body=b"first")
    for ask, status, code in (
        (lambda: client.get_object(Bucket=bucket, Key="none"), 404, "NoSuchKey"),
        (lambda: client.put_object(Bucket=bucket, Key="taken", Body=b"x", IfNoneMatch="*"), 412, ""),
    ):
        with pytest.raises(ClientError) as refused:
            ask()
        assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == status
        assert code in refused.value.response["Error"]["Code"]
        assert proxy.take().asked[-1].status == status
    assert client.get_object(Bucket=bucket, Key="taken")["Body"].read() == b"first"


def test_a_wrong_signature_is_refused_by_the_server(stores: tuple[S3Server, StoreProxy], bucket: str) -> None:
    """What passes above passes because it is signed rightly."""
    wrong = replace(stores[0], endpoint=stores[1].endpoint, secret="not-the-secret").client()
    with pytest.raises(ClientError) as refused:
        wrong.list_objects_v2(Bucket=bucket)
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403


def test_every_request_waits_and_those_side_by_side_wait_together(
    proxy: StoreProxy, client: Any, bucket: str
) -> None:
    client.put_object(Bucket=bucket, Key="a", Body=b"x")
    proxy.take()
    proxy.set(latency=0.1)
    began = time.monotonic()
    for _ in range(5):
        client.head_object(Bucket=bucket, Key="a")
    assert time.monotonic() - began >= 0.5
    told = proxy.take().asked
    assert all(each.ended - each.began >= 0.1 for each in told)
    assert round_trips(told) == 5
    proxy.set(latency=0.5)
    threads = [
        threading.Thread(target=client.head_object, kwargs={"Bucket": bucket, "Key": "a"}) for _ in range(5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(told := proxy.take().asked) == 5
    assert round_trips(told) < 5


def test_requests_wait_until_a_client_that_is_kept_busy_has_sent_all(
    proxy: StoreProxy, client: Any, bucket: str
) -> None:
    client.put_object(Bucket=bucket, Key="a", Body=b"x")
    proxy.take()
    proxy.set(client=os.getpid())

    def head(times: int) -> None:
        ended = time.monotonic() + 0.3
        while time.monotonic() < ended:
            pass
        for _ in range(times):
            client.head_object(Bucket=bucket, Key="a")

    head(3)
    assert round_trips(proxy.take().asked) == 3
    threads = [threading.Thread(target=head, args=(1 + at,)) for at in range(3)]
    for thread in threads:
        thread.start()
        time.sleep(0.1)
    for thread in threads:
        thread.join()
    assert len(told := proxy.take().asked) == 6
    assert round_trips(told) == 3


def test_a_process_that_runs_is_not_asleep() -> None:
    for work, sleeps in (("import time; time.sleep(60)", True), ("while True: pass", False)):
        with subprocess.Popen([sys.executable, "-c", work]) as process:
            try:
                time.sleep(1)
                assert [is_asleep(process.pid) for _ in range(20)] == [sleeps] * 20
            finally:
                process.kill()
        assert is_asleep(process.pid)


def test_bandwidth_is_shared_by_all_connections(proxy: StoreProxy, client: Any, bucket: str) -> None:
    client.put_object(Bucket=bucket, Key="a", Body=os.urandom(2 * MIB))
    proxy.set(bandwidth=4 * MIB)
    gets = [
        threading.Thread(target=lambda: client.get_object(Bucket=bucket, Key="a")["Body"].read())
        for _ in range(2)
    ]
    began = time.monotonic()
    for each in gets:
        each.start()
    for each in gets:
        each.join()
    assert time.monotonic() - began >= 0.95


def test_the_end_of_a_proxy_is_the_end_of_its_process() -> None:
    with running_proxy("127.0.0.1:9") as proxy:
        host, port = proxy.endpoint.removeprefix("http://").split(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=10)
        connection.request("GET", "/lake")
        assert connection.getresponse().status == 502  # nobody listens at the port of the server
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=10)


@contextmanager
def answering(serve: Callable[[socket.socket], None]) -> Iterator[StoreProxy]:
    """A proxy before a server that deals with its connections, one after the other, as it is told."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def run() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    serve(connection)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        with running_proxy(f"127.0.0.1:{listener.getsockname()[1]}") as proxy:
            yield proxy
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(10)


def asking(proxy: StoreProxy) -> http.client.HTTPConnection:
    host, port = proxy.endpoint.removeprefix("http://").split(":")
    return http.client.HTTPConnection(host, int(port), timeout=10)


def read_head(connection: socket.socket) -> bytes:
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += connection.recv(1) or b"\r\n\r\n"
    return head


def test_answers_in_chunks_pass_whole_and_the_connection_goes_on() -> None:
    body = [os.urandom(size) for size in (1, 3000, 17)]
    chunks = b"".join(b"%x;name=value\r\n%s\r\n" % (len(each), each) for each in body)
    answer = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + chunks + b"0\r\nx-sum: 1\r\n\r\n"

    def serve(connection: socket.socket) -> None:
        for step in (1, 7, len(answer)):
            read_head(connection)
            for at in range(0, len(answer), step):
                connection.sendall(answer[at : at + step])

    with answering(serve) as proxy:
        connection = asking(proxy)
        for _ in range(3):
            connection.request("GET", "/lake/a")
            assert connection.getresponse().read() == b"".join(body)
        told = proxy.take()
        assert told.connections == 1
        assert [each.status for each in told.asked] == [200] * 3


def test_a_client_that_asks_first_waits_twice() -> None:
    bodies = []

    def serve(connection: socket.socket) -> None:
        assert b"Expect: 100-continue" in read_head(connection)
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        bodies.append(connection.recv(100))
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    with answering(serve) as proxy:
        proxy.set(latency=0.2)
        host, port = proxy.endpoint.removeprefix("http://").split(":")
        began = time.monotonic()
        with socket.create_connection((host, int(port)), timeout=10) as client:
            client.sendall(b"PUT /lake/a HTTP/1.1\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
            assert read_head(client).startswith(b"HTTP/1.1 100 Continue")
            assert time.monotonic() - began >= 0.2
            assert not bodies  # nothing is sent before the client may
            client.sendall(b"stars")
            assert read_head(client).startswith(b"HTTP/1.1 200 OK")
            assert time.monotonic() - began >= 0.4
        (asked,) = proxy.take().asked
        assert bodies == [b"stars"]
        assert asked.expects
        assert (asked.sent, asked.received, round_trips([asked])) == (5, 2, 2)


def test_an_answer_before_the_whole_body_came_ends_the_connection() -> None:
    def serve(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")
        connection.recv(1)

    with answering(serve) as proxy:
        connection = asking(proxy)
        connection.putrequest("PUT", "/lake/a")
        connection.putheader("Content-Length", "1000000")
        connection.endheaders()
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (403, b"no")
        assert connection.sock is not None
        assert connection.sock.recv(1) == b""  # no other request can follow
        assert [each.status for each in proxy.take().asked] == [403]


def test_a_connection_that_the_server_ends_or_cuts_off_ends_for_the_client() -> None:
    answers = iter(
        [
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
            b"",
        ]
    )

    def serve(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(next(answers))

    with answering(serve) as proxy:
        connection = asking(proxy)
        connection.request("GET", "/lake/a")
        assert connection.getresponse().read() == b"ok"
        assert connection.sock is not None
        assert connection.sock.recv(1) == b""
        for wrong in (http.client.IncompleteRead, http.client.RemoteDisconnected):
            connection = asking(proxy)
            connection.request("GET", "/lake/a")
            with pytest.raises(wrong):
                connection.getresponse().read()
        assert [each.status for each in proxy.take().asked] == [200, 200, 0]


@given(
    sizes=st.lists(st.integers(1, 40), max_size=5),
    trailers=st.integers(0, 2),
    cuts=st.lists(st.integers(1, 12), max_size=60),
    after=st.binary(max_size=6),
)
def test_the_end_of_chunks_is_found_wherever_they_are_cut(
    sizes: list[int], trailers: int, cuts: list[int], after: bytes
) -> None:
    draws = random.Random(len(cuts))
    body = b"".join(b"%X\r\n%s\r\n" % (size, draws.randbytes(size)) for size in sizes)
    body += b"0\r\n" + b"x-trailer: 1\r\n" * trailers + b"\r\n"
    data, chunks, at = body + after, ChunkedEnd(), 0
    for cut in [*cuts, len(data)]:
        piece = data[at : at + cut]
        end = chunks.take(memoryview(piece))
        if end is not None:
            assert at + end == len(body)
            return
        at += len(piece)
        assert at < len(body)
    raise AssertionError("no end was found")
