"""Matches in memory of a large catalog with small ones, for `make bench-small`: ours, counts, and LSDB.

Each small catalog is matched from both sides: as one whose rows are held, by whole leaves as large catalogs
are matched (without a margin, which is the least work), and counted. What is read of the large catalog is
weighed, and the pairs are held against a k-d tree of all rows.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import healpy
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hipslake import Catalog
from hipslake.catalog.joining import small_sides
from scipy.spatial import cKDTree

from benchmarks.processes import run_measured
from benchmarks.small_side_skies import LARGE, LITTLE_ROWS, PATCH, WHOLE, little_name

RADIUS = 10.0  # arcseconds
SPEEDUP_BAR, COUNT_BAR = 3.0, 0.5
HELD, WHOLE_LEAVES, COUNTED = "held", "whole leaves", "counted"


def sides(name: str) -> Iterator[tuple[str, str]]:
    """A small catalog and the large one, in both orders."""
    yield name, LARGE
    yield LARGE, name


def names() -> list[str]:
    """The small catalogs."""
    return [little_name(place, rows) for place in (PATCH, WHOLE) for rows in LITTLE_ROWS]


def measure(warehouse: Path, repeats: int) -> list[dict[str, Any]]:
    """Match all small catalogs with the large one; seconds are medians."""
    logging.getLogger("hipslake").setLevel(logging.ERROR)  # what is said of rows near borders
    catalogs = {each: Catalog.open(warehouse / "catalogs" / each) for each in (LARGE, *names())}
    found = []
    for name in names():
        for left, right in sides(name):
            both = catalogs[left], catalogs[right]
            told: dict[str, Any] = {"left": left, "right": right}
            for way in (HELD, WHOLE_LEAVES, COUNTED):
                with _matched_by(way):
                    _match(*both, way)  # files are in the memory of the machine from now on
                    seconds = []
                    for _ in range(repeats):
                        started = time.perf_counter()
                        rows = _match(*both, way)
                        seconds.append(time.perf_counter() - started)
                    with _read_of_large() as read:
                        _match(*both, way)
                told[way] = {"seconds": median(seconds), **read}
                if way != COUNTED:
                    told[way] |= {"pairs": rows.num_rows, "digest": _digest(rows, left)}
                else:
                    told[way] |= {"pairs": rows.rows}
            found.append(told)
            print(f"{left} x {right}: {told[HELD]['seconds']:.2f} s", flush=True)
    wanted = _by_tree(catalogs)
    for told in found:
        told["digest"] = wanted[told["left"], told["right"]]
    return found


def measure_peer(warehouse: Path, folder: Path, peers_python: str, repeats: int) -> dict[str, float]:
    """Seconds of the same matches by LSDB, by "left x right"; its workers are up before."""
    report = folder / "lsdb_small_sides.json"
    report.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        command = [peers_python, "-m", "benchmarks.lsdb_small_sides", f"--catalogs={warehouse / 'catalogs'}"]
        command += [
            f"--report={report}",
            f"--scratch={scratch}",
            f"--repeats={repeats}",
            f"--radius={RADIUS}",
        ]
        pairs = [f"{left}:{right}" for name in names() for left, right in sides(name)]
        run_measured([*command, *pairs], log=folder / "lsdb_small_sides.log")
    told: dict[str, list[float]] = json.loads(report.read_text())
    return {which: median(seconds) for which, seconds in told.items()}


def _match(left: Catalog, right: Catalog, way: str) -> Any:
    count_only = way == COUNTED
    return left.crossmatch(right, radius_arcsec=RADIUS, missing_margin="none", count_only=count_only)


@contextlib.contextmanager
def _matched_by(way: str) -> Iterator[None]:
    """Whether a small side is held, as it is by itself."""
    most = small_sides.MOST_ROWS
    if way == WHOLE_LEAVES:
        small_sides.MOST_ROWS = -1
    try:
        yield
    finally:
        small_sides.MOST_ROWS = most


@contextlib.contextmanager
def _read_of_large() -> Iterator[dict[str, int]]:
    """Row groups of the large catalog that are read, and the bytes of the columns that are read of them."""
    read: dict[str, int] = {"row_groups": 0, "bytes": 0}
    plain, seen = pq.ParquetFile.read_row_groups, set()

    def watched(file: pq.ParquetFile, groups: list[int], columns: Any = None, **more: Any) -> pa.Table:
        if "mag" in file.schema_arrow.names:
            for number in groups:
                group = file.metadata.row_group(number)
                chunks = [group.column(at) for at in range(group.num_columns)]
                read["bytes"] += sum(
                    each.total_compressed_size
                    for each in chunks
                    if columns is None or each.path_in_schema in columns
                )
                seen.add((chunks[0].statistics.min, chunks[0].statistics.max))
        return plain(file, groups, columns, **more)

    pq.ParquetFile.read_row_groups = watched
    try:
        yield read
    finally:
        pq.ParquetFile.read_row_groups = plain
        read["row_groups"] = len(seen)


def _digest(rows: pa.Table, left: str) -> str:
    """What tells whether two outcomes have the same pairs: of the numbers of both sides, sorted."""
    mine, others = ("id", "alert") if left == LARGE else ("alert", "id")
    return _digest_of(rows[mine].to_numpy(), rows[others].to_numpy())


def _digest_of(left: np.ndarray, right: np.ndarray) -> str:
    along = np.lexsort((right, left))
    return hashlib.sha256(np.stack([left[along], right[along]]).astype(np.int64).tobytes()).hexdigest()


def _by_tree(catalogs: dict[str, Catalog]) -> dict[tuple[str, str], str]:
    """The digests of the nearest pairs, by k-d trees of the rows in the leaf files, read by pyarrow alone."""
    chord = 2.0 * np.sin(np.radians(RADIUS / 3600) / 2.0)
    little, near = {}, {}
    for name in names():
        rows = pa.concat_tables(_leaves_of(catalogs[name], ["alert", "ra", "dec"]))
        little[name] = rows["alert"].to_numpy(), _vectors(rows)
        near[name] = []
    trees = {name: cKDTree(vectors) for name, (_, vectors) in little.items()}
    for leaf in _leaves_of(catalogs[LARGE], ["id", "ra", "dec"]):
        ids, vectors = leaf["id"].to_numpy(), _vectors(leaf)
        for name, tree in trees.items():
            apart, _ = tree.query(vectors, distance_upper_bound=chord * (1 + 1e-9))
            some = np.isfinite(apart)
            near[name].append((ids[some], vectors[some]))
    found = {}
    for name, (alerts, vectors) in little.items():
        ids, places = (np.concatenate(each) for each in zip(*near[name], strict=True))
        for left, right in sides(name):
            one, other = ((alerts, vectors), (ids, places))
            if left == LARGE:
                one, other = other, one
            apart, at = cKDTree(other[1]).query(one[1], distance_upper_bound=chord)
            some = np.isfinite(apart)
            found[left, right] = _digest_of(one[0][some], other[0][at[some]])
    return found


def _leaves_of(catalog: Catalog, columns: list[str]) -> Iterator[pa.Table]:
    for path in catalog.metadata.partitions(None, catalog.storage)["path"].to_pylist():
        yield pq.ParquetFile(catalog.storage.uri(path)).read(columns)


def _vectors(rows: pa.Table) -> np.ndarray:
    vectors: np.ndarray = healpy.ang2vec(rows["ra"].to_numpy(), rows["dec"].to_numpy(), lonlat=True)
    return vectors


def lines(found: list[dict[str, Any]], peer: dict[str, float]) -> tuple[list[str], dict[str, bool]]:
    """The table of a page, and the bars with whether they were kept."""
    told = [
        "",
        f"Small catalogs in a patch of 144 square degrees (`{PATCH}`) or over the whole sky (`{WHOLE}`), "
        f"and the large one: the nearest within {RADIUS:g} arcsec, all columns, by `Catalog.crossmatch`, "
        "files in the memory of the machine. `whole leaves` matches as catalogs are matched of which neither "
        "is small, without a margin, so that pairs over the borders of right leaves are missing; LSDB "
        "computes the same with its two workers up. Row groups and MB are those that are read of the large "
        "catalog, held and by whole leaves.",
        "",
        "| left x right | pairs | held, s | whole leaves, s | LSDB, s | counted, s | row groups | by leaves "
        "| MB | by leaves |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    bars: dict[str, bool] = {}
    for each in found:
        which = f"{each['left']} x {each['right']}"
        held, whole, counted = (each[way] for way in (HELD, WHOLE_LEAVES, COUNTED))
        beside = peer.get(which)
        peers = "" if beside is None else f"{beside:.2f}"
        told.append(
            f"| {which} | {held['pairs']} | {held['seconds']:.2f} | {whole['seconds']:.2f} "
            f"| {peers} | {counted['seconds']:.2f} | {held['row_groups']} "
            f"| {whole['row_groups']} | {held['bytes'] / 1e6:.1f} | {whole['bytes'] / 1e6:.1f} |"
        )
        bars[f"{which}: the pairs of a k-d tree"] = held["digest"] == each["digest"]
        bars[f"{which}: as many are counted"] = counted["pairs"] == held["pairs"]
        ratio = whole["seconds"] / held["seconds"]
        bars[f"{which}: {ratio:.1f} times as fast as by whole leaves, {SPEEDUP_BAR:g}"] = ratio >= SPEEDUP_BAR
        if beside is not None:
            ratio = beside / held["seconds"]
            bars[f"{which}: {ratio:.1f} times as fast as LSDB, {SPEEDUP_BAR:g}"] = ratio >= SPEEDUP_BAR
    return told, bars


if __name__ == "__main__":  # in a process of its own, for `benchmarks.small_sides`
    _warehouse, _repeats, _report = sys.argv[1:]
    Path(_report).write_text(json.dumps(measure(Path(_warehouse), int(_repeats))))
