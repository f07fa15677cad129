"""What a night costs in a match and in light curves that follow their catalogs: `make bench-living`.

Catalogs of 1M, 10M and (by `--sizes 1 10 40`) 40M rows of equal density: so many pixels of order 1, a million
rows in each. Nights of 50,000 rows come to one of them, and the match and the light curves go on from their
last version, in a process of their own, from `resolve` to the view, without Spark. Bytes are those that the
process read and wrote, as the kernel counts them; strace counts the files of the catalogs that are opened.
Then both are made anew from the same versions: leaves have to be the same, byte for byte. Ends with
exit code 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import healpy
import numpy as np
import pyarrow as pa

from benchmarks.append import opened
from benchmarks.processes import ROOT, environment

UNIT_ROWS = 1_000_000  # of a catalog, in each pixel of order 1
OBJECTS = 100_000  # of a catalog of objects, there
NIGHT_ROWS = 50_000
NIGHTS = 3
BARS = {"files opened": 1.2, "bytes read": 1.2, "bytes written": 1.2, "seconds": 1.3}
OF_FULL = 0.1  # of the seconds of a full run, at 40M rows
KEPT = ROOT / "docs" / "benchmarks" / "living.md"
FIRST = datetime(2026, 10, 1, tzinfo=UTC)
NIGHTLY = {"mode": "append", "position": {"ra": "ra", "dec": "dec"}, "threshold": "50000 rows"}
CATALOGS: dict[str, dict[str, Any]] = {
    "stars": NIGHTLY,
    "others": NIGHTLY | {"margin": {"arcsec": [5]}},
    "objects": NIGHTLY | {"co_partitioned": ["id"], "threshold": "10000 rows"},
    "sources": NIGHTLY | {"position_from": {"catalog": "objects", "on": {"object_id": "id"}}},
}
JOINS: dict[str, dict[str, Any]] = {
    "match": {
        "type": "crossmatch",
        "left": {"catalog": "stars"},
        "right": {"catalog": "others", "columns": ["id", "value_0"]},
        "radius_arcsec": 2,
        "threshold": "50000 rows",
    },
    "light curves": {
        "type": "equijoin",
        "left": {"catalog": "objects"},
        "right": {"catalog": "sources", "columns": ["time", "value_0"]},
        "on": {"id": "object_id"},
        "nested": {"time": "time"},
        "threshold": "10000 rows",
    },
}
NAMES = {"match": "pairs", "light curves": "curves"}


def places(units: int, rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions spread evenly over the first pixels of order 1."""
    h29 = np.random.default_rng(seed).integers(0, units << 56, rows)
    ra, dec = healpy.pix2ang(1 << 29, h29, nest=True, lonlat=True)
    return ra, dec


def rows_at(ra: np.ndarray, dec: np.ndarray, seed: int, first: int = 0) -> pa.Table:
    """Rows of a catalog of stars."""
    rng = np.random.default_rng([seed, 1])
    values = {f"value_{number}": rng.normal(size=len(ra)) for number in range(4)}
    return pa.table({"id": first + np.arange(len(ra)), "ra": ra, "dec": dec, **values})


def sources_of(objects: pa.Table, rows: int, seed: int) -> pa.Table:
    """Rows of a catalog of sources."""
    rng = np.random.default_rng([seed, 2])
    seen = objects.select(["id", "ra", "dec"]).take(pa.array(rng.integers(0, objects.num_rows, rows)))
    seen = seen.rename_columns(["object_id", "ra", "dec"])
    for name, values in (("time", rng.uniform(0, 900, rows)), ("value_0", rng.normal(size=rows))):
        seen = seen.append_column(name, pa.array(values))
    return seen


def ingest(place: Path, name: str, night: int, rows: pa.Table) -> None:
    """Publish a night of a catalog."""
    import hipslake

    spec = CATALOGS[name] | {"name": name}
    interval = FIRST + timedelta(days=night)
    hipslake.ingest(rows, spec=spec, warehouse=place, interval=interval, spark=False)


def publish(place: str, join: str, full: bool) -> dict[str, Any]:
    """Publish a join in this process; what it took, and what came of it."""
    from hipslake.api.publishing import published_join

    before, began = _io(), time.perf_counter()
    outcome = published_join(
        JOINS[join] | {"name": NAMES[join]}, warehouse=place, full=full, force=full, spark=False
    )
    seconds, after = time.perf_counter() - began, _io()
    (path,) = Path(outcome.run_uri, "reports").glob("*join.json" if join != "match" else "crossmatch.json")
    report = json.loads(path.read_text())
    table = outcome.catalog.metadata.partitions(None, outcome.catalog.storage)
    leaves = [table[name].to_pylist() for name in ("order", "npix", "sha256")]
    return {
        "seconds": seconds,
        "bytes read": after["rchar"] - before["rchar"],
        "bytes written": after["wchar"] - before["wchar"],
        "leaves": hashlib.sha256(json.dumps(leaves).encode()).hexdigest(),
        **{name: report[name] for name in ("leaves_written", "leaves_kept", "full_because")},
    }


def _io() -> dict[str, int]:
    lines = Path("/proc/self/io").read_text().splitlines()
    return {name: int(value) for name, value in (line.split(": ") for line in lines)}


