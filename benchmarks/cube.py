"""A cube of two datasets and 20 partitions, held against kartothek 5.3.0: `make bench-cube`.

Both build the same cube of the same Parquet files, and answer the same queries, in turns, each system in
a process of its own per turn; the least time of the turns counts. kartothek needs Python 3.8: `--peer` names
the interpreter of an environment that holds it, made as `tests/cube/oracle/generate.py` says. Without,
hipslake is measured alone.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.processes import ROOT, environment
from benchmarks.sizes import format_count

PARTITIONS = 20
WORK = ("build", "all rows", "restricted", "one partition", "one value of an index")


def main() -> None:
    """Run the benchmark, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=2_000_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--peer", help="the Python of an environment with kartothek 5.3.0")
    given = parser.parse_args()
    systems = {"hipslake": [sys.executable, str(ROOT / "benchmarks" / "cube_hipslake.py")]}
    if given.peer:
        systems["kartothek"] = [given.peer, str(ROOT / "benchmarks" / "cube_kartothek.py")]
    best: dict[str, dict[str, float]] = {name: {} for name in systems}
    with tempfile.TemporaryDirectory(prefix="bench-cube-") as folder:
        write_rows(Path(folder), given.cells)
        rows: dict[str, dict[str, int]] = {}
        for turn in range(given.turns):
            for name, command in systems.items():
                place = Path(folder) / f"{name}-{turn}"
                place.mkdir()
                result = run([*command, folder, str(place)], own=name == "hipslake")
                rows[name] = result["rows"]
                for what, seconds in result["seconds"].items():
                    best[name][what] = min(seconds, best[name].get(what, seconds))
        assert len({json.dumps(each, sort_keys=True) for each in rows.values()}) == 1, "the rows differ"
    print(f"\n{format_count(given.cells)} cells in 2 datasets and {PARTITIONS} partitions, seconds\n")
    print("| |" + "|".join(best) + "|")
    print("|---|" + "---:|" * len(best))
    for what in WORK:
        print(f"| {what} |" + "|".join(f" {each[what]:.2f} " for each in best.values()) + "|")


def write_rows(folder: Path, cells: int) -> None:
    """The seed, with an index, and a dataset that conditions restrict."""
    random = np.random.default_rng(1)
    x = np.arange(cells)
    place = {"p": x % PARTITIONS, "x": x}
    seed = pa.table({**place, "i": random.integers(0, 1000, cells), "v": random.random(cells)})
    more = pa.table({**place, "w": random.random(cells), "flag": random.random(cells) < 0.1})
    pq.write_table(seed, folder / "seed.parquet")
    pq.write_table(more, folder / "more.parquet")


def run(command: list[str], *, own: bool) -> dict[str, dict[str, float]]:
    """Run one system's program; it prints JSON."""
    process = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=True, env=environment() if own else None
    )
    found: dict[str, dict[str, float]] = json.loads(process.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    main()
