"""A proxy on loopback that stands before a server, counts what is asked, and has faults when told to."""

from __future__ import annotations

import http.client
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.stores.http_serving import PlainHandler, running_http

_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length"}


class Asked(NamedTuple):
    """A request that was answered, or should have been."""

    method: str
    path: str  # with its query
    range: str  # the header; "" if there is none
    status: int  # the server's, also where the answer was dropped
    bytes: int  # of the answer's body
    fault: str  # "", "dropped", "refused", "misreported" or "held"; a delayed one is answered


class Exchange(NamedTuple):
    """A request and its answer, with their bodies."""

    method: str
    path: str  # with its query
    body: bytes
    status: int
    answer: bytes


@dataclass
class Fault:
    """What happens to some requests: a drop of the answer, once the server has done what was asked.

    `after` is of those with a status: it is answered in place of what the server said. `hold`: the server
    hears of the request when `Proxy.release` is called.
    """

    method: str  # "": any
    path: re.Pattern[str]
    times: float  # how often
    status: int | None = None  # answered in place of the server, which never hears of it; None: dropped
    body: bytes = b""
    every: int = 1  # one of so many
    wait: float = 0.0  # seconds before the server is asked; then nothing else happens
    met: int = 0  # how often it happened
    seen: int = 0  # how many requests it could have happened to
    after: bool = False
    hold: bool = False

    @property
    def headers(self) -> dict[str, str]:
        """Of the answer in place of the server's."""
        return {"Content-Type": "application/xml" if self.body.startswith(b"<") else "application/json"}

    @property
    def is_before(self) -> bool:
        """Whether it happens before the server is asked."""
        return not self.after and (self.status is not None or self.wait > 0)


@dataclass
class Proxy:
    """A running proxy."""

    upstream: str
    endpoint: str = ""
    asked: list[Asked] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    watch: Callable[[str, str], None] | None = None  # told of each request before the server is
    kept: list[Exchange] | None = None  # what was said, where it is kept: set it to an empty list
    held: list[tuple[str, str, bytes, dict[str, str]]] = field(default_factory=list)
    page: int | None = None  # how many objects S3 lists at once; None: as the server does, a thousand

    def drop_answers(self, method: str, path: str, *, times: float = 1, every: int = 1) -> Fault:
        """Let requests through, and close the connection in place of an answer.

        Parameters
        ----------
        method : str
            "" is any.
        path : str
            A regular expression that is searched for in the path and query.
        times : float
            Of how many requests; `math.inf` is of all. Only of those that the server granted (2xx).
        every : int
            Only one of so many that match.
        """
        return self._add(Fault(method, re.compile(path), times, every=every))

    def delay(self, method: str, path: str, *, seconds: float, times: float = 1, every: int = 1) -> Fault:
        """Let requests wait before they are passed on; parameters as before."""
        return self._add(Fault(method, re.compile(path), times, every=every, wait=seconds))

    def refuse(
        self,
        method: str,
        path: str,
        *,
        status: int,
        code: str = "InternalError",
        times: float = 1,
        every: int = 1,
    ) -> Fault:
        """Answer like S3 would, with an error, without asking the server; parameters as before."""
        body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{code}</Message></Error>"
        return self._add(Fault(method, re.compile(path), times, status, body.encode(), every))

    def fail(
        self,
        method: str,
        path: str,
        *,
        status: int,
        body: bytes = b"",
        after: bool = False,
        hold: bool = False,
        times: float = 1,
    ) -> Fault:
        """Answer a status and a body of JSON, without asking the server; parameters as before.

        Parameters
        ----------
        after : bool
            The server is asked, and what it grants is answered so.
        hold : bool
            The server is asked when `release` is called.
        """
        return self._add(Fault(method, re.compile(path), times, status, body, after=after, hold=hold))

    def release(self) -> list[int]:
        """Ask the server for all that is held, in order; the status of each answer."""
        with self.lock:
            held, self.held = self.held, []
        return [self.pass_on(*each)[0].status for each in held]

    def pass_on(
        self, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        """Ask the server."""
        if self.page is not None and "list-type=2" in path:
            path = f"{path}&max-keys={self.page}"
        upstream = http.client.HTTPConnection(self.upstream.partition("://")[2], timeout=60)
        try:
            upstream.request(method, path, body=body, headers=headers)
            answer = upstream.getresponse()
            return answer, answer.read()
        finally:
            upstream.close()

    def clear(self) -> None:
        """Forget the faults and what was asked."""
        with self.lock:
            self.faults.clear()
            self.asked.clear()

    def _add(self, fault: Fault) -> Fault:
        with self.lock:
            self.faults.append(fault)
        return fault

    def meet(self, method: str, path: str, *, before: bool) -> Fault | None:
        """The fault that a request has before it is passed on, or after it was granted; counted as met."""
        with self.lock:
            for fault in self.faults:
                due = fault.met < fault.times and fault.is_before == before
                if due and fault.method in ("", method) and fault.path.search(path):
                    fault.seen += 1
                    if fault.seen % fault.every == 0:
                        fault.met += 1
                        return fault
        return None


@contextmanager
def running_proxy(upstream: str) -> Iterator[Proxy]:
    """Start a proxy before `upstream`, such as `http://127.0.0.1:5000`."""
    proxy = Proxy(upstream)
    with running_http(_Handler, proxy=proxy) as proxy.endpoint:
        yield proxy


class _Handler(PlainHandler):
    proxy: Proxy

    def reply(self, body: bytes) -> None:
        if self.proxy.watch is not None:
            self.proxy.watch(self.command, self.path)
        headers = {name: value for name, value in self.headers.items() if name.lower() != "expect"}
        refused = self.proxy.meet(self.command, self.path, before=True)
        if refused is not None and refused.wait:
            time.sleep(refused.wait)
        elif refused is not None:
            assert refused.status is not None
            if refused.hold:
                with self.proxy.lock:
                    self.proxy.held.append((self.command, self.path, body, headers))
            self._note(body, refused.status, refused.body, "held" if refused.hold else "refused")
            self.answer(refused.status, refused.body, refused.headers)
            return
        answer, data = self.proxy.pass_on(self.command, self.path, body, headers)
        granted = 200 <= answer.status < 300
        fault = self.proxy.meet(self.command, self.path, before=False) if granted else None
        if fault is not None and fault.status is not None:
            self._note(body, answer.status, data, "misreported")
            self.answer(fault.status, fault.body, fault.headers)
            return
        if fault is not None:
            self._note(body, answer.status, data, "dropped")
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self._note(body, answer.status, data, "")
        kept = {name: value for name, value in answer.getheaders() if name.lower() not in _HOP_BY_HOP}
        if self.command == "HEAD":
            kept["Content-Length"] = answer.getheader("Content-Length") or "0"
        self.answer(answer.status, data, kept)

    def _note(self, body: bytes, status: int, answer: bytes, fault: str) -> None:
        wanted = self.headers.get("Range") or ""
        with self.proxy.lock:
            self.proxy.asked.append(Asked(self.command, self.path, wanted, status, len(answer), fault))
            if self.proxy.kept is not None:
                self.proxy.kept.append(Exchange(self.command, self.path, body, status, answer))
