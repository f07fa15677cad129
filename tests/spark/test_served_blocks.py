"""Blocks that executors serve to each other arrive as they were sent, or it is told that they do not."""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import secrets
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
from hipslake.engine.model import Block, Scratch
from hipslake.spark import served_blocks
from hipslake.spark.block_server import GONE, introduce
from hipslake.spark.engine import SparkEngine
from hipslake.spark.served_blocks import BlockServers, ThroughServers, may_serve
from hipslake.spark.transport import BlocksOutOfReachError
from pyspark import SparkConf
from pyspark.sql import SparkSession

from tests.spark.number_exchange import RESULT, SOURCES, TARGETS, assert_all_came, receive, send
from tests.spark.served_exchange import ServedExchange, until_gone


@pytest.fixture
def exchange(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServedExchange]:
    made = ServedExchange(tmp_path, monkeypatch)
    yield made
    made.end()
    assert not made.folders()


def until(is_so: Callable[[], bool], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


def batch(first: int, rows: int) -> pa.RecordBatch:
    numbers = list(range(first, first + rows))
    return pa.record_batch(
        {
            "n": pa.array(numbers, pa.int64()),
            "name": pa.array([None if n % 3 == 0 else f"star {n}" for n in numbers]),
            "band": pa.array([f"b{n % 4}" for n in numbers]).dictionary_encode(),
        }
    )


def test_blocks_of_all_executors_arrive_in_their_order(
    exchange: ServedExchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    disks = itertools.cycle([0, 0, 1, 1])
    monkeypatch.setattr(secrets, "randbelow", lambda number: next(disks) % number)
    rows = {(source, target): batch(100 * source + target, 7) for source in range(5) for target in (0, 9, 31)}
    payloads = {}
    for source in range(5):
        mine = {target: block for (of, target), block in rows.items() if of == source}
        sent = exchange.sent("ab"[source % 2], source, mine)
        payloads |= {(source, target): payload for target, payload in zip(mine, sent, strict=True)}
    assert len(exchange.files()) == 15
    assert len({path.parents[2] for path in exchange.files()}) == 4  # all disks of both
    for executor in "abc":  # c has made no blocks, and has no server
        for order in (list(rows), list(rows)[::-1]):
            got = exchange.at(executor).unpacked([payloads[key] for key in order])
            assert [block.to_pylist() for block in got] == [rows[key].to_pylist() for key in order]
            assert all(block.schema == batch(0, 7).schema for block in got)


def test_thousands_of_blocks_of_one_file_and_hundreds_of_files(exchange: ServedExchange) -> None:
    with exchange.at("a").packing(0) as pack:
        payloads = [pack(3, batch(n, 1)) for n in range(3000)]
    for source in range(1, 200):
        payloads += exchange.sent("a", source, {3: batch(3000 + source, 2)})
    got = exchange.at("b").unpacked(payloads)
    firsts = [*range(3000), *range(3001, 3200)]
    assert [block.column("n")[0].as_py() for block in got] == firsts
    assert sum(block.num_rows for block in got) == 3000 + 2 * 199


def test_blocks_of_the_own_executor_are_read_from_its_disks(
    exchange: ServedExchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    payloads = exchange.sent("a", 0, {1: batch(0, 10)})

    def refused(*asked: object) -> None:
        raise AssertionError(asked)

    monkeypatch.setattr(socket, "create_connection", refused)
    assert exchange.at("a").unpacked(payloads)[0].to_pylist() == batch(0, 10).to_pylist()


def test_blocks_of_a_group_go_when_the_driver_says_so_and_all_at_the_end(exchange: ServedExchange) -> None:
    for executor, source in (("a", 0), ("b", 1)):
        exchange.sent(executor, source, {0: batch(0, 10), 31: batch(10, 10)})
    assert {path.parent.name for path in exchange.files()} == {"0", "15"}
    until(lambda: len(exchange.servers._connections) == 2)
    exchange.servers.free(0)
    until(lambda: {path.parent.name for path in exchange.files()} == {"15"})
    addresses = [exchange.address(executor) for executor in "ab"]
    exchange.end()
    assert not exchange.folders()
    for address in addresses:
        until_gone(address)


def test_servers_end_with_their_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However it ends: its connections are closed by the kernel then."""
    exchange = ServedExchange(tmp_path, monkeypatch)
    exchange.sent("a", 0, {0: batch(0, 10)})
    until(lambda: bool(exchange.servers._connections))
    address = exchange.address("a")
    for connection in exchange.servers._connections:
        connection.close()
    until(lambda: not exchange.files())
    until_gone(address)
    exchange.end()


def test_where_no_server_can_call_the_driver_blocks_travel_themselves(
    exchange: ServedExchange, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    exchange.end()
    payloads = exchange.sent("a", 0, {0: batch(0, 10), 5: batch(10, 20)})
    assert "they go through the shuffle" in caplog.text
    assert "ConnectionRefusedError" in caplog.text
    caplog.clear()
    payloads += exchange.sent("a", 1, {0: batch(30, 1)})
    assert not caplog.text  # it is not tried again
    got = exchange.at("b").unpacked(payloads)
    assert [block.num_rows for block in got] == [10, 20, 1]
    assert not exchange.files()
    assert not exchange.folders()


def test_an_executor_that_only_its_own_machine_could_call_starts_no_server(
    exchange: ServedExchange, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As where the name of the driver's machine stands for 127.0.1.1 on that machine."""
    name = socket.gethostname()
    try:
        address = socket.gethostbyname(name)
    except OSError:
        pytest.skip(f"{name} has no address")
    with ExitStack() as opened:
        servers = opened.enter_context(BlockServers("0.0.0.0", exchange.transport.token))
        exchange.transport = replace(exchange.transport, driver=(name, servers.port))
        payloads = exchange.sent("a", 0, {0: batch(0, 10)})
        if address.startswith("127."):
            assert "executors on other machines cannot call it" in caplog.text
            assert not exchange.files()
        else:
            assert exchange.address("a")[0] == address
        assert exchange.at("b").unpacked(payloads)[0].to_pylist() == batch(0, 10).to_pylist()
        opened.close()
    until(lambda: not exchange.folders())


def test_an_executor_that_does_not_know_its_disks_sends_its_blocks_themselves(
    exchange: ServedExchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport = exchange.at("a")
    monkeypatch.delenv("SPARK_LOCAL_DIRS")
    with transport.packing(0) as pack:
        payloads = [pack(0, batch(0, 10))]
    assert transport.unpacked(payloads) == [batch(0, 10)]


def failing(*asked: object) -> None:
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


def test_blocks_that_travel_themselves_meet_those_that_are_fetched(
    exchange: ServedExchange, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As from an executor whose disk knows no locks."""
    fetched = exchange.sent("a", 0, {0: batch(0, 10)})
    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", failing)
        whole = exchange.sent("b", 1, {0: batch(10, 10)})
    assert "Function not implemented" in caplog.text
    assert len(exchange.files()) == 1
    got = exchange.at("c").unpacked([*whole, *fetched, *whole])
    assert [block.column("n")[0].as_py() for block in got] == [10, 0, 10]


def listens_at(process: psutil.Process, port: int) -> bool:
    try:
        found = process.net_connections("tcp")
    except psutil.Error:  # it is not ours, or has ended
        return False
    return any(each.status == psutil.CONN_LISTEN and each.laddr.port == port for each in found)


def end_server(exchange: ServedExchange) -> None:
    port = exchange.address("a")[1]
    servers = [process for process in psutil.process_iter() if listens_at(process, port)]
    assert len(servers) == 1
    servers[0].kill()
    servers[0].wait(10)


def remove_files(exchange: ServedExchange) -> None:
    for path in exchange.files():
        path.unlink()


def cut_files(exchange: ServedExchange) -> None:
    for path in exchange.files():
        os.truncate(path, path.stat().st_size - 1)


@pytest.mark.parametrize("damage", [end_server, remove_files, cut_files])
def test_blocks_that_cannot_be_had_are_told(
    exchange: ServedExchange, damage: Callable[[ServedExchange], None]
) -> None:
    payloads = exchange.sent("a", 0, {0: batch(0, 10), 31: batch(10, 10)})
    damage(exchange)
    with pytest.raises(BlocksOutOfReachError, match=r"127\.0\.0\.1\|\d+: its blocks cannot be fetched"):
        exchange.at("b").unpacked(payloads)
    if damage is remove_files:
        with pytest.raises(BlocksOutOfReachError, match="of this executor are gone"):
            exchange.at("a").unpacked(payloads)
    remove_files(exchange)
    for folder in exchange.place.rglob(exchange.transport.name):
        folder.rename(folder.with_name("removed"))  # nobody else does, if its server has been killed


@pytest.mark.parametrize(
    "name", ["0/0/../../secret", "/etc/passwd", "0/0/secret", "0/address", "7/0/{}", "../0/0/{}", "x"]
)
def test_a_server_gives_out_nothing_but_blocks(exchange: ServedExchange, name: str) -> None:
    exchange.one_disk()
    exchange.sent("a", 0, {0: batch(0, 10)})
    [path] = exchange.files()
    (path.parent / "secret").write_text("secret")
    with socket.create_connection(exchange.address("a"), 10) as connection:
        asked = name.format(path.name)
        introduce(connection, exchange.transport.token)
        connection.sendall(f"{asked} 0 1\n".encode())
        assert connection.makefile("rb").read() == GONE
    with socket.create_connection(exchange.address("a"), 10) as connection:  # it goes on
        introduce(connection, exchange.transport.token)
        connection.sendall(f"0/0/{path.name} 0 4\n".encode())
        assert connection.makefile("rb").read(5) == b"+" + path.read_bytes()[:4]


@pytest.mark.parametrize(
    "said", [b"\n", b"0" * 32 + b" " + b"0" * 64 + b"\n", b"", b"x" * 100_000, b"\xff \n"]
)
@pytest.mark.parametrize("server", [True, False], ids=["a server", "the driver"])
def test_nobody_is_let_in_who_does_not_know_the_token(
    exchange: ServedExchange, server: bool, said: bytes
) -> None:
    exchange.one_disk()
    exchange.sent("a", 0, {0: batch(0, 10)})
    [path] = exchange.files()
    address = exchange.address("a") if server else ("127.0.0.1", exchange.servers.port)
    until(lambda: len(exchange.servers._connections) == 1)
    answer = b""
    # Whoever closes a connection with something unread resets it, and may be sooner.
    with socket.create_connection(address, 10) as connection, suppress(OSError):
        connection.sendall(said + f"0/0/{path.name} 0 4\n".encode())
        connection.shutdown(socket.SHUT_WR)
        while some := connection.recv(1000):
            answer += some
    assert len(answer) <= 33  # what it was to prove itself by
    assert exchange.transport.token.encode() not in answer
    assert len(exchange.servers._connections) == 1
    assert exchange.at("b").unpacked(exchange.sent("a", 1, {0: batch(3, 1)}))[0].num_rows == 1


@pytest.mark.parametrize("token", ["", "another"])
def test_blocks_are_taken_from_nobody_who_does_not_know_the_token(
    exchange: ServedExchange, token: str
) -> None:
    """As who listens now at the port of a server that is gone."""
    payloads = exchange.sent("a", 0, {0: batch(0, 10)})
    with BlockServers("127.0.0.1", token) as others:
        [payload] = [each.to_pybytes().decode() for each in payloads]
        there = payload.replace(f"|{exchange.address('a')[1]}/", f"|{others.port}/")
        with pytest.raises(BlocksOutOfReachError, match="cannot be fetched"):
            exchange.at("b").unpacked([pa.py_buffer(there.encode())])


def test_a_worker_that_finds_a_dead_server_sends_its_blocks_themselves(
    exchange: ServedExchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange.sent("a", 0, {0: batch(0, 10)})
    end_server(exchange)
    monkeypatch.setattr(served_blocks, "_seen", {})  # as in another worker
    payloads = exchange.sent("a", 1, {0: batch(7, 10)})
    assert len(exchange.files()) == 1
    assert exchange.at("b").unpacked(payloads)[0].column("n")[0].as_py() == 7
    for folder in exchange.folders():
        folder.rename(folder.with_name("removed"))


def test_where_one_worker_has_started_no_server_the_next_does_not_try(
    exchange: ServedExchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange.end()
    exchange.sent("a", 0, {0: batch(0, 10)})
    monkeypatch.setattr(served_blocks, "_without", set())  # as in another worker

    def refused(*asked: object, **more: object) -> None:
        raise AssertionError(asked)

    monkeypatch.setattr(subprocess, "run", refused)
    payloads = exchange.sent("a", 1, {0: batch(7, 10)})
    assert exchange.at("b").unpacked(payloads)[0].column("n")[0].as_py() == 7


def test_a_server_listens_where_an_administrator_has_its_executor(
    exchange: ServedExchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    for executor, host in (("a", "127.0.0.5"), ("b", "0.0.0.0"), ("c", "a-name")):
        monkeypatch.setenv("SPARK_LOCAL_IP", host)
        exchange.sent(executor, 0, {0: batch(0, 10)})
    assert [exchange.address(executor)[0] for executor in "abc"] == ["127.0.0.5", "127.0.0.1", "127.0.0.1"]


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("spark.app.name", "x", True),
        ("spark.network.crypto.enabled", "true", False),
        ("spark.network.crypto.enabled", "FALSE", True),
        ("spark.io.encryption.enabled", "True", False),
        ("spark.ssl.enabled", "true", False),
        ("spark.shuffle.service.enabled", "true", False),
        ("spark.storage.decommission.shuffleBlocks.enabled", "true ", False),
        ("spark.shuffle.manager", "org.example.Remote", False),
        ("spark.shuffle.sort.io.plugin.class", "org.example.Remote", False),
        ("spark.driver.blockManager.port", "7080", False),
        ("spark.blockManager.port", "7079", False),
        ("spark.blockManager.port", "0", True),
    ],
)
def test_what_is_left_to_spark(key: str, value: str, expected: bool) -> None:
    conf = SparkConf(loadDefaults=False).set(key, value)
    assert may_serve(conf, 1e9) is expected
    assert not may_serve(conf, 1e6)  # a process beside each executor costs more than that


@pytest.mark.parametrize("lost", ["never", "after the map tasks"])
def test_an_exchange_of_spark_goes_through_servers_or_if_blocks_are_lost_through_the_shuffle(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    monkeypatch.setattr(SparkEngine, "on_this_machine", False)
    seen = tmp_path / "seen"

    def reducer(target: int, blocks: list[Block]) -> Iterator[pa.RecordBatch]:
        for folder in os.environ["SPARK_LOCAL_DIRS"].split(","):
            with seen.open("a") as file:
                file.writelines(f"{path}\n" for path in Path(folder).glob("hipslake-*/*/*.blocks"))
        yield from receive(target, blocks)

    class Losing(ThroughServers):
        """Whose blocks are gone before the first reduce task reads them."""

        def unpacked(self, payloads: list[pa.Buffer]) -> list[pa.RecordBatch]:  # type: ignore[override]
            for folder in self._folders():
                for path in folder.rglob("*.blocks"):
                    path.unlink(missing_ok=True)  # another task of the executor does the same
            return super().unpacked(payloads)

    if lost != "never":
        monkeypatch.setattr("hipslake.spark.engine.ThroughServers", Losing)
    engine = SparkEngine(spark)
    for _ in range(2):
        found = engine.exchange(
            sources=SOURCES,
            mapper=send,
            targets=TARGETS,
            reducer=reducer,
            result=RESULT,
            scratch=Scratch(None, 1e8),
        )
        assert_all_came(found)
    names = {Path(line).parents[1] for line in seen.read_text().splitlines()} if seen.exists() else set()
    assert len(names) == (2 if lost == "never" else 0)
    until(lambda: not any(path.exists() for path in names))
