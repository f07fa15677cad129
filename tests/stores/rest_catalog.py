"""A REST catalog of Iceberg on loopback, and the object store that its tables lie in: SeaweedFS, one process.

It asks for a token, checks what a commit requires, and answers one of two commits at once with a conflict, as
the specification of REST catalogs has it.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from tests.stores.s3_server import S3Server

WAREHOUSE = "lake"
"""The warehouse that the catalog serves; its tables lie in the bucket of this name."""

_CLIENT, _SECRET = "astronomer", "a-secret-of-the-lake"
_SECONDS = 60


@dataclass(frozen=True)
class RestCatalog:
    """A running catalog.

    Attributes
    ----------
    uri : str
        Of the catalog.
    store : S3Server
        Where its tables lie.
    """

    uri: str
    store: S3Server

    @property
    def connection(self) -> dict[str, Any]:
        """The Airflow connection of an OAuth2 client."""
        return {"conn_type": "http", "host": self.uri, "login": _CLIENT, "password": _SECRET}

    @property
    def properties(self) -> dict[str, str]:
        """The properties by which pyiceberg reaches it."""
        return {"type": "rest", "uri": self.uri, "credential": f"{_CLIENT}:{_SECRET}", "warehouse": WAREHOUSE}

    def token(self) -> str:
        """Ask for a token."""
        asked = {"grant_type": "client_credentials", "client_id": _CLIENT, "client_secret": _SECRET}
        answer = requests.post(f"{self.uri}/v1/oauth/tokens", data=asked | {"scope": "catalog"}, timeout=30)
        answer.raise_for_status()
        return str(answer.json()["access_token"])


def find_weed() -> Path | None:
    """The program; it is installed with the peers."""
    python = os.environ.get("HIPSLAKE_PEERS_PYTHON")
    program = Path(python).parent / "weed" if python else None
    return program if program is not None and program.exists() else None


@contextmanager
def running_rest_catalog(program: Path) -> Iterator[RestCatalog]:
    """Serve an empty catalog; it is gone, with all that it held, at the end of the block."""
    with tempfile.TemporaryDirectory(prefix="hipslake-weed-") as place:
        roles = ("master", "volume", "filer", "s3", "admin")
        names = [f"{role}.port{kind}" for role in roles for kind in ("", ".grpc")]
        ports = dict(zip([*names, "s3.port.iceberg"], _free_ports(len(names) + 1), strict=True))
        keys = {"accessKey": _CLIENT, "secretKey": _SECRET}
        user = {"name": _CLIENT, "credentials": [keys], "actions": ["Admin", "Read", "List", "Write"]}
        users = Path(place, "users.json")
        users.write_text(json.dumps({"identities": [user]}))
        endpoint = f"http://127.0.0.1:{ports['s3.port']}"
        options = {
            "dir": place,
            "ip": "127.0.0.1",
            "ip.bind": "127.0.0.1",
            "webdav": "false",
            "admin.ui": "false",
            "s3.port.lance": "0",
            "s3.config": str(users),
            "s3.externalUrl": endpoint,
            "tableBucket": WAREHOUSE,
        }
        told = [f"-{name}={value}" for name, value in {**options, **ports}.items()]
        with Path(place, "server.log").open("wb") as log:
            server = subprocess.Popen(
                [program, f"-logdir={place}", "mini", *told],
                stdout=log,
                stderr=log,
                cwd=place,
                env={**os.environ, "TMPDIR": place},
            )
        try:
            catalog = RestCatalog(
                f"http://127.0.0.1:{ports['s3.port.iceberg']}", S3Server(endpoint, _CLIENT, _SECRET)
            )
            _wait_for(catalog, server)
            yield catalog
        finally:
            server.kill()
            server.wait()
            for port in ports.values():  # its sockets lie there, wherever it is told to work
                for left in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):
                    left.unlink()


def _free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()


def _wait_for(catalog: RestCatalog, server: subprocess.Popen[bytes]) -> None:
    """Wait until the warehouse is served, which is the last that comes up."""
    end = time.monotonic() + _SECONDS
    while True:
        assert server.poll() is None, "SeaweedFS ended at once"
        assert time.monotonic() < end, "SeaweedFS does not answer"
        try:
            headers = {"Authorization": f"Bearer {catalog.token()}"}
            if requests.get(f"{catalog.uri}/v1/{WAREHOUSE}/namespaces", headers=headers, timeout=5).ok:
                return
        except requests.RequestException:
            pass
        time.sleep(0.1)