def published(place: Path, join: str, *, full: bool = False, trace: Path | None = None) -> dict[str, Any]:
    """Publish a join in a process of its own, under strace if it is to be traced."""
    command = [sys.executable, "-m", "benchmarks.living", "--publish", join, "--place", str(place)]
    command += ["--full"] if full else []
    if trace is not None:
        command = ["strace", "-f", "-z", "-e", "trace=openat", "-o", str(trace), *command]
    done = subprocess.run(command, env=environment(), cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return measured


def build(place: Path, units: int) -> pa.Table:
    """Publish all catalogs, and the first version of both joins; the objects of the first unit come back."""
    ra, dec = places(units, units * UNIT_ROWS, seed=0)
    ingest(place, "stars", 0, rows_at(ra, dec, seed=0))
    ingest(place, "others", 0, rows_at(ra + 1e-4, np.clip(dec, -89.9, 89.9), seed=1))
    objects = rows_at(*places(units, units * OBJECTS, seed=2), seed=2)
    ingest(place, "objects", 0, objects)
    ingest(place, "sources", 0, sources_of(objects, units * UNIT_ROWS, seed=3))
    for join in JOINS:
        published(place, join)
    inside = (
        healpy.ang2pix(2, objects["ra"].to_numpy(), objects["dec"].to_numpy(), nest=True, lonlat=True) == 0
    )
    return objects.filter(pa.array(inside))


def come(place: Path, night: int, objects: pa.Table) -> None:
    """Publish what a night brings, all of it in one pixel of order 1."""
    ra, dec = places(1, NIGHT_ROWS, seed=100 + night)
    ingest(place, "others", night, rows_at(ra, dec, seed=100 + night, first=night << 40))
    ingest(place, "sources", night, sources_of(objects, NIGHT_ROWS, seed=100 + night))


def measure(place: Path, units: int) -> dict[str, dict[str, Any]]:
    """What the median night costs each join, and what a full run of the same versions does."""
    objects = build(place, units)
    nights: dict[str, list[dict[str, Any]]] = {join: [] for join in JOINS}
    for night in range(1, NIGHTS + 1):
        come(place, night, objects)
        for join in JOINS:
            nights[join].append(published(place, join))
    found = {}
    come(place, NIGHTS + 1, objects)
    for join, measured in nights.items():
        trace = place / "trace"
        last = published(place, join, trace=trace)
        files = opened(trace, place / "catalogs")
        anew = published(place, join, full=True)
        medians = {name: statistics.median(each[name] for each in measured) for name in list(BARS)[1:]}
        found[join] = {
            **medians,
            "files opened": files,
            "full seconds": anew["seconds"],
            "full bytes read": anew["bytes read"],
            "equal": last["leaves"] == anew["leaves"],
            "written": last["leaves_written"],
            "kept": last["leaves_kept"],
            "because": last["full_because"],
        }
    return found


def report(sizes: list[int], found: list[dict[str, dict[str, Any]]]) -> tuple[str, bool]:
    """The outcome as Markdown, and whether every bar was kept."""
    names = [f"{size}M rows" for size in sizes]
    lines = [
        "# Living catalogs",
        "",
        f"A night of {NIGHT_ROWS:,} rows comes to catalogs of {', '.join(names)}, as dense, and what is",
        f"joined of them follows. Median of {NIGHTS} nights. Made by `make bench-living`.",
    ]
    passed = True
    for join in JOINS:
        mine = [each[join] for each in found]
        lines += ["", f"## {join.capitalize()}", "", f"| | {' | '.join(names)} | ratio | wanted | |"]
        lines.append(f"|---|{'---:|' * len(names)}---:|---:|---|")
        for name, bar in BARS.items():
            ratio = mine[-1][name] / mine[0][name]
            passed &= ratio < bar
            values = " | ".join(f"{each[name]:,.4g}" for each in mine)
            lines.append(
                f"| {name} | {values} | {ratio:.2f} | < {bar} | {'pass' if ratio < bar else 'FAIL'} |"
            )
        share = mine[-1]["seconds"] / mine[-1]["full seconds"]
        bar, verdict = ("", "") if sizes[-1] < 40 else (f"< {OF_FULL}", "pass" if share < OF_FULL else "FAIL")
        passed &= verdict != "FAIL"
        for name in ("full seconds", "full bytes read"):
            lines.append(f"| {name} | {' | '.join(f'{each[name]:,.4g}' for each in mine)} | | | |")
        shares = [f"{each['seconds'] / each['full seconds']:.2f}" for each in mine]
        lines.append(f"| share of the full run | {' | '.join(shares)} | | {bar} | {verdict} |")
        kept = " | ".join(f"{each['written']} of {each['written'] + each['kept']}" for each in mine)
        lines.append(f"| leaves written | {kept} | | | |")
        equal = all(each["equal"] for each in mine)
        passed &= equal
        lines += ["", f"Leaves of the full run are {'the same, byte for byte' if equal else 'OTHERS: FAIL'}."]
        lines += [
            f"At {name} all rows were joined: {each['because']}."
            for name, each in zip(names, mine, strict=True)
            if each["because"]
        ]
    return "\n".join(lines), passed


def main(sizes: list[int]) -> int:
    """Measure all sizes; print the outcome and keep it."""
    if shutil.which("strace") is None:
        print("bench-living: strace is missing; install it (apt-get install strace)", file=sys.stderr)
        return 2
    found = []
    for size in sizes:
        with tempfile.TemporaryDirectory(prefix="hipslake-bench-", dir=os.environ.get("TMPDIR")) as folder:
            found.append(measure(Path(folder), size))
    text, passed = report(sizes, found)
    print(text)
    KEPT.write_text(text + "\n")
    return 0 if passed else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 10], help="pixels of a million rows each")
    parser.add_argument("--publish", choices=list(JOINS), help="publish this join (for the benchmark itself)")
    parser.add_argument("--place", help="the warehouse (for the benchmark itself)")
    parser.add_argument("--full", action="store_true", help="join all rows (for the benchmark itself)")
    given = parser.parse_args()
    if given.publish:
        print(json.dumps(publish(given.place, given.publish, given.full)))
    else:
        sys.exit(main(given.sizes))
