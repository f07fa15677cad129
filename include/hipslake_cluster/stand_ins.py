"""What runs in place of images that are not ours: Debian's PostgreSQL, and moto's S3 server."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from hipslake_cluster import postgres
from hipslake_cluster.compose import Service

S3_PORT = 9000


class StandIn(NamedTuple):
    """How a service is run."""

    command: list[str]
    environment: dict[str, str]
    health: list[str]
    path: str  # folders that its programs, and those of the health check, are found in
    prepare: Callable[[], object] = lambda: None  # before it is started


def stand_in_postgres(service: Service, data: Path, address: str) -> StandIn:
    """Return PostgreSQL."""
    programs = postgres.find_postgres()
    if programs is None:
        raise RuntimeError(
            "there is no PostgreSQL; install it (Debian, Ubuntu: sudo apt install postgresql), or have "
            "include/setup/setup.sh postgres unpack Debian's"
        )
    told = service.environment
    prepare = partial(
        postgres.make_database,
        programs,
        data,
        user=told["POSTGRES_USER"],
        password=told["POSTGRES_PASSWORD"],
        database=told["POSTGRES_DB"],
    )
    command = postgres.server_command(programs, data, address, 5432)
    assert service.healthcheck is not None
    variables = {"PGHOST": address, **postgres.libraries()}
    return StandIn(command, variables, list(service.healthcheck.test), str(programs), prepare)


def stand_in_s3(service: Service, data: Path, address: str) -> StandIn:
    """Return moto's server, which keeps nothing on disk and takes any keys."""
    serve = [sys.executable, "-m", "hipslake_cluster.s3_server", "--host", address, "--port", str(S3_PORT)]
    health = [sys.executable, "-m", "hipslake_cluster.health", f"http://{address}:{S3_PORT}/moto-api/"]
    ours = {
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)
    }  # the tests' Python, not the image's
    return StandIn(serve, ours, health, "")


STAND_INS: dict[str, Callable[[Service, Path, str], StandIn]] = {
    "postgres": stand_in_postgres,
    "minio/minio": stand_in_s3,
}
"""By the name of the image, without its tag."""
