"""Small HTTP servers on loopback, whose answers a test writes."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType

_NONE: Mapping[str, str] = MappingProxyType({})
_POLL = 0.01  # seconds after which a server sees that it is to end


class PlainHandler(BaseHTTPRequestHandler):
    """Reads the bodies of requests and sends whole answers; nothing is logged. Subclasses have a `reply`."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def reply(self, body: bytes) -> None:
        """Answer a request, whatever its method, by `answer`; its body was read."""
        raise NotImplementedError

    def _reply(self) -> None:
        self.reply(self.rfile.read(int(self.headers.get("Content-Length") or 0)))

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _reply  # noqa: N815

    def answer(self, status: int, data: bytes = b"", headers: Mapping[str, str] = _NONE) -> None:
        """Send an answer; to a HEAD, and with a status that has none, without its body.

        Parameters
        ----------
        status : int
        data : bytes
        headers : mapping of str to str
            Further ones; one that says the length of the body counts in place of the body's own.
        """
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status not in (204, 304) and "Content-Length" not in headers:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD" and status not in (204, 304):
            self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads it."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that leave are nothing to report."""


@contextmanager
def running_http(handler: type[PlainHandler], **given: object) -> Iterator[str]:
    """Serve by a handler in threads of this process, and give the address, as `http://127.0.0.1:5000`.

    Parameters
    ----------
    handler : type of PlainHandler
    **given
        Attributes of the handlers.
    """
    with _Server(("127.0.0.1", 0), type("Handler", (handler,), given)) as server:
        thread = threading.Thread(target=server.serve_forever, args=(_POLL,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
