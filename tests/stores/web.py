"""A static web server on loopback: nginx, which knows ranges (Python's own does not)."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.error import HTTPError
from urllib.request import urlopen

from tests.airflow_home import PROJECT

_MARK = "/mark-"  # a request of ours for the sake of its line in the log
_UNPACKED = PROJECT / ".nginx" / "usr" / "sbin" / "nginx"  # where `make test` puts it
_CONFIGURATION = """\
daemon off;
master_process off;
worker_processes 1;
pid {place}/nginx.pid;
error_log {place}/error.log;
events {{ worker_connections 256; }}
http {{
    client_body_temp_path {place}/body;
    proxy_temp_path {place}/proxy;
    fastcgi_temp_path {place}/fastcgi;
    uwsgi_temp_path {place}/uwsgi;
    scgi_temp_path {place}/scgi;
    default_type application/octet-stream;
    log_format counted escape=json '{{"method": "$request_method", "path": "$uri", "status": $status,'
        ' "range": "$http_range", "bytes": $body_bytes_sent}}';
    access_log {place}/access.log counted;
    server {{
        listen 127.0.0.1:{port};
        root {root};
        location /forbidden/ {{ deny all; }}
    }}
    server {{
        listen 127.0.0.1:{rangeless};
        root {root};
        max_ranges 0;
    }}
}}
"""


class Served(NamedTuple):
    """A line of the access log."""

    method: str
    path: str
    status: int
    range: str
    bytes: int


@dataclass(frozen=True)
class WebServer:
    """A running server of a folder's files. It lists no folder."""

    url: str
    rangeless_url: str  # the same files by a server that answers every range with the whole file
    log: Path

    def served(self) -> list[Served]:
        """What was asked so far."""
        self._wait_for_the_log()
        lines = (Served(**json.loads(line)) for line in self.log.read_text().splitlines())
        return [line for line in lines if not line.path.startswith(_MARK)]

    def forget(self) -> None:
        """Begin a new count."""
        self._wait_for_the_log()
        self.log.write_text("")  # nginx appends

    def _wait_for_the_log(self) -> None:
        """Wait until all that was asked is there: nginx logs a request after it has answered."""
        mark = f"{_MARK}{uuid.uuid4().hex}"
        with suppress(HTTPError):  # 404
            urlopen(f"{self.url}{mark}")
        end = time.monotonic() + 10
        while mark not in self.log.read_text():
            assert time.monotonic() < end, "nginx does not log"
            time.sleep(0.01)


def find_nginx() -> str | None:
    """The program: the system's, or the one of `make test`."""
    found = shutil.which("nginx", path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin")
    return found or (str(_UNPACKED) if _UNPACKED.exists() else None)


@contextmanager
def running_nginx(nginx: str, root: Path, place: Path) -> Iterator[WebServer]:
    """Serve a folder.

    Parameters
    ----------
    nginx : str
        The program.
    root : Path
        The folder.
    place : Path
        Where configuration and logs lie.
    """
    port, rangeless = _free_port(), _free_port()
    configuration = place / "nginx.conf"
    configuration.write_text(_CONFIGURATION.format(place=place, root=root, port=port, rangeless=rangeless))
    process = subprocess.Popen([nginx, "-p", str(place), "-c", str(configuration)], stderr=subprocess.PIPE)
    try:
        for one in (port, rangeless):
            _wait_for(one, process)
        yield WebServer(f"http://127.0.0.1:{port}", f"http://127.0.0.1:{rangeless}", place / "access.log")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            try:
                process.wait(0.02)
            except subprocess.TimeoutExpired:
                continue
            assert process.stderr is not None
            raise AssertionError(f"nginx did not start: {process.stderr.read().decode()}") from None
