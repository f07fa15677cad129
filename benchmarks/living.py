"""What a night of changed rows costs, and what follows it: `make bench-living`.

Catalogs of 1M, 10M and (by `--sizes 1 10 40`) 40M rows of equal density: so many pixels of order 1, a million
rows in each. Nights of 50,000 records insert, change, move and delete rows of one field, which lies well
inside the smallest catalog; a cross-match, an index and light curves go on from their last version. Each run
is a process of its own, from its first step to the view, without Spark. Then all is made anew: leaves of the
outcomes have to be the same to the byte, and the rows of the catalog those that numpy says. What each size
came to is printed when it is measured. 40M rows take more than 30 GB of disk. Ends
with exit code 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks import living_page
from benchmarks.living_rows import NIGHTS, UNITS, rows_after
from benchmarks.living_runs import (
    CATALOGS,
    INDEX,
    INDEXED,
    JOINS,
    VIEW,
    WEIGHED,
    digest_of,
    index_sums,
    land,
    leaves_of,
    rows_of,
    run,
)
from benchmarks.processes import ROOT

KEPT = ROOT / "docs" / "benchmarks" / "living.md"
TIMES = 3
"""Nights that are weighed; in one more, files are counted."""


def build(place: Path, units: int, catalogs: list[str]) -> dict[str, float]:
    """Publish all catalogs and the first version of what follows; the seconds that each took."""
    seconds = {}
    for name in catalogs:
        for unit in range(units):
            rows = UNITS[name](unit)
            if name in NIGHTS:
                rows = rows.append_column("op", pa.array(["I"] * rows.num_rows))
            land(place, name, 0, unit, rows)
        seconds[name] = run(place, name)["total"]["seconds"]
    for name in (*JOINS, *INDEXED):
        seconds[name] = run(place, name)["total"]["seconds"]
    return seconds


def built(place: Path, units: int, catalogs: list[str]) -> dict[str, float]:
    """As `build`; a place that was built before is taken as it was when it was built.

    Nights change no file that is there, so that a copy of links is enough to come back to.
    """
    done, work = place / "built", place / "work"
    told = place / "seconds.json"
    if not told.is_file():
        for folder in (done, work):
            shutil.rmtree(folder, ignore_errors=True)
        work.mkdir(parents=True)
        seconds = build(work, units, catalogs)
        shutil.copytree(work, done, symlinks=True, copy_function=os.link)
        told.write_text(json.dumps(seconds))
    else:
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(done, work, symlinks=True, copy_function=os.link)
    found: dict[str, float] = json.loads(told.read_text())
    return found


def weighed(runs: list[dict[str, Any]], traced: dict[str, Any]) -> dict[str, dict[str, float]]:
    """What the median of some runs took, and how many files another opened: without the view, and its own."""
    found: dict[str, dict[str, float]] = {"": {}, VIEW: {}}
    for name in WEIGHED:
        found[VIEW][name] = statistics.median(each["steps"][VIEW][name] for each in runs)
        found[""][name] = statistics.median(each["total"][name] - each["steps"][VIEW][name] for each in runs)
    found[VIEW]["files opened"] = traced["files"].get(VIEW, 0)
    found[""]["files opened"] = sum(traced["files"].values()) - traced["files"].get(VIEW, 0)
    return found


def measure(place: Path, units: int, catalogs: list[str]) -> dict[str, Any]:
    """What the median night costs, what follows it, and what making all of it anew does."""
    seconds = built(place, units, catalogs)
    place = place / "work"
    followed = [name for name in catalogs if name in NIGHTS] + [*JOINS, INDEX]
    followed.sort(key=list(living_page.TITLES).index)
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in followed}
    nights: dict[str, list[Any]] = {name: [] for name in NIGHTS}
    for night in range(1, TIMES + 2):
        for name in followed:
            if name in NIGHTS:
                nights[name].append(NIGHTS[name](night))
                land(place, name, night, 0, nights[name][-1])
            runs[name].append(run(place, name, night=night, trace=night == TIMES + 1))
    found: dict[str, Any] = {"weighed": {}, "full seconds": {}, "equal": {}, "report": {}}
    for name, (*timed, traced) in runs.items():
        found["weighed"][name] = weighed(timed, traced)
        found["report"][name] = traced["report"]
        if name not in NIGHTS:
            went_on = sums_of(place, name)
            found["full seconds"][name] = run(place, name, full=True)["total"]["seconds"]
            found["equal"][name] = went_on == sums_of(place, name)
        else:
            found["full seconds"][name] = seconds[name]
            found["equal"][name] = holds(place, units, name, nights[name])
    return found


def sums_of(place: Path, name: str) -> str:
    """What tells the files of a join or of the index from others."""
    return index_sums(place) if name == INDEX else leaves_of(place, name)


def holds(place: Path, units: int, name: str, nights: list[Any]) -> bool:
    """Whether the rows of a catalog are those that its nights leave, by SHA-256 of each unit."""
    columns = UNITS[name](0).column_names
    expected = {
        unit: digest_of(rows_after(UNITS[name](unit), nights if not unit else [])) for unit in range(units)
    }
    return rows_of(place, name, columns) == expected


def main() -> int:
    """Measure all sizes; print the outcome and keep it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 10], help="millions of rows: up to 40")
    parser.add_argument("--place", type=Path, help="a folder that keeps what was built, for the next run")
    parser.add_argument("--no-scattered", action="store_true", help="leave out the one with scattered keys")
    parser.add_argument("--page", type=Path, default=KEPT, help="where the outcome is kept")
    given = parser.parse_args()
    if shutil.which("strace") is None:
        print("bench-living: strace is missing; install it (apt-get install strace)", file=sys.stderr)
        return 2
    catalogs = [name for name in CATALOGS if not (given.no_scattered and name == "scattered")]
    found, load = [], os.getloadavg()[0]
    for size in given.sizes:
        with tempfile.TemporaryDirectory(prefix="hipslake-bench-", dir=os.environ.get("TMPDIR")) as folder:
            place = Path(folder) if given.place is None else given.place / f"{size}M"
            place.mkdir(parents=True, exist_ok=True)
            found.append(measure(place.resolve(), size, catalogs))
            print(json.dumps({"millions of rows": size, **found[-1]}), file=sys.stderr, flush=True)
    text, passed = living_page.page(given.sizes, found, TIMES, datetime.now(UTC).date(), load)
    print(text)
    given.page.write_text(text + "\n")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
