"""The deployment of docker-compose.yml on this machine, with a store that can be made to fail."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyarrow.fs as pafs
from hipslake.storage.folder import Storage
from hipslake_cluster.cluster import Cluster

from tests.airflow_home import PROJECT
from tests.stores.proxy import Proxy, running_proxy
from tests.stores.s3_server import REGION, S3Server
from tests.trust.api import Api
from tests.trust.waiting import until

NETWORK = "127.78.0"
BUCKET = "survey"
_UP_SECONDS = 1500
_BACK_SECONDS = 300


@dataclass
class Deployment:
    """A running deployment."""

    cluster: Cluster
    proxy: Proxy  # which all its S3 clients go through
    store: S3Server  # the server itself
    api: Api

    @property
    def landing(self) -> Storage:
        return Storage.at(f"s3://{BUCKET}/landing")

    def catalog_uri(self, name: str) -> str:
        return f"s3://{BUCKET}/warehouse/catalogs/{name}"

    def arrow_store(self) -> pafs.S3FileSystem:
        """The store as plain pyarrow sees it."""
        return pafs.S3FileSystem(
            access_key="any",
            secret_key="any-secret",
            endpoint_override=self.store.endpoint.removeprefix("http://"),
            scheme="http",
            region=REGION,
        )

    def kill(self, service: str) -> int:
        """Kill a service whole with SIGKILL, and wait until it was started again; how many processes died."""
        run = self.cluster.background(service)
        before = run.pid
        killed = self.cluster.kill(service)
        until(lambda: run.pid not in (None, before), seconds=_BACK_SECONDS, what=f"another {service}")
        return killed

    def drivers(self) -> list[psutil.Process]:
        """The JVMs of Spark drivers."""
        return [
            one for one in self.cluster.background("scheduler").family() if "SparkSubmit" in _command(one)
        ]

    def busy_workers(self) -> list[str]:
        """The Spark workers whose executors hold tasks, or have held some."""
        workers = [name for name in self.cluster.addresses if name.startswith("spark-worker")]
        return [
            name
            for name in workers
            if any("pyspark.worker" in _command(one) for one in self.cluster.background(name).family())
        ]


@contextmanager
def running_deployment(specs: Path, **more: str) -> Iterator[Deployment]:
    """Start the deployment as `make cluster-up` does; everything of it is gone at the end of the block.

    Parameters
    ----------
    specs : Path
        The folder of the specs.
    **more : str
        Further variables, as a `.env` has them.
    """
    with tempfile.TemporaryDirectory(prefix="hipslake-cluster-") as folder:
        place = Path(folder)
        image = Path(os.environ.get("HIPSLAKE_IMAGE") or PROJECT / ".image")
        cluster = Cluster(PROJECT, place, image, network=NETWORK)
        store = S3Server(f"http://{cluster.addresses['s3']}:9000")
        with running_proxy(store.endpoint) as proxy, store.reached():
            variables = {
                **os.environ,
                "PYTHONPATH": str(PROJECT / "include"),
                "HIPSLAKE_CLUSTER": folder,
                "HIPSLAKE_IMAGE": str(image),
                "HIPSLAKE_CLUSTER_NETWORK": NETWORK,
                "HIPSLAKE_UP_SECONDS": str(_UP_SECONDS),
                "HIPSLAKE_S3_ENDPOINT": proxy.endpoint,
                "HIPSLAKE_SPECS": str(specs),
                "HIPSLAKE_LANDING": f"s3://{BUCKET}/landing",
                "HIPSLAKE_WAREHOUSE": f"s3://{BUCKET}/warehouse",
                "HIPSLAKE_PARSE_SECONDS": "600",
                "HIPSLAKE_PARALLELISM": "3",
                "HIPSLAKE_WORKER_CORES": "1",
                "HIPSLAKE_WORKER_MEMORY": "1g",
                **more,
            }
            try:
                _run("up", variables)
                yield Deployment(
                    cluster, proxy, store, Api(cluster.url, cluster.keys["HIPSLAKE_ADMIN_PASSWORD"])
                )
            finally:
                _run("down", variables)


def _run(what: str, variables: dict[str, str]) -> None:
    command = [sys.executable, "-m", "hipslake_cluster", what]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _command(process: psutil.Process) -> str:
    """The command line of a process; none if it has ended meanwhile."""
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:  # zombies too
        return ""
