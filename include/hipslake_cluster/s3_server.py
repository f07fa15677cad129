"""An S3 server for tests and trials: moto's. `python -m hipslake_cluster.s3_server` prints its address.

All that it holds lies in memory. It takes any keys, unless INITIAL_NO_AUTH_ACTION_COUNT says otherwise.

Moto looks for a name and then writes it, and holds nothing in between: of sixteen who put one name with
`If-None-Match` at the same time, two were told now and then that they had created it (in 3 rounds of 60, with
the interpreter switching threads often). Here such requests are let in one by one: none in 60.

Moto holds signatures against the query as it came, and S3 against one form of it, in which `~` stands for
itself. Here it gets that form.
"""

from __future__ import annotations

import argparse
import threading
from collections.abc import Iterable
from typing import Any


class OneByOne:
    """Lets conditional puts in one by one, and brings queries into the form that is signed."""

    def __init__(self, application: Any) -> None:
        self._application = application
        self._lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        environ["QUERY_STRING"] = in_signed_form(environ.get("QUERY_STRING", ""))
        if environ["REQUEST_METHOD"] == "PUT" and "HTTP_IF_NONE_MATCH" in environ:
            with self._lock:
                return list(self._application(environ, start_response))
        return self._application(environ, start_response)  # type: ignore[no-any-return]


def in_signed_form(query: str) -> str:
    """A query, encoded as it is signed, of whatever client.

    Examples
    --------
    >>> in_signed_form("prefix=run%7E1/a+b*")
    'prefix=run~1/a%20b%2A'
    """
    for other, signed in (("%7E", "~"), ("%7e", "~"), ("+", "%20"), ("*", "%2A")):
        query = query.replace(other, signed)
    return query


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(
        prog="python -m hipslake_cluster.s3_server", description="Serve S3 from memory."
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0: any that is free")
    parser.add_argument("--as-it-is", action="store_true", help="moto as it is, with its races")
    told = parser.parse_args()
    from moto.moto_server.werkzeug_app import (
        DomainDispatcherApplication,
        MotoRequestHandler,
        create_backend_app,
    )
    from werkzeug.serving import make_server

    application: Any = DomainDispatcherApplication(create_backend_app)
    if not told.as_it_is:
        application = OneByOne(application)
    server = make_server(told.host, told.port, application, threaded=True, request_handler=MotoRequestHandler)
    print(f"http://{told.host}:{server.port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
