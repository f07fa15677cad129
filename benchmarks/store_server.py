"""SeaweedFS as an S3 server of the store benchmark: in one process, with its data below a folder.

Its program comes with the peers (`make peers`). What it takes of the processor is weighed by its process id.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

KEY, SECRET, REGION = "astronomer", "a-secret-of-the-lake", "us-east-1"
BUCKET = "lake"
_ROLES = ("master", "volume", "filer", "s3")
_START_SECONDS = 60
_CHUNK_MB = 8  # an object is kept in pieces of this size


@dataclass(frozen=True)
class StoreServer:
    """A running server.

    Attributes
    ----------
    endpoint : str
        Such as `http://127.0.0.1:41234`.
    pid : int
    """

    endpoint: str
    pid: int

    def cpu_seconds(self) -> float:
        """Processor seconds that it has used so far."""
        return cpu_seconds_of(self.pid)


class NoServerError(Exception):
    """The server is missing or did not start."""


def cpu_seconds_of(pid: int) -> float:
    """Processor seconds that a process has used so far, without its children.

    By its clock in the kernel: the times in proc(5) are counted in hundredths of a second, and a few requests
    take less.

    Raises
    ------
    ProcessLookupError
        There is no such process.
    """
    clock = ctypes.c_int()
    if error := ctypes.CDLL(None).clock_getcpuclockid(pid, ctypes.byref(clock)):
        raise OSError(error, os.strerror(error))
    return time.clock_gettime(clock.value)


def variables(endpoint: str) -> dict[str, str]:
    """The environment variables by which S3 clients reach a server, or a proxy before it."""
    return {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ENDPOINT_URL_S3": endpoint,
    }


def find_weed(peers_python: str) -> Path | None:
    """The program of SeaweedFS beside the interpreter of the peers, or on the path."""
    beside = Path(peers_python).parent / "weed"
    found = str(beside) if beside.exists() else shutil.which("weed")
    return Path(found) if found else None


@contextmanager
def running_store(weed: Path, place: Path) -> Iterator[StoreServer]:
    """Serve S3, with one bucket, `BUCKET`, from a folder; the server ends with the block, the folder stays.

    Parameters
    ----------
    weed : Path
        The program.
    place : Path
        A folder that exists; its data and its log lie there.

    Raises
    ------
    NoServerError
        If the server ends or does not answer.
    """
    ports = dict(zip(_ports(), _free_ports(2 * len(_ROLES)), strict=True))
    identity = {
        "name": KEY,
        "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
        "actions": ["Admin", "Read", "List", "Write"],
    }
    (place / "users.json").write_text(json.dumps({"identities": [identity]}))
    data = place / "data"
    data.mkdir(exist_ok=True)
    options = {
        "dir": data,
        "ip": "127.0.0.1",
        "ip.bind": "127.0.0.1",
        "s3.config": place / "users.json",
        "s3.port.iceberg": 0,
        "s3.port.lance": 0,
        "s3.iam": "false",
        "volume.max": 100,
        "master.volumeSizeLimitMB": 4096,
        "master.volumePreallocate": "false",
        "filer.maxMB": _CHUNK_MB,
        **ports,
    }
    told = [f"-{name}={value}" for name, value in options.items()]
    with (place / "server.log").open("wb") as log:
        server = subprocess.Popen(
            [weed, f"-logdir={place}", "server", "-s3", *told],
            stdout=log,
            stderr=log,
            cwd=place,
            env={**os.environ, "TMPDIR": str(place)},
        )
    try:
        endpoint = f"http://127.0.0.1:{ports['s3.port']}"
        _make_bucket(endpoint, server, place / "server.log")
        yield StoreServer(endpoint, server.pid)
    finally:
        server.terminate()
        with suppress(subprocess.TimeoutExpired):
            server.wait(10)
        server.kill()
        server.wait()
        for port in ports.values():  # its sockets lie there, wherever it is told to work
            for left in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):
                left.unlink()


def _ports() -> list[str]:
    return [f"{role}.port{kind}" for role in _ROLES for kind in ("", ".grpc")]


def _free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()


def _make_bucket(endpoint: str, server: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until the server takes the bucket."""
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name=REGION,
        aws_access_key_id=KEY,
        aws_secret_access_key=SECRET,
        config=Config(retries={"total_max_attempts": 1}, connect_timeout=1, read_timeout=10),
    )
    end = time.monotonic() + _START_SECONDS
    while True:
        if server.poll() is not None:
            raise NoServerError(f"SeaweedFS ended at once; see {log}")
        try:
            client.create_bucket(Bucket=BUCKET)
            client.put_object(Bucket=BUCKET, Key="ready", Body=b"x" * 100_000)  # a volume is there, too
            client.delete_object(Bucket=BUCKET, Key="ready")
            return
        except client.exceptions.BucketAlreadyOwnedByYou:
            return
        except (BotoCoreError, ClientError) as error:
            if time.monotonic() > end:
                raise NoServerError(f"SeaweedFS does not answer: {error}; see {log}") from error
        time.sleep(0.1)
