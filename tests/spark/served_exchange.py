"""An exchange through servers of executors, which one process plays."""

from __future__ import annotations

import secrets
import socket
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pyarrow as pa
import pytest
from hipslake.spark.block_server import ADDRESS
from hipslake.spark.served_blocks import BlockServers, ThroughServers

TARGETS, DISKS = 32, 2


class ServedExchange:
    """An exchange whose tasks this process does, as one executor or as another."""

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.place = place
        self._monkeypatch = monkeypatch
        self._stack = ExitStack()
        self.servers = self._stack.enter_context(BlockServers("127.0.0.1", token := secrets.token_hex(16)))
        driver, name = ("127.0.0.1", self.servers.port), f"hipslake-{secrets.token_hex(8)}"
        self.finished = Finished()
        self.transport = ThroughServers(name, driver, token, TARGETS, self.finished)

    def at(self, executor: str) -> ThroughServers:
        """The transport as tasks of an executor have it."""
        disks = [self.place / executor / f"disk{number}" for number in range(DISKS)]
        for disk in disks:
            disk.mkdir(parents=True, exist_ok=True)
        self._monkeypatch.setenv("SPARK_LOCAL_DIRS", ",".join(map(str, disks)))
        return self.transport

    def sent(self, executor: str, source: int, blocks: dict[int, pa.RecordBatch]) -> list[pa.Buffer]:
        with self.at(executor).packing(source) as pack:
            return [pack(target, rows) for target, rows in blocks.items()]

    def files(self) -> list[Path]:
        return self._found(f"*/disk*/{self.transport.name}/*/*.blocks")

    def folders(self) -> list[Path]:
        """Also those that are being removed."""
        found = self._found(f"*/disk*/{self.transport.name}*")
        return [path for path in found if path.suffix != ".tried"]

    def _found(self, pattern: str) -> list[Path]:
        while True:
            with suppress(FileNotFoundError):  # a folder was removed while it was looked through
                return sorted(self.place.glob(pattern))

    def one_disk(self) -> None:
        """Have all blocks on the first disk."""
        self._monkeypatch.setattr(secrets, "randbelow", lambda number: 0)

    def address(self, executor: str) -> tuple[str, int]:
        """Of the server of an executor."""
        return _address_in(self.place / executor / "disk0" / self.transport.name / ADDRESS)

    def end(self) -> None:
        """End the exchange, and wait until its servers have removed what they have, and have ended."""
        addresses = [*map(_address_in, self._found(f"*/disk0/{self.transport.name}/{ADDRESS}"))]
        self._stack.close()
        for address in addresses:
            until_gone(address)


def until_gone(address: tuple[str, int]) -> None:
    """Wait until nobody listens at an address any more."""
    end = time.monotonic() + 60
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(address):
                return
        assert time.monotonic() < end, address
        time.sleep(0.02)


def _address_in(file: Path) -> tuple[str, int]:
    host, _, port = file.read_text().rpartition("|")
    return host, int(port)


class Finished:
    """Takes targets where an accumulator of Spark would."""

    def __init__(self) -> None:
        self.targets: list[int] = []

    def add(self, targets: list[int]) -> None:
        self.targets += targets
