"""Matches of STILTS, the field's own program, to hold ours against.

Source: SUN/256, tmatch2; Debian's package `stilts`.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

ROOT = Path(__file__).parents[2]


class Paired(NamedTuple):
    """Numbers of the rows of each pair, and what STILTS calls its score."""

    left: np.ndarray
    right: np.ndarray
    score: np.ndarray

    @property
    def pairs(self) -> set[tuple[int, int]]:
        return set(zip(self.left.tolist(), self.right.tolist(), strict=True))


def find_stilts() -> list[str] | None:
    """The command that starts it: the system's, or that of Debian's packages unpacked in the checkout."""
    if found := shutil.which("stilts"):
        return [found]
    jars = ROOT / ".stilts" / "usr" / "share" / "java"
    java = shutil.which("java")
    if java is None or not (jars / "starlink-ttools.jar").exists():
        return None
    return [java, "-cp", f"{jars}/*", "uk.ac.starlink.ttools.Stilts"]


def needed_stilts() -> list[str]:
    """The same, or the test is skipped."""
    command = find_stilts()
    if command is None:
        pytest.skip("there is no stilts; on Debian and Ubuntu, include/setup/setup.sh stilts gets it")
    return command


def stilts_match(
    folder: Path,
    left: pa.Table,
    right: pa.Table,
    *,
    matcher: str,
    values: str,
    scale: float,
    find: str = "all",
) -> Paired:
    """Match two tables with columns `id` and those that `values` names (degrees, errors in arcseconds)."""
    command = needed_stilts()
    for name, table in (("left", left), ("right", right)):
        pyarrow.csv.write_csv(table.select(["id", *values.split()]), folder / f"{name}.csv")
    out = folder / "found.csv"
    command += ["tmatch2", f"matcher={matcher}", f"params={scale}", f"find={find}", "progress=none"]
    command += [f"in1={folder}/left.csv", f"in2={folder}/right.csv", "ifmt1=csv", "ifmt2=csv"]
    command += [f"values1={values}", f"values2={values}", f"out={out}", "ofmt=csv"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    names = out.read_text().partition("\n")[0].split(",")
    if len(out.read_text().splitlines()) == 1:
        return Paired(np.empty(0, int), np.empty(0, int), np.empty(0))
    found = pyarrow.csv.read_csv(out)
    score = next(name for name in names if name in ("Separation", "Score"))
    return Paired(*(found[name].to_numpy() for name in ("id_1", "id_2", score)))


def stilts_star(
    folder: Path, tables: Sequence[pa.Table], *, radius_arcsec: float
) -> set[tuple[int | None, ...]]:
    """Match the first of several tables with each of the others: the numbers of its rows and their nearest.

    Rows of the first without any partner are left out. Source: SUN/256, tmatchn, `multimode=pairs`.
    """
    command = needed_stilts()
    out = folder / "star.csv"
    command += ["tmatchn", f"nin={len(tables)}", "multimode=pairs", "iref=1", "matcher=sky", "progress=none"]
    command += [f"params={radius_arcsec}", f"out={out}", "ofmt=csv", "fixcols=all"]
    for at, table in enumerate(tables, 1):
        pyarrow.csv.write_csv(table.select(["id", "ra", "dec"]), folder / f"star_{at}.csv")
        command += [f"in{at}={folder}/star_{at}.csv", f"ifmt{at}=csv", f"values{at}=ra dec"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = pyarrow.csv.read_csv(out)
    return set(zip(*(found[f"id_{at + 1}"].to_pylist() for at in range(len(tables))), strict=True))
