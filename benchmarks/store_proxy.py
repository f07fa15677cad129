"""A proxy before an S3 server that makes every request take longer, counts requests, and limits bandwidth.

It runs in a process of its own, on one core, in one thread. Heads are parsed; bodies pass as they come, in
large pieces, which the kernel moves from socket to socket (`splice`) where their length is known. Nothing
that is sent is changed, `Host` included, so signatures stay valid: clients sign for the proxy's address. Each
connection of a client has one to the server, and both stay open.

A request waits before the server hears of it, and a second time before its answer where the client first asks
whether it may send the body (`Expect: 100-continue`), since both are round trips. It waits for so many
seconds, or, so that round trips can be counted on a busy machine, until its client has sent all that it sends
without an answer.

    python -m benchmarks.store_proxy --upstream 127.0.0.1:8333
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from benchmarks.idle_client import IdleGate
from benchmarks.processes import ROOT, environment
from benchmarks.proxy_connections import CHUNKED, LENGTH, Bandwidth, ConnectionEnd
from benchmarks.store_requests import Asked

_EXPECTS = re.compile(rb"\r\nexpect: *100-continue", re.IGNORECASE)
_CLOSES = re.compile(rb"\r\nconnection: *close", re.IGNORECASE)
_RANGE = re.compile(rb"\r\nrange: *([^\r]*)", re.IGNORECASE)
_COPIES = re.compile(rb"\r\nx-amz-copy-source: *[^\r]", re.IGNORECASE)
_NO_SERVER = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_WITHOUT_BODY = (204, 304)
_LAST_SECONDS = 1.0  # that requests may still take when those that were asked are to be told
_GRACE_SECONDS = 0.05  # of the last bytes of a body that is answered already


class _Proxy:
    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port
        self.latency = 0.0
        self.gate: IdleGate | None = None
        self.up, self.down = Bandwidth(), Bandwidth()
        self.asked: list[Asked] = []
        self.connections = 0
        self.under_way = 0  # requests that are not among the asked yet

    async def serve(self, client: socket.socket) -> None:
        """Serve a connection of a client to its end."""
        self.connections += 1
        number, loop = self.connections, asyncio.get_running_loop()
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with client, socket.socket() as upstream:
            upstream.setblocking(False)
            upstream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with contextlib.suppress(OSError, ValueError):
                try:
                    await loop.sock_connect(upstream, (self.host, self.port))
                except OSError:
                    await ConnectionEnd(client).head()
                    await loop.sock_sendall(client, _NO_SERVER)
                    return
                with (
                    contextlib.closing(ConnectionEnd(client)) as here,
                    contextlib.closing(ConnectionEnd(upstream)) as there,
                ):
                    while await self._exchange(number, here, there):
                        pass

    async def _exchange(self, number: int, client: ConnectionEnd, server: ConnectionEnd) -> bool:
        """Pass on a request and its answer; whether the connection goes on."""
        head = await self._next_head(client, server)
        if not head:
            return False
        began = time.monotonic()
        self.under_way += 1
        method, _, rest = head.partition(b" ")
        expects = _EXPECTS.search(head) is not None
        client.sent_at = 0.0
        status = received = 0
        answer, whole = b"", False
        sending = asyncio.ensure_future(self._hand_over(head, client, server))
        try:
            answer = await server.head()
            while answer[9:10] == b"1":  # 100 Continue
                await client.send(answer)
                answer = await server.head()
            if answer:
                status = int(answer[9:12])
                if expects:
                    await self._wait()
                await client.send(answer)
                if method != b"HEAD" and status not in _WITHOUT_BODY:
                    received = await server.pass_body(answer, client, self.down, answer=True)
                # Where the server answered before it had heard all, what follows is no head.
                whole = bool((await asyncio.wait({sending}, timeout=_GRACE_SECONDS))[0])
        finally:
            sent = sending.result() if sending.done() and not sending.exception() else 0
            if not sending.done():
                sending.cancel()
                with contextlib.suppress(asyncio.CancelledError, OSError):
                    await sending
            span = _RANGE.search(head)
            self.under_way -= 1
            self.asked.append(
                Asked(
                    connection=number,
                    began=began,
                    ended=client.sent_at or time.monotonic(),
                    method="COPY" if _COPIES.search(head) else method.decode(),
                    path=rest.partition(b" ")[0].decode(errors="replace"),
                    range="" if span is None else span[1].decode(errors="replace"),
                    status=status,
                    sent=sent,
                    received=received,
                    expects=expects,
                )
            )
        endless = not (LENGTH.search(answer) or CHUNKED.search(answer)) and status not in _WITHOUT_BODY
        closing = answer.startswith(b"HTTP/1.0") or _CLOSES.search(answer) or _CLOSES.search(head)
        return whole and not closing and (not endless or method == b"HEAD")

    async def _hand_over(self, head: bytes, client: ConnectionEnd, server: ConnectionEnd) -> int:
        """Pass on a request when it has waited; the bytes of its body."""
        await self._wait()
        await server.send(head)
        return await client.pass_body(head, server, self.up, answer=False)

    async def _wait(self) -> None:
        if self.gate is not None:
            await self.gate.wait()
        await asyncio.sleep(self.latency)

    @staticmethod
    async def _next_head(client: ConnectionEnd, server: ConnectionEnd) -> bytes:
        """The head of the next request; nothing when either side has left."""
        asking = asyncio.ensure_future(client.head())
        leaving = asyncio.ensure_future(server.more())
        await asyncio.wait({asking, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not leaving.done():
            leaving.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await leaving
            return await asking
        asking.cancel()
        with contextlib.suppress(asyncio.CancelledError, OSError, ValueError):
            await asking
        return b""

    async def told(self, line: str) -> dict[str, Any]:
        """Do what a line says, and answer; requests whose answers are there already are counted."""
        wanted = json.loads(line)
        if "latency" in wanted:
            self.latency = float(wanted["latency"])
            client = wanted["client"]
            self.gate = IdleGate(client, lambda: self.under_way) if client else None
            self.up.bytes_per_second = self.down.bytes_per_second = float(wanted["bandwidth"])
            return {}
        given_up = time.monotonic() + _LAST_SECONDS
        while self.under_way and time.monotonic() < given_up:
            await asyncio.sleep(0.001)
        asked, self.asked = self.asked, []
        connections, self.connections = self.connections, 0
        return {"asked": asked, "connections": connections, "cpu": time.process_time()}


async def _run(upstream: str, port: int) -> None:
    host, _, upstream_port = upstream.rpartition(":")
    proxy, loop = _Proxy(host, int(upstream_port)), asyncio.get_running_loop()
    serving: set[asyncio.Task[None]] = set()
    ended = loop.create_future()

    async def answer(line: str) -> None:
        print(json.dumps(await proxy.told(line)), flush=True)

    def hear() -> None:
        line = sys.stdin.readline()
        if line:
            task = asyncio.ensure_future(answer(line))
            serving.add(task)
            task.add_done_callback(serving.discard)
        elif not ended.done():
            ended.set_result(None)

    with socket.create_server(("127.0.0.1", port), backlog=512) as listener:
        listener.setblocking(False)
        print(json.dumps({"port": listener.getsockname()[1]}), flush=True)
        loop.add_reader(sys.stdin.fileno(), hear)

        async def accept() -> None:
            while True:
                client, _ = await loop.sock_accept(listener)
                client.setblocking(False)
                task = asyncio.ensure_future(proxy.serve(client))
                serving.add(task)
                task.add_done_callback(serving.discard)

        accepting = asyncio.ensure_future(accept())
        await ended
        for task in (accepting, *serving):
            task.cancel()
        await asyncio.gather(accepting, *serving, return_exceptions=True)


class Told(NamedTuple):
    """What a proxy saw since it was asked before.

    Attributes
    ----------
    asked : list of Asked
        Requests that have ended, in the order of their ends.
    connections : int
        That clients have opened.
    cpu : float
        Processor seconds of the proxy since it was started.
    """

    asked: list[Asked]
    connections: int
    cpu: float


class StoreProxy:
    """A proxy that runs in a process of its own.

    Attributes
    ----------
    endpoint : str
        Such as `http://127.0.0.1:41235`.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        assert process.stdout is not None
        self.endpoint = f"http://127.0.0.1:{json.loads(process.stdout.readline())['port']}"

    def set(self, *, latency: float = 0.0, bandwidth: float = 0.0, client: int = 0) -> None:
        """Let requests wait from now on.

        Parameters
        ----------
        latency : float
            Seconds that each waits.
        bandwidth : float
            Bytes that pass in a second; 0: no limit.
        client : int
            A process for which requests wait, by its number, until all of its threads sleep; 0: none. Those
            that do not wait for each other are then under way together.
        """
        self._say({"latency": latency, "bandwidth": bandwidth, "client": client})

    def take(self) -> Told:
        """What was asked since the last call."""
        answer = self._say({})
        return Told([Asked(*each) for each in answer["asked"]], answer["connections"], answer["cpu"])

    def _say(self, what: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer


@contextmanager
def running_proxy(upstream: str) -> Iterator[StoreProxy]:
    """Start a proxy before a server, such as `127.0.0.1:8333`."""
    command = [sys.executable, "-m", "benchmarks.store_proxy", "--upstream", upstream]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield StoreProxy(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()  # its end is the proxy's
            process.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--upstream", required=True, help="host and port of the server")
    parser.add_argument("--port", type=int, default=0, help="0: any that is free")
    given = parser.parse_args()
    asyncio.run(_run(given.upstream, given.port))
