"""Real receivers of what Airflow sends: StatsD by UDP, a webhook by HTTP; on free ports of this machine."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

from tests.stores.http_serving import PlainHandler, running_http


class Statsd:
    """A socket that StatsD packets come to.

    Attributes
    ----------
    variables : dict of str to str
        The environment of an Airflow whose metrics come here.
    """

    def __init__(self, receiver: socket.socket, **more: str) -> None:
        self._receiver = receiver
        options = {"statsd_on": "True", "statsd_host": "127.0.0.1", **more}
        options["statsd_port"] = str(receiver.getsockname()[1])
        self.variables = {f"AIRFLOW__METRICS__{name.upper()}": value for name, value in options.items()}

    def received(self) -> dict[str, list[str]]:
        """What has come since the last look: per metric `value|kind`, in the order in which it came."""
        found: dict[str, list[str]] = {}
        while True:
            try:
                data = self._receiver.recv(65536)
            except BlockingIOError:
                return found
            for line in data.decode().splitlines():
                name, _, told = line.partition(":")
                found.setdefault(name, []).append(told)


@contextmanager
def statsd_socket(**more: str) -> Iterator[Statsd]:
    """Open a socket for StatsD packets; `more` are further options of Airflow's section `metrics`."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.setblocking(False)
        yield Statsd(receiver, **more)


@contextmanager
def statsd(patch: pytest.MonkeyPatch, **more: str) -> Iterator[Statsd]:
    """Let Airflow's metrics come to a socket, as they do in a task whose configuration says so.

    Parameters
    ----------
    patch : MonkeyPatch
    more : str
        Further options of Airflow's section `metrics`.
    """
    from airflow.sdk._shared.observability.metrics.base_stats_logger import NoStatsLogger
    from airflow.sdk.observability import stats
    from airflow.sdk.observability.metrics.stats_utils import get_stats_factory

    with statsd_socket(**more) as receiver:
        for name, value in receiver.variables.items():
            patch.setenv(name, value)
        stats.initialize(factory=get_stats_factory(), export_legacy_names=True)
        try:
            yield receiver
        finally:
            stats.initialize(factory=NoStatsLogger, export_legacy_names=True)


class Webhook(NamedTuple):
    """A web server that keeps what is posted to it."""

    address: str
    posted: list[tuple[str, Any]]


@contextmanager
def running_webhook() -> Iterator[Webhook]:
    """Serve a webhook."""
    kept: list[tuple[str, Any]] = []

    class Handler(PlainHandler):
        def reply(self, body: bytes) -> None:
            kept.append((self.path, json.loads(body)))
            self.answer(200)

    with running_http(Handler) as address:
        yield Webhook(address, kept)


@contextmanager
def alerted(patch: pytest.MonkeyPatch) -> Iterator[Webhook]:
    """Let alerts come to a webhook, whose address has a secret end."""
    with running_webhook() as webhook:
        told = {"conn_type": "http", "host": f"{webhook.address}/hooks/", "password": "s3cret/part"}
        patch.setenv("AIRFLOW_CONN_OPERATORS", json.dumps(told))
        patch.setenv("HIPSLAKE_ALERTS_CONN", "operators")
        yield webhook
