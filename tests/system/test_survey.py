"""Thirty nights of a survey: a footprint that moves, repeats, a late night, a night twice, an empty one."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake import Catalog

from tests.steps import in_process
from tests.steps.nights import Survey, night_rows

EMPTY, LATE, TWICE = 12, 5, (8, 20)
COLUMNS = ["id", "ra", "dec", "mag", "night"]


def arrivals() -> list[int]:
    """The nights in the order in which they come."""
    nights = [night for night in range(30) if night != LATE]
    nights.insert(18, LATE)
    for night in TWICE:
        nights.insert(nights.index(night) + 3, night)
    return nights


@pytest.fixture(scope="module")
def ask_lsdb(peers_python: str) -> Iterator[Callable[[Path], dict[str, Any]]]:
    """What LSDB, in a process of its own, reads in a catalog."""
    script = str(Path(__file__).with_name("lsdb_counts.py"))
    with subprocess.Popen(
        [peers_python, script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # bars of progress
        text=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        told, answers = process.stdin, process.stdout

        def ask(root: Path) -> dict[str, Any]:
            print(root, file=told, flush=True)
            answer: dict[str, Any] = json.loads(answers.readline())
            return answer

        yield ask
        told.close()


@pytest.mark.slow
@pytest.mark.parametrize("append", ["rewrite", "add_file"])
def test_every_version_is_whole_and_the_end_is_one_ingest_of_all(
    tmp_path: Path, ask_lsdb: Callable[[Path], dict[str, Any]], append: str
) -> None:
    more = f"append: {append}\nmargin: {{arcsec: [600]}}"
    survey = Survey(tmp_path, threshold="150 rows", more=more)
    held: list[pa.Table] = []
    for number, night in enumerate(arrivals()):
        survey.land(night, night_rows(night, rows=0 if night == EMPTY else 150, seed=number))
        folder = survey.start(night)
        report = in_process.append(folder)
        in_process.show(folder)
        survey.assert_holds_what_landed()
        if append == "add_file" and number % 8 == 7:
            survey.compact()
            in_process.show(survey.begin())
            survey.assert_holds_what_landed()
        told = ask_lsdb(survey.root)
        ids = sorted(id_ for table in survey.landed.values() for id_ in table["id"].to_pylist())
        # The strict validation of hats 0.11.1 counts files, not leaves, and LSDB itself reads all of them.
        [group] = survey.catalog.metadata.groups
        one_each = group.files == group.leaves
        assert told == {"rows": len(ids), "said": len(ids), "ids": ids, "valid": True, "strictly": one_each}
        assert report.version == len(held) + 1
        while len(held) < survey.catalog.version:  # a compaction is a version of its own
            held.append(survey.catalog.read())
    for version, rows in enumerate(held, start=1):
        assert Catalog.open(survey.root, version=version).read().equals(rows)
    assert one_ingest(survey, tmp_path / "whole").equals(in_order(survey.catalog.read()))


def one_ingest(survey: Survey, place: Path) -> pa.Table:
    """The rows of a catalog that is made of all nights at once."""
    landing = place / "landing"
    landing.mkdir(parents=True)
    for night, table in survey.landed.items():
        pq.write_table(table, landing / f"{night}.parquet")
    spec = in_process.write_spec(place / "stars.yaml", f"{landing}/*.parquet", threshold="150 rows")
    folder = in_process.start(place / "warehouse", spec)
    in_process.freeze(folder)
    in_process.count(folder)  # crowded fields are counted deeper
    for step in (in_process.make_plan, in_process.write_leaves, in_process.check, in_process.commit):
        step(folder)
    return in_order(Catalog.open(place / "warehouse" / "catalogs" / "stars").read())


def in_order(table: pa.Table) -> pa.Table:
    return table.select(["_healpix_29", *COLUMNS]).sort_by("id").combine_chunks()
