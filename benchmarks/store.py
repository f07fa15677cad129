"""What an object store with latency costs: `make bench-store`.

A server of S3 that costs next to no processor, as one with machines of its own would, serves a folder, and a
proxy before it lets each request wait (0, 10, 30 and 100 ms), counts requests, and says which had to wait for
each other. With `--server seaweedfs` it is SeaweedFS, which takes more of the cores than what is measured.
Measured are the ingest beside that on the local disk, a catalog of 4 million leaves that is opened and asked
for a cone, a night of 50,000 rows, and what the processor does for bytes. Each run is a process of its own,
and sources lie where the warehouse lies.

    python -m benchmarks.store                                      1M and 20M rows: the page goes to docs/
    python -m benchmarks.store --rows 1M --latencies 0 30 --leaves 250000 --repeats 1
    python -m benchmarks.store --tasks open night --latencies 30 --server seaweedfs

Ends with exit code 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import store_page
from benchmarks.machine import described_in_a_line
from benchmarks.milky_way import write_survey
from benchmarks.processes import ROOT, Usage, environment, run_measured
from benchmarks.sizes import format_count, parse_count, parse_millions
from benchmarks.store_bars import DISK, INGEST_LATENCY, STORE, verdicts
from benchmarks.store_proxy import StoreProxy, Told, running_proxy
from benchmarks.store_proxy_speed import measured_speed
from benchmarks.store_requests import Asked, chain, counted, kinds_in_a_row, round_trips, within
from benchmarks.store_server import BUCKET, StoreServer, find_weed, running_store, variables
from benchmarks.thin_store import running_thin_store

CORES = 2
SIZES = [1_000_000, 20_000_000]
LATENCIES = [0, 10, 30, 100]  # ms
LEAVES = 4_000_000
REPEATS = 3
TASKS = ("bytes", "open", "night", "ingest")
NIGHT_ROWS, BASE_ROWS = 50_000, 1_000_000
THIN, SEAWEEDFS = "thin", "seaweedfs"
KEPT = ROOT / "docs" / "benchmarks" / "store.md"
SOURCE_BYTES, OUTPUT_BYTES = (
    110,
    80,
)  # of a row; what is removed from the store may lie on the disk for a while

Run = dict[str, Any]


class Bench:
    """A store with a proxy before it, and programs that are measured there."""

    def __init__(self, folder: Path, server: StoreServer, proxy: StoreProxy) -> None:
        self.folder, self.server, self.proxy = folder, server, proxy
        self.log = folder / "program.log"

    def weighed(self, command: list[str], latency: int) -> tuple[Run, list[Asked]]:
        """Run a program; what it took, and its requests.

        Parameters
        ----------
        command : list of str
            Of the interpreter.
        latency : int
            Of each request, in ms.
        """
        self.proxy.set(latency=latency / 1000)
        before, server = self.proxy.take(), self.server.cpu_seconds()
        usage = run_measured(
            [sys.executable, *command],
            log=self.log,
            variables=environment() | variables(self.proxy.endpoint),
        )
        told = self.proxy.take()
        weights = _weights(usage, told)
        weights |= {"server_cpu": self.server.cpu_seconds() - server, "proxy_cpu": told.cpu - before.cpu}
        return {"latency": latency, **weights}, told.asked

    def parts(self, command: list[str], latency: int, task: str, **more: Any) -> list[Run]:
        """Run a program of `store_runs`; a run for each stretch that it tells, and one for all of it."""
        whole, asked = self.weighed(["-m", "benchmarks.store_runs", *command], latency)
        spans = json.loads(self.log.read_text().splitlines()[-1])["spans"]
        runs = [{"task": task, "part": "", **more, **whole, "seconds": _seconds(spans)}]
        for span in spans:
            mine = within(asked, span["began"], span["ended"])
            seconds = span["ended"] - span["began"]
            told = {key: span[key] for key in ("cpu", "bytes", "leaves", "rows") if key in span}
            name = {"task": task, "part": span["name"], "latency": latency}
            runs.append({**name, **more, **told, "seconds": seconds, **_requests(mine)})
        return runs


def _seconds(spans: list[dict[str, Any]]) -> float:
    return float(sum(span["ended"] - span["began"] for span in spans))


def _weights(usage: Usage, told: Told) -> Run:
    return {
        "whole_seconds": usage.seconds,
        "cpu_seconds": usage.cpu_seconds,
        "peak_bytes": usage.peak_bytes,
        "connections": told.connections,
        **_requests(told.asked),
    }


def _requests(asked: list[Asked]) -> Run:
    """What some requests come to."""
    return {
        "requests": len(asked),
        "kinds": counted(asked),
        "round_trips": round_trips(asked),
        "chain": kinds_in_a_row(chain(asked)),
        "sent": sum(each.sent for each in asked),
        "received": sum(each.received for each in asked),
    }


def upload(files: list[Path], uri: str) -> None:
    """Copy files to a folder in the store."""
    from hipslake.storage.folder import Storage

    storage = Storage.at(uri)
    for path in files:
        storage.write(path.name, path.read_bytes())


def remove(uri: str) -> None:
    """Remove a folder in the store."""
    from hipslake.storage.folder import Storage

    folder, _, name = uri.rpartition("/")
    Storage.at(folder).delete_tree(name)


def leaves_of(catalog: str) -> list[list[Any]]:
    """The leaves of a catalog, with the rows and the checksum of each."""
    from hipslake import Catalog

    opened = Catalog.open(catalog)
    table = opened.metadata.partitions(None, opened.storage)
    return [table[name].to_pylist() for name in ("order", "npix", "rows", "sha256")]


def measure_bytes(bench: Bench, options: Any) -> list[Run]:
    """Write and read objects: on the disk, and in the store without and with latency."""
    runs: list[Run] = [{"task": "proxy", **measured_speed(options.megabytes)._asdict()}]
    latencies = sorted({0, INGEST_LATENCY})
    for repeat in range(options.repeats):
        with tempfile.TemporaryDirectory(dir=bench.folder) as folder:
            command = ["bytes", f"--megabytes={options.megabytes}", f"--folder={folder}"]
            runs += bench.parts(command, 0, "bytes", place=DISK, repeat=repeat)
        for latency in latencies:
            command = [*command[:2], f"--folder=s3://{BUCKET}/bytes"]
            runs += bench.parts(command, latency, "bytes", place=STORE, repeat=repeat)
    return runs


def measure_open(bench: Bench, options: Any) -> list[Run]:
    """Open the catalog of very many leaves and read a cone, at each latency."""
    from benchmarks.store_sky import CONE, write_sky

    catalog = f"s3://{BUCKET}/sky"
    sky = write_sky(catalog, options.leaves)
    command = ["open", f"--catalog={catalog}", f"--ra={CONE.ra}", f"--dec={CONE.dec}"]
    command.append(f"--radius={CONE.radius_deg}")
    runs = []
    for repeat in range(options.repeats):
        for latency in options.latencies:
            found = bench.parts(command, latency, "open", repeat=repeat, asked_leaves=options.leaves)
            whole, _, cone = found
            if cone["rows"] != sky.rows:
                raise SystemExit(f"the cone has {cone['rows']} rows, and {sky.rows} were written into it")
            whole |= {"sky": sky._asdict()}
            runs += found
    remove(catalog)
    return runs


def measure_night(bench: Bench, options: Any) -> list[Run]:
    """Publish nights into a catalog of a million rows, one at each latency."""
    import pyarrow.parquet as pq

    from benchmarks.append import rows_in
    from benchmarks.store_runs import folder_of_night

    warehouse, landing = f"s3://{BUCKET}/nights", f"s3://{BUCKET}/landing"
    runs: list[Run] = []
    wanted = [latency for _ in range(options.repeats) for latency in options.latencies]
    for number in range(len(wanted) + 1):
        rows = NIGHT_ROWS if number else BASE_ROWS
        file = bench.folder / "night.parquet"
        pq.write_table(rows_in(1, rows, seed=number), file, row_group_size=200_000)
        upload([file], folder_of_night(landing, number))
        command = ["night", f"--warehouse={warehouse}", f"--landing={landing}", f"--night={number}"]
        found = bench.parts(command, wanted[number - 1] if number else 0, "night", repeat=number)
        runs += found if number else []
    _check_rows(f"{warehouse}/catalogs/stars", BASE_ROWS + len(wanted) * NIGHT_ROWS)
    return runs


def _check_rows(catalog: str, rows: int) -> None:
    from hipslake import Catalog

    found = Catalog.open(catalog).metadata.total_rows
    if found != rows:
        raise SystemExit(f"{catalog} has {found} rows, and {rows} came")


def measure_ingest(bench: Bench, options: Any) -> list[Run]:
    """Ingest each size on the disk and in the store, by turns; hold the leaves against each other."""
    runs: list[Run] = []
    for rows in options.rows:
        files = write_survey(bench.folder.parent / "stars", rows)
        near, far = bench.folder / f"stars_{format_count(rows)}", f"s3://{BUCKET}/stars_{rows}"
        near.mkdir(exist_ok=True)
        for path in files:
            if not (near / path.name).exists():
                (near / path.name).hardlink_to(path)
        upload(files, far)
        for repeat in range(options.repeats):
            run, expected = _ingest(bench, str(near), "", rows, 0)
            runs.append({**run, "place": DISK, "repeat": repeat, "equal": True})
            for latency in options.latencies:
                # One of its own for each: SeaweedFS goes on to list the folders of what was removed.
                warehouse = f"s3://{BUCKET}/warehouse_{rows}_{repeat}_{latency}"
                run, leaves = _ingest(bench, far, warehouse, rows, latency)
                runs.append({**run, "place": STORE, "repeat": repeat, "equal": leaves == expected})
                print(f"{format_count(rows)} rows, {latency} ms: {run['seconds']:.1f} s", flush=True)
        remove(far)
    return runs


def _ingest(bench: Bench, source: str, warehouse: str, rows: int, latency: int) -> tuple[Run, Any]:
    """Ingest once; what it took, and the leaves. The output is removed."""
    output, report_file = bench.folder / "output", bench.folder / "report.json"
    shutil.rmtree(output, ignore_errors=True)
    command = ["-m", "benchmarks.hipslake_ingest", f"--source={source}", f"--output={output}"]
    command += [f"--report={report_file}", f"--threshold={min(1_000_000, rows // 10)}"]
    os.sync()
    run, asked = bench.weighed([*command, f"--warehouse={warehouse}"], latency)
    report = json.loads(report_file.read_text())
    steps = {
        step: {"seconds": report["wall"][step], **_requests(within(asked, *report["spans"][step]))}
        for step in report["spans"]
    }
    run |= {"task": "ingest", "rows": rows, "seconds": report["seconds"], "steps": steps}
    leaves = leaves_of(f"{warehouse or output / 'warehouse'}/catalogs/milky_way")
    shutil.rmtree(output)
    if warehouse:
        remove(warehouse)
    return run, leaves


def main(argv: list[str] | None = None) -> int:
    """Measure what is wanted; print the page and keep it."""
    options = _options(argv)
    weed = find_weed(options.peers_python)
    if options.server == SEAWEEDFS and weed is None:
        print("bench-store: SeaweedFS is missing; it comes with the peers (make peers)", file=sys.stderr)
        return 2
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])  # inherited by all that is started
    options.folder.mkdir(parents=True, exist_ok=True)
    _check_space(options)
    load = os.getloadavg()[0]
    with ExitStack() as held:
        place = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="store-", dir=options.folder)))
        served = place / "server"
        served.mkdir()
        if options.server == THIN:
            server = held.enter_context(running_thin_store(served, BUCKET))
        else:
            assert weed is not None
            server = held.enter_context(running_store(weed, served))
        proxy = held.enter_context(running_proxy(server.endpoint.removeprefix("http://")))
        os.environ.update(variables(server.endpoint))  # this process is not measured
        bench = Bench(place, server, proxy)
        measures = {
            "bytes": measure_bytes,
            "open": measure_open,
            "night": measure_night,
            "ingest": measure_ingest,
        }
        runs = []
        for task in options.tasks:
            runs += measures[task](bench, options)
            print(f"{task} done at {datetime.now(UTC):%H:%M:%S}", flush=True)
    judged = list(verdicts(runs))
    result = {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "machine": described_in_a_line(),
        "load": load,
        "server": options.server,
        "repeats": options.repeats,
        "runs": runs,
        "verdicts": [verdict._asdict() for verdict in judged],
    }
    (options.folder / "store.json").write_text(json.dumps(result, indent=1) + "\n")
    text = store_page.page(result)
    print(text)
    (KEPT if options.whole else options.folder / "store.md").write_text(text + "\n")
    return 0 if all(verdict.passed for verdict in judged) else 1


def _check_space(options: Any) -> None:
    outputs = 1 + options.repeats * len(options.latencies)
    need = sum(options.rows) * (2 * SOURCE_BYTES + outputs * OUTPUT_BYTES)
    free = shutil.disk_usage(options.folder).free
    if "ingest" in options.tasks and free < need:
        raise SystemExit(
            f"{options.folder}: {free / 1e9:.0f} GB are free and {need / 1e9:.0f} are needed; use --folder"
        )


def _options(argv: list[str] | None) -> Any:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=parse_millions, nargs="+", default=SIZES, help="default: 1M 20M")
    parser.add_argument("--latencies", type=int, nargs="+", default=LATENCIES, help="ms of each request")
    parser.add_argument("--leaves", type=parse_count, default=LEAVES, help="of the simulated catalog, about")
    parser.add_argument("--megabytes", type=int, default=1024, help="that are written and read")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--repeats", type=int, default=REPEATS, help="of which medians are judged")
    parser.add_argument("--server", choices=(THIN, SEAWEEDFS), default=THIN, help="that serves S3")
    parser.add_argument("--folder", type=Path, default=ROOT / ".data" / "bench", help="for data and outputs")
    parser.add_argument(
        "--peers-python",
        default=os.environ.get("HIPSLAKE_PEERS_PYTHON", str(ROOT / ".venv-peers" / "bin" / "python")),
    )
    options = parser.parse_args(argv)
    options.folder = options.folder.resolve()
    asked = (options.rows, options.latencies, options.leaves, tuple(options.tasks), options.server)
    options.whole = asked == (SIZES, LATENCIES, LEAVES, TASKS, THIN)
    return options


if __name__ == "__main__":
    sys.exit(main())
