"""Planning a query of a cube at the scale of a petabyte: a million partition files, of which none is opened.

Two datasets of a million files each, in a thousand by a thousand partitions, with an index of a million
values. The tables of files and the index are written as a build writes them; the data files are not, as
planning reads none of them. Each query is planned in a process of its own, from the opening of the cube to
the list of what is read; its memory is that of the whole process. The bar is 20 s and 4 GB.

    python -m benchmarks.cube_planning                  results go to docs/benchmarks/cube_planning.md

`make bench-cube` runs it after the comparison with kartothek.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hipslake import C, Cube
from hipslake.cube.dataset import labels_column
from hipslake.cube.store.cube_commit import Draft, commit
from hipslake.cube.store.cube_files import encoded
from hipslake.cube.store.dataset_metadata import described
from hipslake.cube.store.layout import index_path
from hipslake.cube.store.metadata import CubeDatasetMetadata
from hipslake.predicates.conditions import Conjunction
from hipslake.specs.cube_spec import CubeColumns
from hipslake.storage.folder import Storage

from benchmarks import machine
from benchmarks.processes import ROOT, environment
from benchmarks.sizes import format_count

FILES = 1_000_000
KEPT = ROOT / "docs" / "benchmarks" / "cube_planning.md"
BAR_SECONDS, BAR_BYTES = 20.0, 4e9
ROLES = CubeColumns(
    dimension_columns=("x",), partition_columns=("p", "q"), index_columns=("i",), suppress_index_on=("x",)
)
QUERIES: dict[str, tuple[Conjunction | None, str | None]] = {
    "everything": (None, None),
    "in a thousand groups": (None, "p"),
    "half of the index": (Conjunction.of(C("i") < FILES // 2), None),
    "one value of the index": (Conjunction.of(C("i") == 12_345), None),
    "one partition": ((C("p") == 17) & (C("q") == 4), None),
    "a restricted dataset": (Conjunction.of(C("w") > 0.5), None),
}


def write_cube(place: Storage, files: int) -> None:
    """Commit a cube of two datasets with so many files each, without the files."""
    side = round(files**0.5)
    p, q = (each.ravel() for each in np.meshgrid(np.arange(side), np.arange(side), indexing="ij"))

    def dataset(write_id: str, name: str, payload: dict[str, pa.DataType]) -> CubeDatasetMetadata:
        schema = pa.schema({"p": pa.int64(), "q": pa.int64(), "x": pa.int64(), **payload})
        paths = [
            f"{write_id}/{name}/p={a}/q={b}/{write_id}-{n:05d}-000.parquet"
            for n, (a, b) in enumerate(zip(p.tolist(), q.tolist(), strict=True))
        ]
        table = pa.table(
            {
                "p": p,
                "q": q,
                "__path": paths,
                "__rows": np.full(len(p), 1_000_000),
                "__bytes": np.full(len(p), 250 << 20),
                "__sha256": pa.repeat(pa.scalar("0" * 64), len(p)),
            }
        )
        indices = {}
        if "i" in payload:
            path = index_path(write_id, name, "i", 0)
            values = np.random.default_rng(1).permutation(len(p))
            index = pa.table({"i": values, labels_column(name): paths}).sort_by("i")
            place.write(path, encoded(index, ["i"]))
            indices["i"] = [path]
        return described(place, write_id, name, schema, ["p", "q"], table, indices)

    def work(write_id: str, base: object) -> Draft:
        more = dataset(write_id, "more", {"w": pa.float64()})
        return Draft("wide", ROLES, 1_000_000, [more, dataset(write_id, "seed", {"i": pa.int64()})])

    commit(place, "build", work)


def measure(uri: str, what: str) -> dict[str, Any]:
    """Plan one query, up to the list of what is read; what that took."""
    began = time.perf_counter()
    conditions, partition_by = QUERIES[what]
    plan = Cube.open(uri).plan(conditions=conditions, partition_by=partition_by)
    partitions = sum(1 for _ in plan.reads())
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "query": what,
        "seconds": seconds,
        "bytes": peak,
        "files": plan.files,
        "groups": len(plan.groups),
        "partitions": partitions,
    }


def report(found: Sequence[dict[str, Any]], files: int) -> tuple[str, bool]:
    """The outcome as Markdown, and whether every bar was kept."""
    about = machine.describe(sys.executable)
    lines = [
        "# Planning of cubes",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, {about['processor']}, {about['cores']} cores. Queries of a cube of "
        f"two datasets of {format_count(files)} files each, planned from its opening to the list of what is "
        "read: no data file is opened. Each in a process of its own, whose memory is told. Made by "
        "`make bench-cube`.",
        "",
        "| query | partitions | groups | files to open | seconds | peak GB |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {each['query']} | {each['partitions']:,} | {each['groups']:,} | {each['files']:,} | "
        f"{each['seconds']:.1f} | {each['bytes'] / 1e9:.2f} |"
        for each in found
    ]
    bars = {
        f"every plan takes at most {BAR_SECONDS:.0f} s": max(each["seconds"] for each in found)
        <= BAR_SECONDS,
        f"and at most {BAR_BYTES / 1e9:.0f} GB": max(each["bytes"] for each in found) <= BAR_BYTES,
    }
    lines += ["", *(f"- {bar}: {'pass' if kept else 'FAIL'}" for bar, kept in bars.items())]
    return "\n".join(lines), all(bars.values())


def main() -> int:
    """Write the cube, plan, tell, and keep what was told; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=FILES, help="per dataset (default: %(default)s)")
    parser.add_argument("--plan", nargs=2, metavar=("URI", "QUERY"), help="for the benchmark itself")
    given = parser.parse_args()
    if given.plan:
        print(json.dumps(measure(*given.plan)))
        return 0
    found = []
    with tempfile.TemporaryDirectory(prefix="bench-cube-") as folder:
        place = Storage.at(Path(folder) / "wide")
        write_cube(place, given.files)
        for what in QUERIES:
            command = [sys.executable, "-m", "benchmarks.cube_planning", "--plan", place.uri(), what]
            done = subprocess.run(
                command, stdout=subprocess.PIPE, text=True, check=True, env=environment(), cwd=ROOT
            )
            found.append(json.loads(done.stdout.splitlines()[-1]))
    text, passed = report(found, given.files)
    print(text)
    if given.files == FILES:
        KEPT.write_text(text + "\n")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
