"""pyiceberg's client of REST catalogs, each of whose requests ends in time.

`requests` knows limits of connections and of silence only. A request as a whole, whose headers or body may
come byte by byte, is ended by a timer that closes its socket.
"""

from __future__ import annotations

import socket
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.rest.auth import OAuth2AuthManager, OAuth2TokenProvider
from requests import PreparedRequest, Response, Session
from requests.adapters import HTTPAdapter
from requests.exceptions import ConnectTimeout, ReadTimeout, RequestException
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection

from hipslake.storage.timeouts import CONNECT, READ, REQUEST, deadline, timeouts

if TYPE_CHECKING:
    from collections.abc import Iterator


class LimitedRestCatalog(RestCatalog):
    """A REST catalog with the time limits of `hipslake.storage.timeouts`, also for requests of tokens."""

    def _config_headers(self, session: Session) -> None:
        # The first that is done with a new session, which asks for a token before it is handed out.
        limit_requests(session)
        super()._config_headers(session)

    def _create_session(self) -> Session:
        session = super()._create_session()
        if isinstance(self._auth_manager, OAuth2AuthManager):
            self._auth_manager.token_provider.__class__ = _LimitedTokens
        return session


class _LimitedTokens(OAuth2TokenProvider):
    """Asks for tokens by a session of its own, and else as pyiceberg does."""

    def _refresh_token(self) -> None:
        asked = {"grant_type": "client_credentials", **({"scope": self.scope} if self.scope else {})}
        with Session() as session:
            limit_requests(session)
            headers = {"Authorization": self._client_secret_header}
            response = session.post(self.token_url, data=asked, headers=headers)
        response.raise_for_status()
        answer = response.json()
        lasts = answer.get("expires_in", self.expires_in)
        if lasts is None:
            raise ValueError(
                f"the server of tokens does not say how long its token lasts (expires_in): {self.token_url}"
            )
        self._token = answer["access_token"]
        self._expires_at = time.monotonic() + lasts - self.refresh_margin


def limit_requests(session: Session) -> None:
    """Let all requests of a session end in time."""
    for scheme in ("http://", "https://"):
        session.mount(scheme, _LimitedAdapter())


class _Watch:
    """Closes the connection of one request when its time is over."""

    def __init__(self) -> None:
        self.is_over = False
        self._connection: HTTPConnection | None = None
        self._lock = threading.Lock()

    def follow(self, connection: HTTPConnection) -> None:
        with self._lock:
            self._connection = connection
        if self.is_over:
            self.end()

    def end(self) -> None:
        with self._lock:
            self.is_over = True
            open_socket = getattr(self._connection, "sock", None)
        if open_socket is not None:
            with suppress(OSError):
                open_socket.shutdown(socket.SHUT_RDWR)


_RUNNING = threading.local()


def _follow(connection: HTTPConnection) -> None:
    if (watch := getattr(_RUNNING, "watch", None)) is not None:
        watch.follow(connection)


class _Connection(HTTPConnection):
    def request(self, *args: Any, **kwargs: Any) -> None:
        _follow(self)
        super().request(*args, **kwargs)


class _SecureConnection(HTTPSConnection):
    def connect(self) -> None:
        _follow(self)
        super().connect()

    def request(self, *args: Any, **kwargs: Any) -> None:
        _follow(self)
        super().request(*args, **kwargs)


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


class _LimitedAdapter(HTTPAdapter):
    """Reads each answer whole, and ends what takes too long with a `ReadTimeout` or `ConnectTimeout`."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
        manager = super().proxy_manager_for(*args, **kwargs)
        manager.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}
        return manager

    def send(self, request: PreparedRequest, *args: Any, **kwargs: Any) -> Response:
        limits, end = timeouts(), deadline()
        seconds = min(limits.request, end.left())
        told = end.text() if end.left() < limits.request else f"no answer within {seconds:g} s ({REQUEST})"
        if seconds <= 0:
            raise ReadTimeout(told, request=request)
        names = ("stream", "timeout", "verify", "cert", "proxies")
        given = {**dict(zip(names, args, strict=False)), **kwargs, "stream": True}
        given["timeout"] = (min(limits.connect, seconds), min(limits.read, seconds))
        with _watched(seconds) as watch:
            try:
                response = super().send(request, **given)
                response.content  # noqa: B018 - read while it is watched
            except ConnectTimeout as error:
                raise ConnectTimeout(
                    f"no connection within {limits.connect:g} s ({CONNECT})", request=request
                ) from error
            except (RequestException, OSError, ValueError) as error:
                if watch.is_over:  # the socket was closed under it
                    raise ReadTimeout(told, request=request) from error
                if isinstance(error, ReadTimeout) or "Read timed out" in str(error):  # the latter of a body
                    raise ReadTimeout(
                        f"no byte came for {limits.read:g} s ({READ})", request=request
                    ) from error
                raise
            if watch.is_over:  # and what had come looks whole
                response.close()
                raise ReadTimeout(told, request=request)
        return response


@contextmanager
def _watched(seconds: float) -> Iterator[_Watch]:
    """Watch the requests that this thread makes in the block."""
    watch = _Watch()
    timer = threading.Timer(seconds, watch.end)
    timer.daemon = True
    timer.start()
    _RUNNING.watch = watch
    try:
        yield watch
    finally:
        timer.cancel()
        _RUNNING.watch = None
