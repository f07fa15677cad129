"""What the library's clients of S3 cost: obstore, and fsspec's, which does what obstore cannot.

The same operations of `hipslake.storage.folder.Storage` by each, in a process of its own, against SeaweedFS
(`make peers`) and against the server of the tests, through the proxy of `benchmarks.store`. Printed are the
seconds, the processor's seconds of the client's process, and requests and round trips, as the proxy saw them.

    python -m benchmarks.store_clients
    python -m benchmarks.store_clients --latency 30 --megabytes 128 --servers tests
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.processes import ROOT
from benchmarks.store_proxy import running_proxy
from benchmarks.store_requests import round_trips, within
from benchmarks.store_server import BUCKET, find_weed, running_store, variables

CLIENTS = ("fsspec", "obstore")
SERVERS = ("SeaweedFS", "tests")
OBJECT_BYTES = 32 << 20
RANGE_BYTES = 64 << 10
HEAD = "| what | client | seconds | processor | requests | round trips |\n|---|---|---:|---:|---:|---:|"
SMALL, MANY = 2000, 100  # bytes of a small object, and how many of them


@contextmanager
def client(name: str) -> Iterator[None]:
    """Have `Storage` ask stores by a client."""
    if name == "obstore":
        yield
        return
    from hipslake.storage import folder

    def files_at(uri: str) -> Any:
        from hipslake.storage.objects import ObjectFiles  # whose import is measured

        return ObjectFiles(uri.partition("://")[0])

    with mock.patch.object(folder, "_files_at", files_at):
        yield


def measured(root: str, megabytes: int) -> list[dict[str, Any]]:
    """The stretches of one client: what was done, when, the processor's seconds, bytes, number of calls."""
    spans: list[dict[str, Any]] = []

    def stretch(what: str, work: Callable[[], Any], *, size: int = 0, calls: int = 1) -> None:
        began, cpu = time.monotonic(), time.process_time()
        work()
        cpu = time.process_time() - cpu
        told = {"what": what, "began": began, "ended": time.monotonic(), "cpu": cpu}
        spans.append(told | {"bytes": size, "calls": calls})

    from hipslake.storage.folder import Storage
    from hipslake.storage.request_pool import AskedRange, RequestPool

    def together(asked: list[tuple[str, int, int]]) -> list[Any]:
        with RequestPool() as pool:
            return [came.result() for came in pool.ranges([AskedRange(storage, *each) for each in asked])]

    storage = Storage.at(root)
    stretch("import of the client, and first request", lambda: storage.is_file("nothing"))
    data = os.urandom(OBJECT_BYTES)
    large = [f"large/{number}" for number in range(max(1, (megabytes << 20) // OBJECT_BYTES))]
    small = [f"small/{number}" for number in range(MANY)]
    ranges = [(large[at % len(large)], at << 16, (at << 16) + RANGE_BYTES) for at in range(MANY)]
    total = len(large) * OBJECT_BYTES

    def stream(path: str) -> None:
        view = memoryview(data)
        with storage.open(path, "wb") as file:
            for at in range(0, OBJECT_BYTES, 1 << 20):
                file.write(view[at : at + (1 << 20)])

    stretch("write objects of 32 MiB", lambda: [storage.write(path, data) for path in large], size=total)
    stretch("write them as streams", lambda: [stream(path) for path in large], size=total)
    stretch("read them", lambda: [storage.read(path) for path in large], size=total)
    stretch(
        "read them through pyarrow",
        lambda: [storage.arrow_file(path, OBJECT_BYTES).read_buffer() for path in large],
        size=total,
    )
    stretch("read 64 KiB", lambda: [storage.read_range(*each) for each in ranges], calls=MANY)
    stretch("read 64 KiB of 100 places at once", lambda: together(ranges), calls=MANY)
    stretch("write 2 kB", lambda: [storage.write(path, data[:SMALL]) for path in small], calls=MANY)
    files = dict.fromkeys(small, data[:SMALL])
    stretch("write 2 kB of 100 files at once", lambda: storage.write_all(files), calls=MANY)
    new = [f"new/{path}" for path in small]
    stretch("create 2 kB", lambda: [storage.create(path, data[:SMALL]) for path in new], calls=MANY)
    stretch("look at one", lambda: [storage.entry(path) for path in small], calls=MANY)
    stretch("list 100", lambda: [storage.list("small") for _ in range(20)], calls=20)
    stretch("delete one", lambda: [storage.delete(path) for path in new], calls=MANY)
    stretch("delete 100 at once", lambda: storage.delete_all(small), calls=MANY)
    storage.delete_tree("large")
    return spans


@contextmanager
def served(name: str, weed: Path | None, folder: Path) -> Iterator[str]:
    """The endpoint of a server with an empty bucket."""
    if name == "tests":
        from tests.stores.s3_server import running_s3

        with running_s3() as server:
            server.client().create_bucket(Bucket=BUCKET)
            yield server.endpoint
        return
    if weed is None:
        raise SystemExit("store_clients: SeaweedFS is missing; it comes with the peers (make peers)")
    with running_store(weed, folder) as store:
        yield store.endpoint


def compared(endpoint: str, latency: float, megabytes: int) -> list[str]:
    """The rows of the table of one server."""
    rows: dict[str, list[str]] = {}
    with running_proxy(endpoint.removeprefix("http://")) as proxy:
        proxy.set(latency=latency)
        for name in CLIENTS:
            proxy.take()
            command = [sys.executable, "-m", "benchmarks.store_clients", "--client", name]
            told = subprocess.run(
                [*command, f"--megabytes={megabytes}"],
                env={**os.environ, **variables(proxy.endpoint)},
                cwd=ROOT,
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            ).stdout
            asked = proxy.take().asked
            for span in json.loads(told.splitlines()[-1]):
                mine = within(asked, span["began"], span["ended"])
                rows.setdefault(span["what"], []).append(_row(name, span, len(mine), round_trips(mine)))
    return [row for each in rows.values() for row in each]


def _row(name: str, span: dict[str, Any], requests: int, trips: int) -> str:
    seconds, cpu = span["ended"] - span["began"], span["cpu"]
    weight = f"{cpu / span['calls'] * 1e3:.2f} ms"
    if span["bytes"]:
        weight = f"{cpu / span['bytes'] * 1e9:.2f} s/GB"
    return f"| {span['what']} | {name} | {seconds:.2f} | {weight} | {requests} | {trips} |"


def main(argv: list[str] | None = None) -> int:
    """Measure each server, or, in a process of its own, one client."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--servers", nargs="+", choices=SERVERS, default=list(SERVERS))
    parser.add_argument("--latency", type=int, default=0, help="ms of each request")
    parser.add_argument("--megabytes", type=int, default=384, help="of the objects that are weighed")
    parser.add_argument("--folder", type=Path, default=ROOT / ".data" / "bench", help="for the server's data")
    parser.add_argument("--client", choices=CLIENTS, help=argparse.SUPPRESS)
    peers = os.environ.get("HIPSLAKE_PEERS_PYTHON", str(ROOT / ".venv-peers" / "bin" / "python"))
    parser.add_argument("--peers-python", default=peers)
    options = parser.parse_args(argv)
    if options.client:
        with client(options.client):
            print(json.dumps(measured(f"s3://{BUCKET}/{options.client}", options.megabytes)))
        return 0
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.servers:
        with ExitStack() as held:
            place = held.enter_context(tempfile.TemporaryDirectory(prefix="clients-", dir=options.folder))
            endpoint = held.enter_context(served(name, find_weed(options.peers_python), Path(place)))
            print(f"\n{name}, {options.latency} ms a request, load {os.getloadavg()[0]:.1f}\n")
            print(HEAD)
            print("\n".join(compared(endpoint, options.latency / 1000, options.megabytes)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
