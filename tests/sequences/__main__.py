"""Random sequences of commits to catalogs in mode upsert: `python -m tests.sequences`.

Each sequence is a catalog of its own, whose layout, column groups and ways of appending take turns; a
quarter of them keep intervals of validity. After each commit the catalog is verified, its leaf files are read
by plain pyarrow, and the changes between two of its versions are compared with what these held. LSDB reads
some of the catalogs at their end.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.airflow_home import PROJECT
from tests.pictures import BLANK_PNG
from tests.sequences.story import SHAPES, Shape, story_of
from tests.trust.records import SEQUENCES, note

LSDB_COUNTS = PROJECT / "tests" / "system" / "lsdb_counts.py"


class Told(NamedTuple):
    """What came of a sequence."""

    seed: int
    commits: int
    events: Counter[str]
    ids: list[int]  # of the rows that it ended with, ascending
    error: str  # "" if all went well
    seconds: float

    @property
    def shape(self) -> Shape:
        """Of its catalog."""
        return SHAPES[self.seed % len(SHAPES)]


def main() -> int:
    """Run the sequences; the exit code says whether all held."""
    parser = argparse.ArgumentParser(prog="python -m tests.sequences", description=__doc__)
    parser.add_argument("--sequences", type=int, default=500)
    parser.add_argument("--commits", type=int, default=20, help="of each sequence")
    parser.add_argument("--seed", type=int, default=0, help="of the first; the others count on from it")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--lsdb-every", type=int, default=10, help="one of so many is read by LSDB; 0: none")
    parser.add_argument("--peers-python", default=str(PROJECT / ".venv-peers" / "bin" / "python"))
    given = parser.parse_args()
    start = time.monotonic()
    seeds = range(given.seed, given.seed + given.sequences)
    by_lsdb = {seed for seed in seeds if given.lsdb_every and is_read_by_lsdb(seed, given.lsdb_every)}
    told: list[Told] = []
    with tempfile.TemporaryDirectory(prefix="hipslake-sequences-") as place:
        with ProcessPoolExecutor(given.processes, initializer=collect_rarely) as pool:
            running = [
                pool.submit(tell, Path(place) / str(seed), seed, given.commits, seed in by_lsdb)
                for seed in seeds
            ]
            for done in as_completed(running):
                one = done.result()
                told.append(one)
                if one.error:
                    print(f"sequence {one.seed}, {one.shape}:\n{one.error}", flush=True)
                if len(told) % 25 == 0:
                    print(f"{len(told)} sequences, {time.monotonic() - start:.0f} s", flush=True)
        roots = {
            one.seed: Path(place) / str(one.seed) / "warehouse" / "catalogs" / "stars"
            for one in told
            if one.seed in by_lsdb and one.ids and not one.error
        }
        wrong = read_by_lsdb(given.peers_python, roots, {one.seed: one.ids for one in told}) if roots else []
    for line in wrong:
        print(line)
    failed = sorted(one.seed for one in told if one.error)
    events: Counter[str] = sum((one.events for one in told), Counter())
    outcome = noted(told, set(roots), len(wrong), time.monotonic() - start)
    print(json.dumps(outcome | {"failed": failed, "wrong in LSDB": len(wrong), "events": events}))
    return 1 if failed or wrong else 0


def noted(told: list[Told], by_lsdb: set[int], wrong: int, seconds: float) -> dict[str, object]:
    """Keep what came of the sequences for docs/reliability.md, by shape and in all; give the latter."""

    def counts(those: list[Told], seconds: float) -> dict[str, object]:
        return {
            "sequences": len(those),
            "commits": sum(one.commits for one in those),
            "refused": sum(one.events["refused"] for one in those),
            "read by LSDB": sum(one.seed in by_lsdb for one in those),
            "failed": sum(bool(one.error) for one in those),
            "seconds": round(seconds),
        }

    for shape in SHAPES:
        those = [one for one in told if one.shape == shape]
        if not those:
            continue
        note(SEQUENCES, str(shape), **counts(those, sum(one.seconds for one in those)))
    whole = counts(told, seconds)
    whole["failed"] = (
        f"{whole['failed']}, and {wrong} that LSDB reads otherwise" if wrong else whole["failed"]
    )
    note(SEQUENCES, "all", **whole)
    return whole


def is_read_by_lsdb(seed: int, every: int) -> bool:
    """Whether a sequence is among those that LSDB reads: catalogs in its layout, of each kind in turn."""
    hats = [at for at, shape in enumerate(SHAPES) if shape.layout == "hats"]
    turn, at = divmod(seed, len(SHAPES))
    return at in hats and (turn * len(hats) + hats.index(at)) % max(1, every * len(hats) // len(SHAPES)) == 0


def collect_rarely() -> None:
    """Keep what was imported, millions of objects, out of later garbage collections."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def tell(place: Path, seed: int, commits: int, kept: bool) -> Told:
    """Go through a sequence in a folder, which stays, with the catalog shown to LSDB, if it is `kept`."""
    start = time.monotonic()
    place.mkdir()
    story = story_of(place, seed)
    error = ""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hipslake.catalog.hats.skymap.draw_skymap", lambda *drawn: BLANK_PNG)
        if seed // len(SHAPES) % 3 == 2:
            small_tasks(patch)
        else:  # the sequences themselves run side by side
            patch.setattr(os, "cpu_count", lambda: 1)
        try:
            story.go_on(commits)
            if kept:
                story.show()
        except Exception:
            error = f"{story.happened}\n{traceback.format_exc()}"
    ids = story.ids
    if not kept and not error:
        shutil.rmtree(place)
    return Told(seed, story.commits, Counter(story.happened), ids, error, time.monotonic() - start)


def small_tasks(patch: pytest.MonkeyPatch) -> None:
    """Have the steps cut so small a catalog into many tasks, files and runs, as they do large ones."""
    patch.setattr("hipslake.steps.ingest.night_records._TARGET_BYTES", 1500)
    patch.setattr("hipslake.steps.append.set_aside._PART_ROWS", 7)
    patch.setattr("hipslake.steps.append.returning_rows._PART_ROWS", 5)
    patch.setattr("hipslake.catalog.records.run_merging.FAN_IN", 3)


def read_by_lsdb(python: str, roots: dict[int, Path], ids: dict[int, list[int]]) -> list[str]:
    """Have LSDB read catalogs in one process; a line for each that it does not read as it should."""
    asked = "".join(f"{root}\n" for root in roots.values())
    told = subprocess.run(
        [python, str(LSDB_COUNTS)],
        input=asked,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # bars of progress
        text=True,
        check=True,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
    ).stdout.splitlines()
    assert len(told) == len(roots)
    wrong = []
    for seed, line in zip(roots, told, strict=True):
        found, expected = json.loads(line), ids[seed]
        if (found["ids"], found["rows"], found["said"]) != (expected, len(expected), len(expected)):
            wrong.append(f"sequence {seed}: LSDB reads {line}, where the ids are {expected}")
        elif not found["valid"]:
            wrong.append(f"sequence {seed}: hats says that the catalog is not valid")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
